#include "tools/knapper/Session.h"

#include "runtime/base/OutputFile.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <unistd.h>

namespace knapper::cli {
namespace {

constexpr const char *levelNames[] = {"off", "error", "warning", "info",
                                      "debug"};

void showLog(void *, knapper_log_level level, const char *text) {
  fprintf(stderr, "knapper: %s: %s\n", levelNames[level],
          printable(text, /*lines=*/true).c_str());
}

int report(const Error &error) {
  const char *kind = error.kind == ErrorKind::user     ? "error"
                     : error.kind == ErrorKind::device ? "device error"
                                                       : "internal error";
  fprintf(stderr, "knapper: %s: %s\n", kind,
          printable(error.message(), /*lines=*/true).c_str());
  return error.kind == ErrorKind::user     ? 1
         : error.kind == ErrorKind::device ? 2
                                           : 3;
}

knapper_log_level levelOf(const std::string &name) {
  for (int i = 0; i < 5; ++i)
    if (name == levelNames[i])
      return static_cast<knapper_log_level>(i);
  return KNAPPER_LOG_WARNING;
}

/// The option or command below `command` that `word` may have meant; empty
/// where none is near.
std::string nearestName(const CLI::App &command, const std::string &word) {
  std::vector<std::string> names;
  if (word.starts_with("-")) {
    for (const CLI::App *app = &command; app; app = app->get_parent())
      for (const CLI::Option *option : app->get_options())
        for (const std::string &name : option->get_lnames())
          names.push_back("--" + name);
  } else {
    for (const CLI::App *below : command.get_subcommands({}))
      names.push_back(below->get_name());
  }
  std::string given = word.substr(0, word.find('=')), best;
  unsigned least = 3; // more letters are another word
  for (const std::string &name : names)
    if (unsigned distance = llvm::StringRef(given).edit_distance(name);
        distance < least && distance < name.size()) {
      least = distance;
      best = name;
    }
  return best;
}

} // namespace

void Session::addOptions(CLI::App &app) {
  app.add_option("--log-level", logLevelName,
                 "What is told on stderr: off, error, warning, info, debug")
      ->check(CLI::IsMember({"off", "error", "warning", "info", "debug"}))
      ->capture_default_str();
  app.add_option("--operators", operators,
                 "A shared object with custom operators "
                 "(docs/custom-operators.md); may be repeated")
      ->type_name("FILE.so")
      ->allow_extra_args(false);
}

void Session::raiseLogLevel(knapper_log_level level) {
  if (levelOf(logLevelName) < level)
    logLevelName = levelNames[level];
  knapper_set_log_callback(showLog, nullptr, level);
}

int Session::run() {
  knapper_log_level level = levelOf(logLevelName);
  if (level != KNAPPER_LOG_OFF)
    knapper_set_log_callback(showLog, nullptr, level);
  int code = 0;
  try {
    Status status = success();
    for (size_t i = 0; status && i < operators.size(); ++i)
      status = toStatus(knapper_load_operators(operators[i].c_str()));
    if (status)
      status = action();
    if (progressShown)
      progress("", 0, 0);
    if (!status)
      code = report(status.error());
    else
      code = exitCode;
  } catch (const std::bad_alloc &) {
    code = report(
        deviceError("out of memory", "", "use smaller inputs, or free memory"));
  } catch (const std::exception &e) {
    code = report(internalError(e.what()));
  }
  knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == exitCode)
    code = report(deviceError("the results could not be written", "stdout"));
  return code;
}

int Session::parsed(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0)
    return app.exit(error); // help: to stdout
  const CLI::App *command = &app;
  while (!command->get_subcommands().empty())
    command = command->get_subcommands().front();
  std::string name = command->get_name();
  for (const CLI::App *up = command->get_parent(); up; up = up->get_parent())
    name = up->get_name() + " " + name;
  std::string hint = name + " --help", what = error.what();
  if (error.get_name() == "RequiredError" &&
      !command->get_subcommands({}).empty())
    what = "no command is given";
  // What no command took is left at the top.
  if (std::vector<std::string> words = app.remaining(true); !words.empty()) {
    auto option = std::find_if(words.begin(), words.end(), [](auto &word) {
      return word.starts_with("-");
    });
    bool isOption = option != words.end();
    const std::string &word = isOption ? *option : words[0];
    if (isOption || !command->get_subcommands({}).empty())
      what = cat(isOption ? "there is no option '" : "there is no command '",
                 word, "'");
    std::string nearest = nearestName(*command, word);
    if (!nearest.empty())
      hint = cat("did you mean ", isOption ? "" : name + " ", nearest,
                 "? All of them: ", hint);
  }
  return report(userError(what, "command line", hint));
}

void Session::progress(const char *phase, int done, int total) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (!terminal || logLevelName == "off")
    return;
  fputs("\r\033[K", stderr);
  progressShown = done < total;
  if (progressShown)
    fprintf(stderr, "[%d/%d] %s", done + 1, total, phase);
  fflush(stderr);
}

Status toStatus(knapper_error *error) {
  if (!error)
    return success();
  Error copy;
  switch (knapper_error_get_kind(error)) {
  case KNAPPER_ERROR_USER:
    copy.kind = ErrorKind::user;
    break;
  case KNAPPER_ERROR_DEVICE:
    copy.kind = ErrorKind::device;
    break;
  case KNAPPER_ERROR_INTERNAL:
    copy.kind = ErrorKind::internal;
  }
  copy.what = knapper_error_get_message(error); // where and hint are inside
  knapper_error_release(error);
  return copy;
}

Expected<ResultPtr> run(knapper_module *module,
                        const std::vector<knapper_tensor> &inputs) {
  knapper_result *result = nullptr;
  TRY(toStatus(knapper_run(module, inputs.data(),
                           static_cast<int32_t>(inputs.size()), nullptr, 0,
                           &result)));
  return ResultPtr(result);
}

std::string takeString(char *text) {
  std::string copy = text ? text : "";
  knapper_string_release(text);
  return copy;
}

Status writeFile(const std::string &path, std::string_view text) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  while (!text.empty()) {
    ssize_t written = write(file.descriptor(), text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return OutputFile::writeError(file.name(), written < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return file.commit();
}

void print(std::string_view text) {
  fwrite(text.data(), 1, text.size(), stdout);
}

std::string bytesText(double bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit)
    bytes /= 1000;
  return unit ? format("%.1f %s", bytes, units[unit]) : format("%.0f B", bytes);
}

std::string format(const char *pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  int size = vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(size > 0 ? size : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

} // namespace knapper::cli
