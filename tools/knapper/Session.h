//===- Session.h - What the commands of the tool share --------------------===//
//
// Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 the
// user's model, files or arguments, 2 the machine, 3 a defect of Knapper. A
// command that answers a question may have more.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "knapper/knapper.h"
#include "runtime/base/Error.h"
#include "runtime/base/Printable.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::cli {

/// The parsed command: parsing sets `action`, run() does it.
class Session {
public:
  /// --log-level and --operators, for every command.
  void addOptions(CLI::App &app);
  /// Does the action; returns the exit code.
  int run();
  /// Help or version asked for, or an error of the command line.
  int parsed(const CLI::App &app, const CLI::ParseError &error);

  /// "[2/8] simplify" on stderr if that is a terminal; done == total clears it.
  void progress(const char *phase, int done, int total);
  /// Messages of at least this level are shown from now on.
  void raiseLogLevel(knapper_log_level level);

  std::function<Status()> action;
  /// Of an action that succeeded.
  int exitCode = 0;

private:
  std::string logLevelName = "warning";
  std::vector<std::string> operators;
  bool progressShown = false;
};

/// Adds a command to the tool: one function a file.
using AddCommand = void(CLI::App &app, Session &session);
AddCommand addCompile, addRun, addBench, addExplain, addInspect, addDevices,
    addCache, addCompare, addProfile, addTune, addQuantize, addRecords,
    addServe, addBenchServe, addReplay, addChat, addVersion, addCompletion,
    addManPages, addTranslate;

/// The error of a C API call, which is released.
Status toStatus(knapper_error *error);
/// A string of the C API, which is released.
std::string takeString(char *text);

/// Writes a file, whole or not at all (`OutputFile`).
Status writeFile(const std::string &path, std::string_view text);
/// Writes to stdout.
void print(std::string_view text);
/// "12.3 MB".
std::string bytesText(double bytes);
/// printf into a string.
std::string format(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

struct ModuleRelease {
  void operator()(knapper_module *module) const {
    knapper_module_release(module);
  }
};
using ModulePtr = std::unique_ptr<knapper_module, ModuleRelease>;
struct ResultRelease {
  void operator()(knapper_result *result) const {
    knapper_result_release(result);
  }
};
using ResultPtr = std::unique_ptr<knapper_result, ResultRelease>;

/// A run whose outputs are the runtime's.
Expected<ResultPtr> run(knapper_module *module,
                        const std::vector<knapper_tensor> &inputs);

} // namespace knapper::cli
