#include "tune/Records.h"

#include <gtest/gtest.h>

using namespace knapper;
using namespace knapper::tune;

namespace {

Record record(char digit, Choice choice, double gain) {
  Record r;
  r.signature = std::string(16, digit);
  r.target = "cpu";
  r.choice = std::move(choice);
  r.gain = gain;
  return r;
}

TEST(Records, WrittenAndRead) {
  Records records;
  Record first = record('a', {{"panel", 32}, {"rows", 96}}, 1.25);
  first.machine = "a \"quoted\" \xff name";
  first.sizes = "batch=1";
  first.threads = 2;
  records.set(first);
  records.set(record('b', {{"lanes", 16}}, 1.5));
  Expected<Records> again = Records::parse(records.json(), "here");
  ASSERT_TRUE(again) << again.error().message();
  ASSERT_EQ(again->all().size(), 2u);
  const Record *found = again->find(std::string(16, 'a'), "cpu");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->choice, first.choice);
  EXPECT_EQ(found->sizes, "batch=1");
  EXPECT_EQ(found->threads, 2);
  EXPECT_DOUBLE_EQ(found->gain, 1.25);
  EXPECT_FALSE(again->find(std::string(16, 'a'), "cuda:sm_90a"));
}

TEST(Records, TheGreaterGainStays) {
  Records one, other;
  one.set(record('a', {{"panel", 32}}, 1.2));
  one.set(record('b', {{"panel", 16}}, 1.1));
  other.set(record('a', {{"panel", 48}}, 1.1));
  other.set(record('b', {{"panel", 64}}, 1.3));
  other.set(record('c', {{"panel", 64}}, 1.3));
  EXPECT_EQ(one.merge(other), 2u);
  EXPECT_EQ(one.find(std::string(16, 'a'), "cpu")->choice.at("panel"), 32);
  EXPECT_EQ(one.find(std::string(16, 'b'), "cpu")->choice.at("panel"), 64);
  EXPECT_EQ(one.all().size(), 3u);
  // Of equal gains the known record stays.
  Records equal;
  equal.set(record('b', {{"panel", 8}}, 1.3));
  EXPECT_EQ(one.merge(equal), 0u);
  EXPECT_EQ(one.find(std::string(16, 'b'), "cpu")->choice.at("panel"), 64);
}

TEST(Records, WhatIsNoneIsRefused) {
  const char *texts[] = {
      "",
      "[]",
      "{}",
      "nonsense",
      R"({"knapper_tuning": "1", "records": []})",
      R"({"knapper_tuning": 2, "records": []})",
      R"({"knapper_tuning": 0, "records": []})", // of an older version
      R"({"knapper_tuning": 1})",
      R"({"knapper_tuning": 1, "records": [1]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "a"}]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa"}]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa",
          "target": "cpu", "choice": {}}]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa",
          "target": "cpu", "choice": {"panel": 1.5}}]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa",
          "target": "cpu", "choice": {"panel": 18446744073709551615}}]})",
      R"({"knapper_tuning": 1, "records": [{"signature": "aaaaaaaaaaaaaaaa",
          "target": "cpu", "choice": {"panel": 99999999999999999999}}]})"};
  for (const char *text : texts) {
    Expected<Records> records = Records::parse(text, "the file");
    ASSERT_FALSE(records) << text;
    EXPECT_EQ(records.error().kind, ErrorKind::user);
    EXPECT_EQ(records.error().where, "the file");
    EXPECT_NE(records.error().hint, "");
  }
  EXPECT_FALSE(Records::read("/nowhere/at/all"));
  EXPECT_FALSE(Records::read("/tmp"));
}

} // namespace
