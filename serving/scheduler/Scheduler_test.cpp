#include "serving/scheduler/Scheduler.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace knapper::serving;

namespace {

SchedulerState stateOf(int32_t budget, int32_t available) {
  SchedulerState state;
  state.budget = budget;
  state.available = available;
  state.maxSequences = 8;
  return state;
}

std::map<uint64_t, int32_t> partsOf(const StepDecision &decision) {
  std::map<uint64_t, int32_t> parts;
  for (auto [id, tokens, proposed] : decision.parts)
    parts[id] = tokens;
  return parts;
}

TEST(Scheduler, SingleTokensComeBeforeChunks) {
  SchedulerState state = stateOf(10, 100);
  state.running = {{.id = 1, .tokens = 100, .computed = 16, .blocks = 1},
                   {.id = 2, .tokens = 20, .computed = 19, .blocks = 2},
                   {.id = 3, .tokens = 33, .computed = 32, .blocks = 2}};
  StepDecision decision = scheduleStep(state);
  EXPECT_EQ(partsOf(decision),
            (std::map<uint64_t, int32_t>{{1, 8}, {2, 1}, {3, 1}}));
  EXPECT_EQ(decision.parts.front().id, 2u);
}

TEST(Scheduler, AdmitsByPriorityAndArrivalWithoutOvertaking) {
  SchedulerState state = stateOf(64, 10);
  state.waiting = {{.id = 1, .priority = 1, .tokens = 16},
                   {.id = 2, .tokens = 400},
                   {.id = 3, .tokens = 16}};
  EXPECT_TRUE(scheduleStep(state).admitted.empty()) << "2 has no room";
  state.available = 30;
  StepDecision decision = scheduleStep(state);
  EXPECT_EQ(decision.admitted, (std::vector<uint64_t>{2}));
  EXPECT_EQ(decision.parts.front().tokens, 64);
}

TEST(Scheduler, CachedBlocksNeedNoRoomAndNoTime) {
  SchedulerState state = stateOf(64, 2);
  state.waiting = {{.id = 1, .tokens = 50, .hitBlocks = 3, .hitIdle = 1}};
  StepDecision decision = scheduleStep(state);
  ASSERT_EQ(decision.parts.size(), 1u);
  EXPECT_EQ(decision.parts.front().tokens, 2);
}

TEST(Scheduler, NoMoreRunThanMay) {
  SchedulerState state = stateOf(64, 100);
  state.maxSequences = 2;
  state.running = {{.id = 1, .tokens = 20, .computed = 19, .blocks = 2}};
  state.waiting = {{.id = 2, .tokens = 4}, {.id = 3, .tokens = 4}};
  EXPECT_EQ(scheduleStep(state).admitted, (std::vector<uint64_t>{2}));
}

TEST(Scheduler, AdmissionLeavesABlockForEachThatRuns) {
  SchedulerState state = stateOf(200, 5);
  state.running = {{.id = 1, .tokens = 20, .computed = 19, .blocks = 2},
                   {.id = 2, .tokens = 20, .computed = 19, .blocks = 2}};
  state.waiting = {{.id = 3, .tokens = 64}}; // four blocks
  EXPECT_TRUE(scheduleStep(state).admitted.empty());
  state.available = 6;
  EXPECT_EQ(scheduleStep(state).admitted, (std::vector<uint64_t>{3}));
}

TEST(Scheduler, TheLastGivesWay) {
  SchedulerState state = stateOf(64, 0);
  state.running = {
      {.id = 1, .tokens = 17, .computed = 16, .blocks = 1},
      {.id = 2, .tokens = 17, .computed = 16, .blocks = 1},
      {.id = 3, .priority = -1, .tokens = 17, .computed = 16, .blocks = 1}};
  state.waiting = {{.id = 4, .tokens = 1}};
  StepDecision decision = scheduleStep(state);
  EXPECT_EQ(decision.preempted, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(partsOf(decision), (std::map<uint64_t, int32_t>{{3, 1}}));
  EXPECT_TRUE(decision.admitted.empty());
}

TEST(Scheduler, ProposedTokensGetWhatIsLeft) {
  SchedulerState state = stateOf(12, 100);
  state.running = {
      {.id = 1, .tokens = 17, .computed = 16, .blocks = 1, .proposed = 6},
      {.id = 2, .tokens = 20, .computed = 19, .blocks = 2, .proposed = 6},
      {.id = 3, .tokens = 40, .computed = 36, .blocks = 3, .proposed = 6}};
  auto proposed = [&] {
    std::map<uint64_t, int32_t> made;
    for (const StepDecision::Part &part : scheduleStep(state).parts)
      made[part.id] = part.proposed;
    return made;
  };
  using Map = std::map<uint64_t, int32_t>;
  EXPECT_EQ(proposed(), (Map{{1, 6}, {2, 0}, {3, 0}})) << "12 - 1 - 1 - 4 = 6";
  state.budget = 100;
  EXPECT_EQ(proposed(), (Map{{1, 6}, {2, 6}, {3, 6}}));
  // The first takes the only block; the others stay within theirs.
  state.available = 1;
  state.running[0].proposed = 20;
  state.running[1].proposed = 20;
  EXPECT_EQ(proposed(), (Map{{1, 15}, {2, 12}, {3, 6}}));
}

TEST(Scheduler, ProposalsLeaveABlockForEachThatRuns) {
  SchedulerState state = stateOf(100, 2);
  state.running = {
      {.id = 1, .tokens = 20, .computed = 19, .blocks = 2, .proposed = 20},
      {.id = 2, .tokens = 20, .computed = 19, .blocks = 2, .proposed = 20}};
  auto proposedOfFirst = [&] {
    return scheduleStep(state).parts.front().proposed;
  };
  EXPECT_EQ(proposedOfFirst(), 12) << "to the end of its second block";
  state.available = 3;
  EXPECT_EQ(proposedOfFirst(), 20);
}

// Invariants of any state: no more tokens than the budget and than there are,
// no more blocks than available, nobody twice.
TEST(Scheduler, RandomStates) {
  std::mt19937 random(7);
  auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    SchedulerState state = stateOf(pick(1, 100), pick(0, 40));
    std::map<uint64_t, SequenceView> all;
    uint64_t id = 0;
    for (int i = pick(0, 6); i-- > 0;) {
      int32_t tokens = pick(1, 200), computed = pick(0, tokens - 1);
      state.running.push_back({.id = ++id,
                               .priority = pick(0, 1),
                               .tokens = tokens,
                               .computed = computed,
                               .blocks = (computed + 15) / 16,
                               .proposed = pick(-8, 8)});
      all[id] = state.running.back();
    }
    for (int i = pick(0, 6); i-- > 0;) {
      int32_t tokens = pick(1, 200), hit = pick(0, (tokens - 1) / 16);
      state.waiting.push_back({.id = ++id,
                               .tokens = tokens,
                               .hitBlocks = hit,
                               .hitIdle = pick(0, hit)});
      all[id] = state.waiting.back();
    }
    StepDecision decision = scheduleStep(state);
    int64_t tokens = 0, blocks = 0;
    std::set<uint64_t> seen(decision.preempted.begin(),
                            decision.preempted.end());
    ASSERT_EQ(seen.size(), decision.preempted.size());
    for (uint64_t gone : decision.preempted)
      blocks -= all[gone].blocks;
    for (auto [part, count, proposed] : decision.parts) {
      ASSERT_TRUE(seen.insert(part).second);
      const SequenceView &view = all[part];
      int32_t computed = view.computed + view.hitBlocks * 16;
      ASSERT_GE(count, 1);
      ASSERT_LE(computed + count, view.tokens);
      ASSERT_GE(proposed, 0);
      ASSERT_LE(proposed, std::max(view.proposed, 0));
      if (proposed > 0)
        ASSERT_EQ(computed + count, view.tokens);
      count += proposed;
      tokens += count;
      blocks += (computed + count + 15) / 16 - view.hitBlocks + view.hitIdle -
                view.blocks;
    }
    ASSERT_LE(tokens, state.budget);
    ASSERT_LE(blocks, state.available);
    if (!state.running.empty()) {
      ASSERT_FALSE(decision.parts.empty() && decision.preempted.empty());
    }
  }
}

} // namespace
