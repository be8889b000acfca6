// The texts of a model's folder (tokenizer.json, tokenizer_config.json,
// generation_config.json), made wrong part by part, are read or refused:
// nothing crashes, hangs or takes memory without bound, and tokens stay those
// of the vocabulary. KNAPPER_FUZZ_CASES and KNAPPER_FUZZ_SEED change the
// extent.
#include "serving/chat/ModelTexts.h"
#include "serving/testing/DamageTest.h"
#include "serving/testing/JsonDamage.h"
#include "serving/tokenizer/Detokenizer.h"

#include <sys/resource.h>

namespace knapper::serving {
namespace {

using Json = OrderedJson;

constexpr const char *bytePairs = R"({
  "added_tokens": [
    {"id": 9, "content": "<s>", "special": true, "lstrip": true, "rstrip": true},
    {"id": 10, "content": "<t>", "special": false, "single_word": true, "normalized": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "_"},
    {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "b"}, {"type": "Strip", "strip_left": false},
    {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\p{L}+"}, "behavior": "MergedWithNext", "invert": true},
    {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "CharDelimiterSplit", "delimiter": "-"},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true}]},
  "post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}],
    "special_tokens": {"<s>": {"ids": [9]}}}, {"type": "BertProcessing", "cls": ["<s>", 9], "sep": ["<s>", 9]}]},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "Strip", "content": " ", "start": 1, "stop": 1},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
    "continuing_subword_prefix": null, "dropout": null, "merges": ["a b", ["ab", "_"], "_ a"],
    "vocab": {"a": 0, "b": 1, "ab": 2, "_": 3, "ab_": 4, "?": 5, "c": 6, "_a": 7, "<0x41>": 8}}})";

constexpr const char *byteLevel = R"({
  "added_tokens": [{"id": 6, "content": "<|end|>", "special": true}],
  "normalizer": {"type": "ByteLevel"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true},
  "post_processor": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "merges": ["a b"], "end_of_word_suffix": "", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ċ": 4, "Ã": 5}}})";

constexpr const char *wordPieces = R"({
  "added_tokens": [{"id": 0, "content": "[CLS]", "special": true}, {"id": 1, "content": "[SEP]", "special": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true, "strip_accents": null},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "RobertaProcessing", "cls": ["[CLS]", 0], "sep": ["[SEP]", 1]},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "##b": 4, "ab": 5, "##x": 6}}})";

constexpr const char *unigrams = R"({
  "added_tokens": [{"id": 0, "content": "<pad>", "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
    {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAAABAAAAYQBi"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Whitespace"}, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}]},
  "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
  "model": {"type": "Unigram", "unk_id": 1, "byte_fallback": true,
    "vocab": [["<pad>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["▁a", -2.5], ["b", -3.5], ["<0x41>", -9.0]]}})";

constexpr const char *tokenizerConfig = R"({
  "eos_token": "<s>", "bos_token": {"content": "<s>", "lstrip": false}, "model_max_length": 1e30,
  "chat_template": [{"name": "default", "template": "{% for m in messages %}<s>{{ m.role }}{{ m['content'] | trim }}{% endfor %}{{ bos_token }}"},
    {"name": "tool_use", "template": "{% for t in tools %}{{ t | tojson }}{% endfor %}{% set x = namespace(a=1) %}{{ x.a + 2 }}"}]})";

constexpr const char *generationConfig =
    R"({"eos_token_id": [2, 0], "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1})";

struct DamagedTexts : DamageTest {
  DamagedTexts() : DamageTest(3000) {}
};

constexpr const char *texts[] = {
    "<s> ab xx\u00e9 c <s>", "", " ", "a-b  12 3\u00bd ab! <t> x<t>",
    "\u0130\u4e2d\u1100\u1161\u11a8 e\u0301\n\t A\u200bB \U0001f642"};

/// Ids are tokens, and texts stay in proportion.
void use(const Tokenizer &tokenizer) {
  for (const char *text : texts) {
    auto ids = tokenizer.encode(text);
    if (!ids) {
      EXPECT_EQ(ids.error().kind, ErrorKind::user) << ids.error().message();
      continue;
    }
    for (int32_t id : *ids)
      EXPECT_TRUE(id >= 0 && id < tokenizer.size()) << id;
    tokenizer.decode(*ids);
    Detokenizer stream(tokenizer, false);
    for (int32_t id : *ids)
      stream.push(id);
    stream.finish();
  }
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += "ab xa-1 "[i % 8];
  (void)tokenizer.encode(text);
}

TEST_F(DamagedTexts, TokenizersAreRefusedOrEncode) {
  constexpr const char *sources[] = {bytePairs, byteLevel, wordPieces,
                                     unigrams};
  uint64_t taken = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    Json source = Json::parse(sources[(seed + i) % std::size(sources)]);
    std::string text = JsonDamage<Json>(seed + i).apply(source);
    write("tokenizer.json", text); // what a crash came from
    alarm(60);
    auto made = Tokenizer::parse(text);
    if (made) {
      ++taken;
      use(**made);
    } else {
      EXPECT_EQ(made.error().kind, ErrorKind::user);
      EXPECT_FALSE(made.error().what.empty());
    }
    alarm(0);
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    EXPECT_LT(used.ru_maxrss, 2L << 20) << "in KiB";
    if (HasFailure())
      break;
  }
  for (const char *source : sources)
    EXPECT_TRUE(Tokenizer::parse(source)) << source;
  EXPECT_GE(taken, cases / 8);
}

