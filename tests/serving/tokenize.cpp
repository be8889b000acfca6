// Tokens of texts, for comparison with another tokenizer:
//   tokenize tokenizer.json [plain] < texts > results
// A text a line, in JSON; a line of JSON for each: its tokens, their text, and
// what each of them added in a stream. With `plain` as well the special tokens'
// texts and the post-processor are left out. The last line is the seconds that
// encoding took.
#include "serving/tokenizer/Detokenizer.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace knapper::serving;
using Json = nlohmann::json;

int main(int argc, char **argv) {
  if (argc < 2)
    return 1;
  auto tokenizer = Tokenizer::load(argv[1]);
  if (!tokenizer) {
    std::cerr << tokenizer.error().message() << "\n";
    return 1;
  }
  EncodeOptions options;
  if (argc > 2)
    options.addSpecialTokens = options.parseSpecialTokens = false;
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);)
    texts.push_back(Json::parse(line).get<std::string>());
  std::vector<std::vector<int32_t>> all;
  auto start = std::chrono::steady_clock::now();
  for (const std::string &text : texts) {
    auto ids = (*tokenizer)->encode(text, options);
    if (!ids) {
      std::cerr << ids.error().message() << "\n";
      return 1;
    }
    all.push_back(std::move(*ids));
  }
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  for (const std::vector<int32_t> &ids : all) {
    Detokenizer stream(**tokenizer, false);
    Json parts = Json::array();
    for (int32_t id : ids)
      parts.push_back(stream.push(id));
    parts.push_back(stream.finish());
    std::cout << Json{{"ids", ids},
                      {"text", (*tokenizer)->decode(ids, false)},
                      {"parts", parts}}
                     .dump()
              << "\n";
  }
  std::cout << seconds << "\n";
  return 0;
}
