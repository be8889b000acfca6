#include "tune/Search.h"

#include <gtest/gtest.h>

using namespace knapper::tune;

namespace {

/// Runs a search to its end; `gain` says how good a choice is.
template <typename Gain> size_t finish(Search &search, Gain gain) {
  size_t steps = 0;
  while (auto choice = search.next()) {
    EXPECT_EQ(search.next(), choice); // the same until measured
    search.measured(gain(*choice));
    ++steps;
  }
  return steps;
}

int64_t at(const Choice &choice, const char *name, int64_t model) {
  auto it = choice.find(name);
  return it == choice.end() ? model : it->second;
}

TEST(Search, FindsTheBestOfIndependentKnobs) {
  Search search({{"panel", 48, {64, 32, 16}}, {"rows", 192, {96, 384}}});
  finish(search, [](const Choice &c) {
    return (at(c, "panel", 48) == 16 ? 1.3 : 1) *
           (at(c, "rows", 192) == 384 ? 1.2 : 1);
  });
  EXPECT_EQ(search.best(), (Choice{{"panel", 16}, {"rows", 384}}));
  EXPECT_NEAR(search.gain(), 1.56, 1e-9);
}

TEST(Search, KeepsTheModelWhereNothingIsBetter) {
  Search search({{"panel", 48, {64, 32}}});
  EXPECT_EQ(finish(search, [](const Choice &) { return 1.01; }), 2u);
  EXPECT_TRUE(search.best().empty());
  EXPECT_EQ(search.gain(), 1);
}

TEST(Search, GoesBackToTheModelsValue) {
  // Good only until the other knob moves.
  Search search({{"a", 0, {1}}, {"b", 0, {1}}});
  finish(search, [](const Choice &c) {
    bool a = at(c, "a", 0), b = at(c, "b", 0);
    return a && b ? 1.2 : a ? 1.1 : b ? 1.5 : 1.0;
  });
  EXPECT_EQ(search.best(), (Choice{{"b", 1}}));
}

TEST(Search, CodeOfAUserIsMeasuredAloneAndBesideTheBestSchedule) {
  Knob first{"user:a", 0, {1}, 0, true}, second{"user:b", 0, {1}, 0, true};
  for (double b : {1.1, 2.0}) {
    Search search({first, second, {"lanes", 1, {2, 4}}});
    std::vector<Choice> measured;
    finish(search, [&](const Choice &c) {
      measured.push_back(c);
      if (c.contains("user:a") || c.contains("user:b")) {
        EXPECT_EQ(c.size(), 1u);
        return c.contains("user:a") ? 0.5 : b;
      }
      return at(c, "lanes", 1) == 4 ? 1.5 : 1.2;
    });
    EXPECT_EQ(measured.size(), 4u);
    EXPECT_EQ(search.best(),
              b == 2 ? (Choice{{"user:b", 1}}) : (Choice{{"lanes", 4}}));
  }
}

TEST(Search, MeasuresNothingTwiceAndEnds) {
  std::vector<Knob> knobs;
  for (char name : {'a', 'b', 'c', 'd'})
    knobs.push_back({std::string(1, name), 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}});
  Search search(knobs);
  std::set<Choice> seen;
  double gain = 1;
  size_t steps = finish(search, [&](const Choice &c) {
    EXPECT_TRUE(seen.insert(c).second);
    return gain *= 1.05; // always better: moves at each step
  });
  EXPECT_EQ(steps, Search::kMostMeasured);
  EXPECT_EQ(search.count(), steps);
}

TEST(Search, NothingToChoose) {
  Search search({});
  EXPECT_FALSE(search.next());
  Search fixed({{"panel", 16, {}}});
  EXPECT_FALSE(fixed.next());
}

TEST(Search, WhatFailedIsNotTaken) {
  Search search({{"panel", 48, {64}}});
  finish(search, [](const Choice &) { return 0.0; });
  EXPECT_TRUE(search.best().empty());
}

} // namespace
