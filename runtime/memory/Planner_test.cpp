#include "runtime/memory/Planner.h"

#include <gtest/gtest.h>
#include <random>

using namespace knapper;

namespace {

void expectValid(const std::vector<PlanRequest> &requests,
                 const MemoryPlan &plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  EXPECT_GE(plan.bytes, plan.liveBytes);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0u);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = requests[i].first <= requests[j].last &&
                      requests[j].first <= requests[i].last;
      bool overlap = plan.offsets[i] < plan.offsets[j] + requests[j].bytes &&
                     plan.offsets[j] < plan.offsets[i] + requests[i].bytes;
      ASSERT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

/// Like a network: a chain of layers with a few side values and residuals.
std::vector<PlanRequest> network(std::mt19937 &random, uint32_t layers) {
  std::vector<PlanRequest> requests;
  auto pick = [&](uint32_t a, uint32_t b) {
    return std::uniform_int_distribution<uint32_t>(a, b)(random);
  };
  uint64_t width = pick(1, 4096) * 64;
  for (uint32_t at = 0; at < layers; ++at) {
    requests.push_back({width * pick(1, 4), at, at + 1});
    if (pick(0, 2) == 0)
      requests.push_back({width, at, at + pick(1, 6)});
    if (pick(0, 3) == 0)
      requests.push_back({pick(1, 5000), at, at});
  }
  return requests;
}

} // namespace

TEST(Planner, NothingToPlan) {
  EXPECT_EQ(planMemory({}).bytes, 0u);
  std::vector<PlanRequest> empty = {{0, 0, 3}};
  EXPECT_EQ(planMemory(empty).bytes, 0u);
}

TEST(Planner, AChainNeedsTwoBuffers) {
  std::vector<PlanRequest> chain;
  for (uint32_t i = 0; i < 100; ++i)
    chain.push_back({1000, i, i + 1});
  MemoryPlan plan = planMemory(chain);
  expectValid(chain, plan);
  EXPECT_EQ(plan.bytes, 2 * 1024u);
}

TEST(Planner, EndsAreInclusive) {
  std::vector<PlanRequest> touching = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(planMemory(touching).bytes, 128u);
  std::vector<PlanRequest> apart = {{64, 0, 1}, {64, 2, 3}};
  EXPECT_EQ(planMemory(apart).bytes, 64u);
}

TEST(Planner, NetworksStayWithinTenPercentOfTheBound) {
  std::mt19937 random(7);
  int beyond = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<PlanRequest> requests = network(random, 10 + i % 150);
    MemoryPlan plan = planMemory(requests);
    expectValid(requests, plan);
    beyond += plan.bytes > plan.liveBytes * 1.10;
    EXPECT_LE(plan.bytes, plan.liveBytes * 1.12) << "network " << i;
  }
  EXPECT_LE(beyond, 1); // of random ones; a heuristic has no worst case
}

TEST(Planner, AnythingIsValid) {
  std::mt19937 random(11);
  auto pick = [&](uint32_t a, uint32_t b) {
    return std::uniform_int_distribution<uint32_t>(a, b)(random);
  };
  uint64_t planned = 0, bound = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<PlanRequest> requests;
    for (uint32_t n = pick(1, 120); n > 0; --n) {
      uint32_t first = pick(0, 60);
      requests.push_back({pick(0, 3) ? pick(1, 1 << 20) : pick(0, 300), first,
                          first + pick(0, i % 2 ? 3 : 40)});
    }
    MemoryPlan plan = planMemory(requests);
    expectValid(requests, plan);
    planned += plan.bytes;
    bound += plan.liveBytes;
  }
  EXPECT_LE(planned, bound * 1.05);
}

TEST(Planner, LargeProgramsPlanQuickly) {
  std::mt19937 random(3);
  std::vector<PlanRequest> requests = network(random, 4000);
  MemoryPlan plan = planMemory(requests);
  EXPECT_LE(plan.bytes, plan.liveBytes * 1.25);
}