TEST_F(DamagedTexts, SettingsAreRefusedOrRender) {
  Json conversation = Json::parse(
      R"({"messages": [{"role": "user", "content": " hi <s>"}], "tools": null, "add_generation_prompt": true})");
  write("tokenizer.json", bytePairs);
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    JsonDamage<Json> damage(seed + i);
    write("tokenizer_config.json", damage.apply(Json::parse(tokenizerConfig)));
    write("generation_config.json",
          damage.apply(Json::parse(generationConfig)));
    Json variables = conversation;
    if (damage.below(2))
      variables["tools"] = Json::array({1, "a"});
    alarm(60);
    auto made = ModelTexts::load(folder);
    if (!made) {
      EXPECT_EQ(made.error().kind, ErrorKind::user) << made.error().message();
    } else if (auto prompt = (*made)->encodeChat(variables); !prompt) {
      EXPECT_EQ(prompt.error().kind, ErrorKind::user)
          << prompt.error().message();
    }
    alarm(0);
    if (HasFailure())
      break;
  }
}

Json settingsOf(const char *field, Json value) {
  Json json = Json::parse(generationConfig);
  json[field] = std::move(value);
  return json;
}

TEST_F(DamagedTexts, SamplingOfAModelHasTheBoundsOfRequests) {
  write("tokenizer.json", bytePairs);
  for (auto [field, value] :
       std::initializer_list<std::pair<const char *, Json>>{
           {"temperature", -1},
           {"temperature", "hot"},
           {"top_p", 1.5},
           {"top_k", 1e300},
           {"top_k", 2.5},
           {"min_p", -0.5},
           {"repetition_penalty", 0}}) {
    write("generation_config.json", settingsOf(field, value).dump());
    auto made = ModelTexts::load(folder);
    ASSERT_FALSE(made) << field << " " << value;
    EXPECT_EQ(made.error().kind, ErrorKind::user);
    EXPECT_NE(made.error().message().find(field), std::string::npos);
  }
  write("generation_config.json", settingsOf("top_k", nullptr).dump());
  EXPECT_TRUE(ModelTexts::load(folder));
  write("generation_config.json", settingsOf("temperature", 2.5).dump());
  auto hot = ModelTexts::load(folder);
  ASSERT_TRUE(hot);
  EXPECT_EQ((*hot)->recommended().at("temperature"), 2);
}

TEST_F(DamagedTexts, DeepValuesAreRefusedAndNotDropped) {
  Json tokenizer = Json::parse(bytePairs), steps = {{"type", "Lowercase"}};
  for (int i = 0; i < 40; ++i)
    steps = {{"type", "Sequence"}, {"normalizers", Json::array({steps})}};
  tokenizer["normalizer"] = steps;
  write("tokenizer.json", tokenizer.dump());
  auto made = ModelTexts::load(folder);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("64 levels deep"), std::string::npos);
}

/// The error of a tokenizer whose part at `pointer` is another, or of what it
/// does with a text; empty where there is none.
std::string refusal(const char *source, const char *pointer, Json value,
                    const std::string &text = "ab a") {
  Json json = Json::parse(source);
  json[Json::json_pointer(pointer)] = std::move(value);
  auto made = Tokenizer::parse(json.dump());
  if (!made)
    return made.error().message();
  auto ids = (*made)->encode(text);
  return ids ? (*made)->decode(*ids).substr(0, 0) : ids.error().message();
}

void expectRefusal(const std::string &got, const char *wanted) {
  EXPECT_NE(got.find(wanted), std::string::npos) << got;
}

TEST(DamagedTokenizer, StepsAreLists) {
  expectRefusal(refusal(bytePairs, "/pre_tokenizer/pretokenizers", 5),
                "not a list");
  expectRefusal(
      refusal(bytePairs, "/pre_tokenizer/pretokenizers/4/prepend_scheme", 5),
      "prepend_scheme");
}

TEST(DamagedTokenizer, AddedTokensAreOfTheVocabulary) {
  const char *place = "/post_processor/processors/0/special_tokens/<s>/ids/0";
  for (int64_t id : {int64_t(11), int64_t(-1), (int64_t(1) << 32) + 9})
    expectRefusal(refusal(bytePairs, place, id), "not in the vocabulary");
  expectRefusal(refusal(wordPieces, "/post_processor/cls/1", 7),
                "not in the vocabulary: 7");
}

TEST(DamagedTokenizer, NothingIsStrippedAnyNumberOfTimes) {
  alarm(60);
  Json strip = {{"type", "Strip"},
                {"content", ""},
                {"start", int64_t(1) << 60},
                {"stop", int64_t(1) << 60}};
  EXPECT_EQ(refusal(bytePairs, "/decoder/decoders/1", strip), "");
  strip["stop"] = 0;
  EXPECT_EQ(refusal(bytePairs, "/decoder/decoders/4", strip), "");
  alarm(0);
}

