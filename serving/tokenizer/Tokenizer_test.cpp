#include "serving/tokenizer/Detokenizer.h"
#include "serving/tokenizer/Utf8.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

} // namespace
} // namespace knapper::serving
