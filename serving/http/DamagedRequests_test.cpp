// Requests, tokenizers and templates with bytes changed at random are read or
// refused: nothing crashes, and what is accepted keeps its bounds.
// KNAPPER_FUZZ_CASES and KNAPPER_FUZZ_SEED change the extent.
#include "serving/http/GenerationRequest.h"
#include "serving/testing/DamageTest.h"

#include <random>

namespace knapper::serving {
namespace {

constexpr const char *tokenizerJson = R"({
  "added_tokens": [{"id": 9, "content": "<s>", "special": true, "lstrip": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "b"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\p{L}+"}, "behavior": "MergedWithNext"},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]},
  "post_processor": {"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"ids": [9]}}},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "merges": ["a b", ["ab", "_"]],
    "vocab": {"a": 0, "b": 1, "ab": 2, "_": 3, "ab_": 4, "?": 5, "c": 6}}})";

constexpr const char *bodies[] = {
    R"({"model": "m", "messages": [{"role": "system", "content": "ab"}, {"role": "user",
     "content": [{"type": "text", "text": "ab c"}]}, {"role": "assistant", "tool_calls":
     [{"id": "1", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "temperature": 0.5,
     "stop": ["ab", "c"], "stream": true, "stream_options": {"include_usage": true}, "n": 2,
     "logit_bias": {"1": -5}, "logprobs": true, "top_logprobs": 3, "seed": -4, "max_tokens": 7})",
    R"({"prompt": [[1, 2], [3]], "max_tokens": 3, "echo": true, "logprobs": 2, "top_p": 0.5,
     "stop_token_ids": [3, 4], "truncate_prompt_tokens": 2, "min_p": 0.1, "top_k": -1})",
    R"({"prompt": ["ab <s>", "c"], "ignore_eos": true, "presence_penalty": -1, "user": "u"})"};

class Damage {
public:
  explicit Damage(uint64_t seed) : random(seed) {}
  std::string apply(std::string text) {
    constexpr std::string_view bits[] = {
        "\"",  "{",       "}",       "[",    "]",     ",",
        ":",   "null",    "true",    "-1",   "1e308", "99999999999999999999",
        "0.5", "\\u0000", "\\ud800", "\xff", "\"\"",  "{}",
        "[]",  "\\",      "<s>",     "(",    "*",     "\n"};
    for (size_t times = 1 + random() % 4; times > 0 && !text.empty(); --times) {
      size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 8);
        break;
      case 2:
        text.insert(at, bits[random() % std::size(bits)]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    return text;
  }

private:
  std::mt19937_64 random;
};

class DamagedRequests : public DamageTest {
protected:
  DamagedRequests() : DamageTest(3000) {}

  void SetUp() override {
    DamageTest::SetUp();
    write("tokenizer.json", tokenizerJson);
    write("chat_template.jinja",
          "{% for m in messages %}<s>{{ m.role }}{{ m.content }}{% endfor %}");
    auto loaded = ModelTexts::load(folder);
    ASSERT_TRUE(loaded) << loaded.error().message();
    texts = std::move(*loaded);
  }

  std::unique_ptr<ModelTexts> texts;
};

TEST_F(DamagedRequests, AreRefusedWithAnErrorOrKeepTheirBounds) {
  std::string model = "m";
  RequestContext context{*texts, {64, 10, 0}, model, true};
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    Damage damage(seed + i);
    size_t which = i % std::size(bodies);
    std::string body =
        i < std::size(bodies) ? bodies[which] : damage.apply(bodies[which]);
    ApiError error;
    auto request = which == 0 ? readChatRequest(body, context, error)
                              : readCompletionRequest(body, context, error);
    if (!request) {
      EXPECT_GE(i, std::size(bodies)) << error.message;
      EXPECT_FALSE(error.message.empty());
      EXPECT_TRUE(error.status == 400 || error.status == 404) << error.message;
      continue;
    }
    ++accepted;
    EXPECT_LE(request->sequences(), 128u);
    for (size_t p = 0; p < request->prompts.size(); ++p) {
      EXPECT_FALSE(request->prompts[p].empty());
      EXPECT_LE(request->prompts[p].size() +
                    static_cast<size_t>(request->maxTokens[p]),
                64u);
      for (int32_t id : request->prompts[p])
        EXPECT_TRUE(id >= 0 && id < 10);
    }
    EXPECT_TRUE(request->sampling.topP > 0 && request->sampling.topP <= 1);
  }
  EXPECT_GE(accepted, std::size(bodies));
}

TEST_F(DamagedRequests, DamagedTokenizersAreRefusedOrEncode) {
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    auto made = Tokenizer::parse(Damage(seed + i).apply(tokenizerJson));
    if (!made) {
      EXPECT_EQ(made.error().kind, ErrorKind::user);
      EXPECT_FALSE(made.error().what.empty());
      continue;
    }
    auto ids = (*made)->encode("<s> ab xx\u00e9 c <s>");
    if (ids)
      (*made)->decode(*ids);
  }
}

} // namespace
} // namespace knapper::serving
