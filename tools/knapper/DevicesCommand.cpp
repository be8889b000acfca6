#include "tools/knapper/Session.h"

#include <nlohmann/json.hpp>

namespace knapper::cli {

void addDevices(CLI::App &app, Session &session) {
  struct Arguments {
    bool measure = false, json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command =
      app.add_subcommand("devices", "Lists the devices that models can run on");
  command->add_flag("--measure", arguments->measure,
                    "Also measure what they do at best: a second, then kept");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer("For example:\n"
                  "  knapper devices --measure");
  command->callback([&session, arguments] {
    session.action = [arguments]() -> Status {
      char *text = nullptr;
      TRY(toStatus(knapper_devices(arguments->measure, &text)));
      std::string json = takeString(text);
      if (arguments->json) {
        print(json + "\n");
        return success();
      }
      for (const auto &device : nlohmann::ordered_json::parse(json)) {
        print(printable(device.value("device", "")) + "\n");
        for (auto &[key, value] : device.items())
          if (key != "device")
            print(format("  %-20s ", key.c_str()) +
                  (value.is_string() ? printable(value.get<std::string>())
                   : value.is_number_float()
                       ? format("%.1f", value.get<double>())
                       : value.dump()) +
                  "\n");
      }
      return success();
    };
  });
}

} // namespace knapper::cli
