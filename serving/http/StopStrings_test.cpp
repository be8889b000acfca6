#include "serving/http/StopStrings.h"

#include <gtest/gtest.h>

namespace knapper::serving {
namespace {

std::string feed(StopStrings &stops, const std::vector<std::string> &parts) {
  std::string shown;
  for (const std::string &part : parts)
    shown += stops.push(part) + "|";
  return shown + stops.finish();
}

TEST(StopStrings, WithoutAnyAllIsShown) {
  StopStrings stops;
  EXPECT_EQ(feed(stops, {"a", "b"}), "a|b|");
  EXPECT_FALSE(stops.hit());
}

TEST(StopStrings, AStopAcrossPartsIsHeldBack) {
  StopStrings stops({"</end>"});
  EXPECT_EQ(feed(stops, {"abc<", "/en", "d> more", "x"}), "abc||||");
  EXPECT_TRUE(stops.hit());
  EXPECT_EQ(stops.stop(), "</end>");
}

TEST(StopStrings, WhatOnlyBeganIsShownLater) {
  StopStrings stops({"aab"});
  EXPECT_EQ(feed(stops, {"aa", "a", "c"}), "|a|aac|");
  StopStrings open({"aab"});
  EXPECT_EQ(feed(open, {"xaa"}), "x|aa");
}

TEST(StopStrings, TheFirstInTheTextCounts) {
  StopStrings stops({"world", "o w"});
  EXPECT_EQ(feed(stops, {"hello world"}), "hell|");
  EXPECT_EQ(stops.stop(), "o w");
}

} // namespace
} // namespace knapper::serving
