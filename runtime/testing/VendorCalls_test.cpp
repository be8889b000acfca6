#include "runtime/drivers/null/NullDevice.h"
#include "runtime/execute/VendorCalls.h"

#include <gmock/gmock.h>
#include <limits>

using namespace knapper;
using testing::HasSubstr;

namespace {

/// Sizes, strides and offsets are the values of their own number.
struct Made {
  std::vector<int64_t> values;
  std::vector<uint64_t> bytes = {1000, 1000, 1000};
  Program::Launch launch = {};
  Program::Matmul matmul = {};

  uint32_t value(int64_t number) {
    values.push_back(number);
    return static_cast<uint32_t>(values.size() - 1);
  }
  Program::Matrix matrix(uint32_t arg, int64_t rowStride) {
    return {arg, DType::f32, value(0), value(rowStride), value(1), {}};
  }
  /// 4 x 5 times 5 x 6.
  Made() {
    uint32_t zero = value(0);
    for (uint32_t buffer : {0u, 1u, 2u})
      launch.args.push_back({buffer, zero});
    launch.origin = "matmul";
    matmul.library = VendorLibrary::onednn;
    matmul.rows = value(4);
    matmul.columns = value(6);
    matmul.depth = value(5);
    matmul.lhs = matrix(0, 5);
    matmul.rhs = matrix(1, 6);
    matmul.result = matrix(2, 6);
  }
  std::string check() {
    Status status = checkReach(matmul, launch, values, bytes);
    return status ? "" : status.error().message();
  }
};

TEST(VendorCalls, ReachOfEachSideIsChecked) {
  EXPECT_EQ(Made().check(), "");
  Made exact;
  exact.bytes = {4 * 5 * 4, 5 * 6 * 4, 4 * 6 * 4};
  EXPECT_EQ(exact.check(), "");
  for (unsigned side : {0u, 1u, 2u}) {
    Made made = exact;
    --made.bytes[side];
    EXPECT_THAT(made.check(),
                HasSubstr("bytes into argument " + std::to_string(side)));
  }
  Made offset = exact;
  offset.values[offset.matmul.rhs.offset] = 1;
  EXPECT_THAT(offset.check(), HasSubstr("into argument 1"));
  Made within = exact; // the argument begins behind the buffer
  within.launch.args[0].offset = within.value(4);
  EXPECT_THAT(within.check(), HasSubstr("into argument 0"));
  Made batch = exact;
  batch.matmul.batch = {batch.value(3)};
  for (auto *side :
       {&batch.matmul.lhs, &batch.matmul.rhs, &batch.matmul.result})
    side->batchStrides = {batch.value(0)};
  EXPECT_EQ(batch.check(), "");
  batch.values[batch.matmul.result.batchStrides[0]] = 24;
  EXPECT_THAT(batch.check(), HasSubstr("into argument 2"));
  Made large;
  large.values[large.matmul.lhs.rowStride] =
      std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THAT(large.check(), HasSubstr("into argument 0"));
}

TEST(VendorCalls, LibrariesAreAskedForPossibleMatmuls) {
  VendorMatmul good;
  good.batch = {3};
  good.rows = 4;
  good.columns = 6;
  good.depth = 5;
  good.lhs = {0, DType::f32, 0, 5, 1, {20}};
  good.rhs = {1, DType::f32, 0, 6, 1, {0}};
  good.bias = VendorMatrix{2, DType::f32, 7, 0, 1, {0}};
  good.result = {3, DType::f32, 0, 6, 1, {24}};
  EXPECT_TRUE(isPossible(good));
  auto without = [&](auto change) {
    VendorMatmul matmul = good;
    change(matmul);
    return !isPossible(matmul);
  };
  EXPECT_TRUE(without([](VendorMatmul &p) { p.rows = 0; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.batch[0] = -1; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.lhs.rowStride = -5; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.rhs.offset = -1; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.bias->rowStride = 6; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.bias->columnStride = 2; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.bias->batchStrides = {6}; }));
  EXPECT_TRUE(without([](VendorMatmul &p) { p.result.batchStrides = {0}; }));
  EXPECT_TRUE(without([](VendorMatmul &p) {
    p.rows = p.columns = p.depth = int64_t(1) << 20;
    p.batch = {2}; // 2^61
  }));
  EXPECT_TRUE(without([](VendorMatmul &p) {
    p.rows = p.columns = int64_t(1) << 40; // beyond 64 bits
  }));
  VendorMatmul narrow = good;
  narrow.columns = 1;
  narrow.bias->columnStride = 3;
  narrow.batch = {1};
  narrow.result.batchStrides = {0};
  EXPECT_TRUE(isPossible(narrow));
}

TEST(VendorCalls, OptionalLaunchesMayHaveNoChoiceLeft) {
  Made made;
  Program program = {};
  Program::Choice library = {};
  library.matmul = made.matmul;
  library.label = "vendor{onednn}";
  made.launch.origin = "matmul";
  made.launch.choices = {library}; // which the null device refuses
  made.launch.optional = true;
  program.launches = {made.launch};
  Binding binding;
  binding.values = made.values;
  binding.known.assign(made.values.size(), 1);
  binding.choice = {0};
  std::shared_ptr<Device> device = null::device();
  EXPECT_TRUE(bool(prepareCalls(program, *device, 1, binding)));
  EXPECT_EQ(binding.choice[0], Program::kNone);
  program.launches[0].optional = false;
  binding.choice = {0};
  EXPECT_FALSE(bool(prepareCalls(program, *device, 1, binding)));
}

TEST(VendorCalls, ChoicesOfAbsentLibrariesGo) {
  Made made;
  Program program = {};
  program.name = "main";
  Program::Choice compiled = {}, library = {};
  library.matmul = made.matmul;
  made.launch.choices = {library, compiled};
  program.launches = {made.launch, made.launch};
  std::shared_ptr<Device> device = null::device();
  std::vector<VendorUse> uses = openLibraries(program, *device);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].launches, 2u);
  EXPECT_EQ(uses[0].opened, "");
  EXPECT_THAT(uses[0].why, HasSubstr("runs nothing of it"));
  for (const Program::Launch &launch : program.launches) {
    ASSERT_EQ(launch.choices.size(), 1u);
    EXPECT_FALSE(launch.choices[0].matmul);
  }
}

} // namespace
