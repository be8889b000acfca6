#include "serving/tokenizer/Detokenizer.h"
#include "serving/tokenizer/LongLists.h"
#include "serving/tokenizer/Utf8.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

namespace knapper::serving {
namespace {

TEST(Utf8, IllFormedPartsAreReplacedOneByOne) {
  EXPECT_EQ(replaceInvalidUtf8("a\xff"
                               "b"),
            "a\xef\xbf\xbd"
            "b");
  // The longest prefix of a character is one part; a surrogate is three.
  EXPECT_EQ(replaceInvalidUtf8("\xf0\x9f\x98"), "\xef\xbf\xbd");
  EXPECT_EQ(replaceInvalidUtf8("\xed\xa0\x80"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(validUtf8("ab\xc0\x80"), 2u);
}

TEST(Utf8, AnUnfinishedCharacterIsAtMostThreeBytes) {
  EXPECT_EQ(unfinishedUtf8("x\xf0\x9f\x98"), 3u);
  EXPECT_EQ(unfinishedUtf8("x\xf0\x9f\x98\x80"), 0u);
  EXPECT_EQ(unfinishedUtf8("x\xff"), 0u);
  EXPECT_EQ(unfinishedUtf8("\xe2"), 1u);
}

std::unique_ptr<Tokenizer> make(const char *json) {
  auto made = Tokenizer::parse(json);
  EXPECT_TRUE(made) << (made ? "" : made.error().message());
  return made ? std::move(*made) : nullptr;
}

constexpr const char *byteFallback = R"({
  "added_tokens": [
    {"id": 300, "content": "<s>", "special": true},
    {"id": 301, "content": "<x>", "special": false, "normalized": false,
     "lstrip": true, "single_word": true}],
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "byte_fallback": true, "merges": ["a b"],
    "vocab": {"a": 0, "b": 1, "ab": 2, "_": 3, "<0xC3>": 4, "<0xA9>": 5}}})";

TEST(Tokenizer, BytesStandForCharactersWithoutAToken) {
  auto tokenizer = make(byteFallback);
  auto ids = tokenizer->encode(" ab\u00e9");
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, (std::vector<int32_t>{3, 2, 4, 5}));
  EXPECT_EQ(tokenizer->decode(*ids), "ab\u00e9");
}

TEST(Tokenizer, TheLeftmostOfEqualMergesIsFirst) {
  auto tokenizer = make(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": ["a a"]}})");
  for (size_t length : {3, 23, 25, 101}) { // of short words, and long ones
    std::vector<int32_t> wanted(length / 2, 1);
    wanted.push_back(0);
    EXPECT_EQ(*tokenizer->encode(std::string(length, 'a')), wanted) << length;
  }
}

TEST(Tokenizer, AddedTokensTakeSpacesAndLeaveWordsAlone) {
  auto tokenizer = make(byteFallback);
  EXPECT_EQ(*tokenizer->encode("a  <x> b"),
            (std::vector<int32_t>{0, 301, 3, 1}));
  auto inside = tokenizer->encode("a<x>");
  EXPECT_EQ(std::count(inside->begin(), inside->end(), 301), 0);
}

TEST(Tokenizer, AUsersControlTokensAreText) {
  auto tokenizer = make(byteFallback);
  EncodeOptions options;
  options.literal = {{3, 6}};
  auto ids = tokenizer->encode("<s><s>ab", options);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->front(), 300);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 300), 1);
}

TEST(Tokenizer, TextsThatAreNoUtf8AreRefused) {
  auto ids = make(byteFallback)->encode("ab\xc3");
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().what.find("byte 2"), std::string::npos);
}

TEST(Tokenizer, LongListsAreReadAsTheJsonLibraryReadsThem) {
  std::string text = R"( {"a": [1, {"model": "x"}, "\"}"], "model" :
    {"type": "BPE", "vocab" : {"a\"b": 0, "\u00e9\ud83d\ude42\n": 12 , "é": 3}
     , "merges": ["a\u00e9 b", ["c", "d e"] ]}, "z": -1.5e3} )";
  std::optional<LongLists> lists = takeLongLists(text);
  ASSERT_TRUE(lists && lists->vocabulary && lists->merges);
  const nlohmann::json whole = nlohmann::json::parse(text)["model"];
  EXPECT_EQ(whole["vocab"].size(), 3u);
  for (const auto &[name, id] : whole["vocab"].items())
    EXPECT_EQ(lists->vocabulary->find(name), id.get<int32_t>());
  std::vector<std::string> merges;
  EXPECT_TRUE(lists->eachMerge([&](auto left, auto right) {
    merges.push_back(std::string(left) + "|" + std::string(right));
    return true;
  }));
  EXPECT_EQ(merges, (std::vector<std::string>{"a\u00e9|b", "c|d e"}));
  nlohmann::json wanted = nlohmann::json::parse(text);
  wanted["model"]["vocab"] = wanted["model"]["merges"] = nullptr;
  EXPECT_EQ(nlohmann::json::parse(lists->rest), wanted);
}

