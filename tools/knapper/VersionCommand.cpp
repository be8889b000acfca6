#include "tools/knapper/Session.h"

namespace knapper::cli {

void addVersion(CLI::App &app, Session &session) {
  CLI::App *command = app.add_subcommand("version", "Prints the version");
  command->callback([&session] {
    session.action = [] {
      print(format("knapper %s\n", knapper_version()));
      return success();
    };
  });
}

} // namespace knapper::cli
