//===- CompilerFlags.h - The options table as command line flags ----------===//
#pragma once

#include "compiler/options/Options.h"
#include "tools/knapper/Session.h"

#include <deque>
#include <initializer_list>

namespace knapper::cli {

/// Every row of compiler/options/Options.def as a flag: `--name TEXT`, and
/// `--name` or `--no-name` for a switch. Values are checked by the table.
class CompilerFlags {
public:
  void addTo(CLI::App &app,
             std::initializer_list<std::string_view> except = {});
  /// The rows given on the command line, with their text.
  std::vector<std::pair<std::string, std::string>> given() const;
  /// Environment and command line as settings.
  Expected<Options> options() const;

private:
  struct Flag {
    const OptionRow *row = nullptr;
    CLI::Option *option = nullptr;
    std::vector<std::string> texts;
    bool on = false;
  };
  std::deque<Flag> flags; // CLI11 keeps addresses
};

} // namespace knapper::cli