TEST(Tokenizer, ListsThatAreNotPlainAreLeftToTheJsonLibrary) {
  for (const char *vocabulary :
       {R"({"a": 0, "a": 1})", R"({"a": 0, "b": 0})", R"({"a": 1.0})",
        R"({"a": 1e2})", R"({"a": 01})", R"({"a": -1})", R"({"a": 99999999})",
        R"({"a": "0"})", R"({"a": 0,})", R"({"a" 0})", R"({"\ud800": 0})",
        R"({"\x": 0})", "{\"\xff\": 0}", "{\"\x01\": 0}", R"({"a": 0)",
        R"([["a", 0]])", "null", R"({"a": 0}, "vocab": {})"}) {
    std::string text = std::string(R"({"model": {"type": "BPE", "vocab": )") +
                       vocabulary + R"(, "merges": [null]}})";
    EXPECT_FALSE(takeLongLists(text)) << text;
  }
  for (const char *other :
       {"", "[]", "{", R"({"model": [])", R"({"model": {"vocab": {}})",
        R"({"model": {"vocab": {}}, "model": {}})",
        R"({"model": {"merges": ["ab"]}})", R"({"model": {"merges": [["a"]]}})",
        R"({"model": {}})"})
    EXPECT_FALSE(takeLongLists(other)) << other;
}

TEST(Tokenizer, LongListsOfDamagedTextsAreThoseOfTheJsonLibrary) {
  const std::string sound =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "\u00e9\n": 12, "é": 3},
          "merges": ["a \u00e9", ["c", "d\\"]]}, "z": [1, {"b": "}"}, -2e3]})";
  const std::string signs = "{}[]\",:\\u0e1.-+ \n\x01\xff\xc3ntf";
  std::mt19937 random(23);
  auto below = [&](size_t end) { return random() % end; };
  size_t taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = sound;
    for (size_t n = 1 + below(3); n > 0; --n) {
      size_t at = below(text.size());
      switch (below(4)) {
      case 0:
        text[at] = signs[below(signs.size())];
        break;
      case 1:
        text.insert(at, 1, signs[below(signs.size())]);
        break;
      case 2:
        text.erase(at, 1 + below(4));
        break;
      default:
        text.insert(at, text.substr(below(text.size()), below(20)));
      }
    }
    std::optional<LongLists> lists = takeLongLists(text);
    if (!lists)
      continue;
    ++taken;
    auto whole = nlohmann::json::parse(text, nullptr, false);
    auto rest = nlohmann::json::parse(lists->rest, nullptr, false);
    ASSERT_EQ(whole.is_discarded(), rest.is_discarded()) << text;
    if (whole.is_discarded())
      continue;
    nlohmann::json &model = whole["model"];
    if (lists->vocabulary) {
      for (const auto &[name, id] : model["vocab"].items())
        ASSERT_EQ(lists->vocabulary->find(name), id) << text;
      model["vocab"] = nullptr;
    }
    if (lists->merges) {
      size_t count = 0;
      lists->eachMerge([&](auto left, auto right) {
        const nlohmann::json &merge = model["merges"][count++];
        std::string one(left), other(right);
        nlohmann::json wanted = one + " " + other;
        if (merge.is_array())
          wanted = {one, other};
        EXPECT_EQ(merge, wanted) << text;
        return true;
      });
      ASSERT_EQ(count, model["merges"].size()) << text;
      model["merges"] = nullptr;
    }
    ASSERT_EQ(whole, rest) << text;
  }
  EXPECT_GT(taken, 5'000u);
}

TEST(Tokenizer, LongListsOfAnotherKindOfModelAreNotUsed) {
  auto made = Tokenizer::parse(
      R"({"model": {"type": "Unigram", "vocab": {"a": 0}, "unk_id": 0}})");
  ASSERT_FALSE(made);
  auto untyped =
      make(R"({"model": {"vocab": {"a": 0, "aa": 1}, "merges": ["a a"]}})");
  EXPECT_EQ(*untyped->encode("aa"), (std::vector<int32_t>{1}));
}

TEST(Tokenizer, WhatIsNotKnownIsRefusedByName) {
  for (
      auto [json, word] : {
          std::pair(R"({"model": {"type": "Magic"}})", "Magic"),
          std::pair(
              R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})",
              "'a'"),
          std::pair(
              R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})",
              "merge 0"),
          std::pair(
              R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.5}})",
              "dropout"),
          std::pair(R"({"normalizer": {"type": "Rot13"}, "model": {}})",
                    "Rot13"),
          std::pair(
              R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}}, "model": {}})",
              "'('"),
          std::pair(
              R"({"decoder": {"type": "CTC"}, "model": {"vocab": {"a": 0}, "merges": []}})",
              "CTC"),
          std::pair("[]", "object"),
          std::pair("{\"model\": ", "object"),
      }) {
    auto made = Tokenizer::parse(json);
    ASSERT_FALSE(made) << json;
    EXPECT_NE(made.error().what.find(word), std::string::npos)
        << made.error().what;
  }
}

TEST(Detokenizer, ACharacterComesWhenItIsWhole) {
  auto tokenizer = make(byteFallback);
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(3), ""); // the first space goes
  EXPECT_EQ(stream.push(4), "");
  EXPECT_TRUE(stream.holds());
  EXPECT_EQ(stream.push(5), "\u00e9");
  EXPECT_EQ(stream.push(300), "");
  EXPECT_EQ(stream.push(4), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(Detokenizer, ATextThatFollowsAnotherKeepsItsSpace) {
  auto tokenizer = make(byteFallback);
  const std::vector<int32_t> answer = {3, 1};
  for (const std::vector<int32_t> &prompt :
       {std::vector<int32_t>{3, 2}, {300, 2}, {4, 5}, {3}, {300}}) {
    Detokenizer stream(*tokenizer);
    stream.follow(prompt);
    std::string text = tokenizer->decode(prompt);
    for (int32_t id : answer)
      text += stream.push(id);
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    EXPECT_EQ(text + stream.finish(), tokenizer->decode(all));
  }
}

} // namespace
} // namespace knapper::serving
