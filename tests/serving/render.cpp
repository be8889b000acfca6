// Chat templates, for comparison with Jinja2:
//   render < lines > results
// A line of JSON each: {"template": ..., "variables": {...}, "names": {...}};
// a line for each: {"text": ..., "literal": [[begin, end], ...]} or {"error":
// ...}.
#include "serving/chat/ChatTemplate.h"

#include <iostream>

using namespace knapper::serving;
using Json = OrderedJson;

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json given = Json::parse(line);
    Json made;
    auto parsed = ChatTemplate::parse(given["template"].get<std::string>());
    if (!parsed) {
      made["error"] = parsed.error().message();
    } else {
      auto rendered = parsed->render(
          given["variables"],
          given["names"].get<std::map<std::string, std::string>>());
      if (rendered) {
        made["text"] = rendered->text;
        made["literal"] = Json::array();
        for (auto range : rendered->literal)
          made["literal"].push_back({range.begin, range.end});
      } else {
        made["error"] = rendered.error().message();
      }
    }
    // A message may cite a part of a character.
    std::cout << made.dump(-1, ' ', false, Json::error_handler_t::replace)
              << "\n";
  }
  return 0;
}