TEST(DamagedTokenizer, TextsKeepTheirProportion) {
  auto longer = [](const char *pattern, size_t times) {
    return Json{{"type", "Replace"},
                {"pattern", {{"String", pattern}}},
                {"content", std::string(times, 'a')}};
  };
  Json chain = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 20; ++i)
    chain["normalizers"].push_back(longer("a", 100));
  expectRefusal(refusal(bytePairs, "/normalizer", chain), "256 MiB");
  Json steps = Json::array({longer("a", 100), longer("a", 100)});
  expectRefusal(refusal(bytePairs, "/decoder/decoders", steps), "1024 times");
}

/// The base64 of a table that replaces "a" by `content`.
std::string charsmap(const std::string &content) {
  std::string bytes;
  auto word = [&](uint32_t value) {
    bytes.append(reinterpret_cast<const char *>(&value), 4);
  };
  // The root's children are at 1 ^ label; the leaf's value is at 2 ^ that.
  constexpr uint32_t units = 128, leaf = 1 ^ 'a', value = leaf ^ 2;
  word(4 * units);
  for (uint32_t i = 0; i < units; ++i)
    word(i == 0       ? 1u << 10
         : i == leaf  ? 2u << 10 | 1u << 8 | 'a'
         : i == value ? 1u << 31
                      : 0u);
  bytes += content;
  const char *digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (unsigned char byte : bytes) {
    bits = bits << 8 | byte;
    for (count += 8; count >= 6;)
      text += digits[bits >> (count -= 6) & 63];
  }
  return text + digits[bits << (6 - count) & 63];
}

TEST(DamagedTokenizer, ShortGraphemesKeepTheLimit) {
  Json map = {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap("b")}};
  Json json = Json::parse(bytePairs);
  json["normalizer"] = map;
  json["pre_tokenizer"] = json["post_processor"] = nullptr;
  auto made = Tokenizer::parse(json.dump());
  ASSERT_TRUE(made) << made.error().message();
  auto ids = (*made)->encode("aa");
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, (std::vector<int32_t>{1, 1}));
  // 12 GB, were it made.
  map["precompiled_charsmap"] = charsmap(std::string(3 << 20, 'b'));
  expectRefusal(refusal(bytePairs, "/normalizer", map, std::string(4096, 'a')),
                "256 MiB");
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  EXPECT_LT(used.ru_maxrss, 2L << 20) << "in KiB";
}

TEST(DamagedTokenizer, EveryStepKeepsTheLimit) {
  Json longer = {{"type", "Replace"},
                 {"pattern", {{"String", "a"}}},
                 {"content", std::string(1 << 20, '\n')}};
  for (int steps : {4}) { // each takes a byte to two
    Json chain = Json::array({longer});
    for (int i = 0; i < steps; ++i)
      chain.push_back({{"type", "ByteLevel"}});
    Json all = {{"type", "Sequence"}, {"normalizers", chain}};
    expectRefusal(refusal(bytePairs, "/normalizer", all, std::string(200, 'a')),
                  "256 MiB");
  }
}

TEST(DamagedTokenizer, LongPiecesTakeTheTimeOfTheLongestToken) {
  alarm(60);
  Json json = Json::parse(wordPieces);
  json["pre_tokenizer"] = nullptr;
  json["model"]["max_input_chars_per_word"] = UINT64_MAX;
  auto made = Tokenizer::parse(json.dump());
  ASSERT_TRUE(made) << made.error().message();
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i)
    text += "xb"[i % 2];
  auto ids = (*made)->encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->size(), 100'003u); // one for each, and two at the ends
  alarm(0);
}

TEST(DamagedTokenizer, APreTokenizerThatGivesUpIsNamed) {
  Json split = {{"type", "Split"},
                {"pattern", {{"Regex", "(a+)+[cd]"}}},
                {"behavior", "Isolated"}};
  std::string text(64, 'a');
  expectRefusal(refusal(bytePairs, "/pre_tokenizer", split, text),
                "tokenizer.json, 'pre_tokenizer'");
  Json digits = {{"type", "Digits"}};
  Json inner = {{"type", "Sequence"},
                {"pretokenizers", Json::array({digits, digits, split})}};
  Json steps = {{"type", "Sequence"},
                {"pretokenizers", Json::array({digits, inner})}};
  expectRefusal(refusal(bytePairs, "/pre_tokenizer", steps, text),
                "'pre_tokenizer.pretokenizers[1].pretokenizers[2]'");
}

TEST(DamagedTokenizer, ANormalizerThatGivesUpIsAnError) {
  Json step = {{"type", "Replace"},
               {"pattern", {{"Regex", "(a+)+[cd]"}}},
               {"content", "b"}};
  expectRefusal(refusal(bytePairs, "/normalizer", step, std::string(64, 'a')),
                "gave up");
}

} // namespace
} // namespace knapper::serving
