// Which outputs may lie in an input's memory, by what instructions do.
#include "compiler/exec/InPlacePairs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace knapper;

namespace {

struct Pairs : testing::Test {
  fb::ProgramT program;
  MemoryUses uses;

  uint32_t tensor(fb::BufferKind kind, fb::DType type, uint32_t bytes) {
    auto &list =
        kind == fb::BufferKind::input ? program.inputs : program.outputs;
    auto signature = std::make_unique<fb::TensorSignatureT>();
    signature->dtype = type;
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->kind = kind;
    buffer->index = list.size();
    buffer->bytes = bytes;
    list.push_back(std::move(signature));
    program.buffers.push_back(std::move(buffer));
    return program.buffers.size() - 1;
  }
  /// `bytes`: index of a value, equal for equal sizes.
  uint32_t input(uint32_t bytes = 0, fb::DType type = fb::DType::f32) {
    return tensor(fb::BufferKind::input, type, bytes);
  }
  uint32_t output(uint32_t bytes = 0, fb::DType type = fb::DType::f32) {
    return tensor(fb::BufferKind::output, type, bytes);
  }
  /// An instruction, told apart by its number.
  void step(uint32_t number, std::vector<uint32_t> reads, uint32_t writes,
            std::vector<uint32_t> over = {}) {
    for (uint32_t buffer : reads)
      uses.read(buffer, number);
    uses.write(writes, number);
    for (uint32_t buffer : over)
      uses.inPlace(buffer, writes, number);
  }
  std::string found() const {
    std::string text;
    for (fb::InPlace pair : uses.pairs(program))
      text += std::to_string(pair.output()) + "<" +
              std::to_string(pair.input()) + " ";
    return text;
  }
};

TEST_F(Pairs, AnUpdateGoesOverItsOperand) {
  uint32_t past = input(), other = input(), present = output();
  step(0, {past}, present, {past});     // the copy
  step(1, {other, present}, present);   // the update
  step(2, {present}, output(7));
  EXPECT_EQ(found(), "0<0 ");
}

TEST_F(Pairs, AReadAfterTheWriteForbids) {
  uint32_t past = input(), present = output();
  step(0, {past}, present, {past});
  step(1, {past}, output(7));
  EXPECT_EQ(found(), "");
}

TEST_F(Pairs, AReadAtOtherElementsForbids) {
  uint32_t x = input();
  step(0, {x}, output());
  EXPECT_EQ(found(), "");
}

TEST_F(Pairs, ReadsBeforeTheFirstWriteAreFree) {
  uint32_t x = input(), temp = 100;
  step(0, {x}, temp);
  step(1, {temp}, output());
  EXPECT_EQ(found(), "0<0 ");
}

TEST_F(Pairs, OfTwoWritersTheFirstCounts) {
  uint32_t x = input(), y = output();
  uses.write(y, 1);
  step(3, {x}, y, {x});
  EXPECT_EQ(found(), "");
}

TEST_F(Pairs, TypesAndSizesMustAgree) {
  input(0, fb::DType::i32);
  input(5);
  step(0, {}, output());
  EXPECT_EQ(found(), "");
}

TEST_F(Pairs, SizesOfOutputsAreKnownBeforeTheRun) {
  // [k, 0] has as many bytes as [0], and k is counted during the run.
  auto k = std::make_unique<fb::SymbolT>();
  k->from_buffer = true;
  program.symbols.push_back(std::move(k));
  program.values = {fb::Scalar(fb::ScalarOp::symbol, 0, 0, 0),
                    fb::Scalar(fb::ScalarOp::constant, 0, 0, 2),
                    fb::Scalar(fb::ScalarOp::mul, 0, 1, 0)};
  uint32_t x = input(), counted = output(), fixed = output();
  program.outputs[0]->dims = {1, 2};
  program.outputs[1]->dims = {1};
  step(0, {x}, counted, {x});
  step(0, {x}, fixed, {x});
  EXPECT_EQ(found(), "1<0 ");
}

TEST_F(Pairs, AnOutputPrefersWhatItUpdates) {
  // Two caches of one size: each present over its own past alone.
  uint32_t a = input(), b = input(), x = output(), y = output();
  step(0, {a}, x, {a});
  step(1, {b}, y, {b});
  EXPECT_EQ(found(), "0<0 1<1 ");
}

TEST_F(Pairs, OfVeryManyAnOutputHasThatAtItsPlaceAndFewMore) {
  constexpr uint32_t count = 3000;
  for (uint32_t i = 0; i < count; ++i)
    uses.read(input(), 0);
  for (uint32_t o = 0; o < count; ++o)
    uses.write(output(), 1 + o);
  std::vector<uint32_t> pairs(count), own(count);
  for (fb::InPlace pair : uses.pairs(program)) {
    ++pairs[pair.output()];
    own[pair.output()] += pair.output() == pair.input();
  }
  EXPECT_THAT(pairs, testing::Each(testing::Le(64)));
  EXPECT_THAT(own, testing::Each(1));
}

TEST_F(Pairs, AnUpdatedInputIsFreeForNoOtherOutput) {
  uint32_t x = input(), updated = output(), other = output();
  step(0, {x}, updated, {x});
  step(1, {}, other); // nothing reads x any more
  EXPECT_EQ(found(), "0<0 ");
}

TEST_F(Pairs, OneInstructionMayAllowSeveral) {
  uint32_t a = input(), b = input();
  step(0, {a, b}, output(), {a, b});
  EXPECT_EQ(found(), "0<0 0<1 ");
}

TEST_F(Pairs, TheCopyMayStayWhereTheUpdateMayNot) {
  // y is a copy of x, z is x updated; x is read for y after z was written.
  uint32_t x = input(), z = output(), y = output();
  step(0, {x}, z, {x});
  step(1, {x}, y, {x});
  EXPECT_EQ(found(), "1<0 ");
}

TEST_F(Pairs, AnOutputThatNothingWritesHasNone) {
  input();
  output();
  EXPECT_EQ(found(), "");
}

} // namespace
