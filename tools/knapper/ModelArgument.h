//===- ModelArgument.h - A model that a command runs ----------------------===//
#pragma once

#include "tools/knapper/CompilerFlags.h"

namespace knapper::cli {

/// An artefact, or a model that is compiled first (the compile cache makes that
/// quick the second time).
class ModelArgument {
public:
  /// Adds the positional argument, the flags of loading and, in a group of
  /// their own, those of the compiler that make sense for a model that runs.
  void addTo(CLI::App &app);
  /// `describe`: also where the device is not here; the module then refuses to
  /// run.
  Expected<ModulePtr> open(Session &session, bool describe = false) const;
  /// Another artefact, loaded as this one is.
  Expected<ModulePtr> openBeside(const std::string &other) const;
  /// UserError for an artefact.
  Status canVerify() const;
  /// What knapper_verify says of the model on these inputs.
  Expected<std::string> verify(const std::vector<knapper_tensor> &inputs) const;

  const std::string &path() const { return file; }
  int threads() const { return loadThreads; }

private:
  /// Calls `use` with the options of a compile of `file`.
  template <typename Use> Status withOptions(Use use) const;
  knapper_load_options loadOptions() const;

  std::string file, isa, device;
  int loadThreads = 0;
  bool verifyFile = false;
  CompilerFlags flags;
};

/// --dim name=value of the commands that run a model; of most also --dim auto.
class Dims {
public:
  Dims() = default;
  explicit Dims(std::vector<std::pair<std::string, int64_t>> given)
      : pairs(std::move(given)) {}
  void addTo(CLI::App &app, const char *help);
  /// The same, and "auto": `Inputs::make` chooses the sizes that nothing gives.
  void addWithAutoTo(CLI::App &app);
  Status parse(); ///< after the command line
  const std::vector<std::pair<std::string, int64_t>> &values() const {
    return pairs;
  }
  bool isAuto() const { return automatic; }
  /// Gives a size that the user left to us.
  void choose(const std::string &name, int64_t value);
  /// "sizes chosen: batch=1, length=128\n"; empty where none was.
  std::string chosenText() const;

private:
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, int64_t>> pairs, chosen;
  bool allowsAuto = false, automatic = false;
};

/// Whether a file begins as an artefact does; not if it cannot be read.
bool isArtefact(const std::string &path);

} // namespace knapper::cli
