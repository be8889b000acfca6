// The unigram language model: the most likely division into tokens (Kudo, 2018;
// Viterbi's algorithm, ties as SentencePiece breaks them).
#include "serving/tokenizer/ByteTrie.h"
#include "serving/tokenizer/TokenModel.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

/// The nearest number; of at most 308.
double powerOfTen(int exponent) {
  constexpr double often[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                              1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                              1e14, 1e15, 1e16, 1e17, 1e18};
  if (exponent < static_cast<int>(std::size(often)))
    return often[exponent];
  double power = 1;
  char text[8] = "1e";
  char *end = std::to_chars(text + 2, std::end(text), exponent).ptr;
  std::from_chars(text, end, power);
  return power;
}

/// What `tokenizers` reads where a file has this number: its JSON library
/// (serde_json) divides the digits, as one integer, by a power of ten, and is
/// off by a last bit at times. That decides between divisions into the same
/// tokens in another order, whose sums differ by rounding alone. Of a file
/// whose numbers have the fewest digits that name them, as `tokenizers` writes;
/// the digits of another are gone with its text.
double scoreOf(double exact) {
  char text[32];
  char *end = std::to_chars(text, std::end(text), std::abs(exact),
                            std::chars_format::scientific)
                  .ptr;
  uint64_t digits = 0;
  int exponent = 0;
  const char *at = text;
  for (bool fraction = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= fraction;
  }
  int written = 0;
  if (at != end) {
    at += at[1] == '+' ? 2 : 1;
    std::from_chars(at, end, written);
  }
  exponent += written;
  auto read = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308)
    read /= 1e308;
  double power = powerOfTen(std::abs(exponent));
  read = exponent < 0 ? read / power : read * power;
  return std::copysign(read, exact);
}

class UnigramModel : public TokenModel {
public:
  void tokenize(std::string_view piece,
                std::vector<int32_t> &ids) const override {
    struct Node {
      double score = 0;
      size_t begin = 0;
      int32_t id = -1;
      bool reached = false;
    };
    std::vector<Node> best(piece.size() + 1);
    for (size_t at = 0; at < piece.size();) {
      size_t length = std::min(utf8Length(piece[at]), piece.size() - at);
      double score = best[at].score;
      bool hasCharacter = false;
      uint32_t node = ByteTrie::root;
      for (size_t end = at; end < piece.size();) {
        node = trie.step(node, piece[end++]);
        if (node == ByteTrie::none)
          break;
        int32_t id = trie.value(node);
        if (id < 0)
          continue;
        Node &target = best[end];
        double sum = score + scores[id];
        if (!target.reached || sum > target.score)
          target = {sum, at, id, true};
        hasCharacter |= end - at == length;
      }
      if (!hasCharacter) {
        Node &target = best[at + length];
        double sum = score + unknownScore;
        if (!target.reached || sum > target.score)
          target = {sum, at, unknown, true};
      }
      at += length;
    }
    // Read from the end; neighbouring unknown parts are one.
    std::vector<std::pair<size_t, size_t>> parts;
    std::vector<int32_t> tokens;
    for (size_t end = piece.size(); end > 0;) {
      const Node &node = best[end];
      if (node.id == unknown && !tokens.empty() && tokens.back() == unknown) {
        parts.back().first = node.begin;
      } else {
        parts.push_back({node.begin, end});
        tokens.push_back(node.id);
      }
      end = node.begin;
    }
    for (size_t i = tokens.size(); i-- > 0;) {
      std::string_view part =
          piece.substr(parts[i].first, parts[i].second - parts[i].first);
      if (tokens[i] == unknown)
        appendUnknown(part, ids);
      else
        ids.push_back(tokens[i]);
    }
  }

  Status read(const Json &json) {
    auto list = json.find("vocab");
    if (list == json.end() || !list->is_array())
      return userError("the model has no \"vocab\"", "tokenizer.json");
    double lowest = std::numeric_limits<double>::infinity();
    int32_t id = 0;
    for (const Json &entry : *list) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_number() ||
          !vocabulary.add(entry[0].get_ref<const std::string &>(), id))
        return userError("token " + std::to_string(id) + " is damaged",
                         "tokenizer.json");
      trie.insert(entry[0].get_ref<const std::string &>(), id);
      scores.push_back(scoreOf(entry[1].get<double>()));
      lowest = std::min(lowest, scores.back());
      ++id;
    }
    const Json named = json.value("unk_id", Json());
    if (!named.is_number_integer() || named.get<int64_t>() < 0 ||
        named.get<int64_t>() >= id)
      return userError("the model's \"unk_id\" is not in its vocabulary",
                       "tokenizer.json");
    unknown = named.get<int32_t>();
    unknownScore = lowest - 10; // SentencePiece's penalty
    byteFallback = flagOf(json, "byte_fallback", false);
    findByteTokens(byteTokens);
    return success();
  }

private:
  void appendUnknown(std::string_view part, std::vector<int32_t> &ids) const {
    if (int32_t id = vocabulary.find(part); id >= 0) {
      ids.push_back(id);
      return;
    }
    auto token = [&](char byte) {
      return byteTokens[static_cast<unsigned char>(byte)];
    };
    if (byteFallback && std::all_of(part.begin(), part.end(), [&](char byte) {
          return token(byte) >= 0;
        }))
      for (char byte : part)
        ids.push_back(token(byte));
    else
      ids.push_back(unknown);
  }

  ByteTrie trie;
  std::vector<double> scores;
  std::vector<int32_t> byteTokens;
  double unknownScore = 0;
  int32_t unknown = -1;
  bool byteFallback = false;
};

} // namespace

Expected<std::unique_ptr<TokenModel>> readUnigramModel(const Json &json) {
  auto model = std::make_unique<UnigramModel>();
  TRY(model->read(json));
  return std::unique_ptr<TokenModel>(std::move(model));
}

} // namespace knapper::serving
