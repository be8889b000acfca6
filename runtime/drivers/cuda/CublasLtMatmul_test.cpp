// What cuBLASLt is told, by a library of its functions that computes on the
// host. (A real one is in tests/cli/vendor_libraries_test.py.)
#include "runtime/drivers/cuda/CublasLtMatmul.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <random>

using namespace knapper;
using namespace knapper::cuda;
using testing::HasSubstr;

namespace {

std::shared_ptr<const CublasLt> fake() {
  setenv("KNAPPER_VENDOR_PATH", FAKE_FOLDER, 1);
  Expected<std::shared_ptr<const CublasLt>> opened = CublasLt::open(nullptr);
  EXPECT_TRUE(bool(opened)) << (opened ? "" : opened.error().message());
  return opened ? *opened : nullptr;
}

/// Rows one after another, or columns; `gap`: elements between them. Batches
/// behind one another.
VendorMatrix matrix(uint32_t arg, int64_t rows, int64_t columns, bool byRows,
                    int64_t gap, bool batched) {
  VendorMatrix m;
  m.arg = arg;
  m.rowStride = byRows ? columns + gap : 1;
  m.columnStride = byRows ? 1 : rows + gap;
  if (batched)
    m.batchStrides = {byRows ? rows * m.rowStride : columns * m.columnStride};
  return m;
}

float activated(float x, VendorActivation activation) {
  switch (activation) {
  case VendorActivation::relu:
    return std::max(x, 0.f);
  case VendorActivation::geluTanh:
    return 0.5f * x *
           (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  default:
    return x;
  }
}

struct MatmulCase {
  int64_t batch, rows, columns, depth; // batch 0: none
  bool lhsByRows, rhsByRows, bias;
  VendorActivation activation;
};

class CublasLtMatmul : public testing::TestWithParam<MatmulCase> {};

TEST_P(CublasLtMatmul, IsTheMatmul) {
  const MatmulCase &c = GetParam();
  bool batched = c.batch > 0;
  int64_t batches = std::max<int64_t>(c.batch, 1);
  VendorMatmul p;
  p.library = VendorLibrary::cublaslt;
  if (batched)
    p.batch = {c.batch};
  p.rows = c.rows;
  p.columns = c.columns;
  p.depth = c.depth;
  p.lhs = matrix(0, c.rows, c.depth, c.lhsByRows, 3, batched);
  p.rhs = matrix(1, c.depth, c.columns, c.rhsByRows, 5, batched);
  p.result = matrix(3, c.rows, c.columns, true, 0, batched);
  p.lhs.offset = 4;
  p.activation = c.activation;
  if (c.bias) {
    p.bias = VendorMatrix{2, DType::f32, 2, 0, 1, {}};
    if (batched)
      p.bias->batchStrides = {0};
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto filled = [&](size_t size) {
    std::vector<float> values(size);
    for (float &v : values)
      v = normal(random);
    return values;
  };
  std::vector<float> lhs = filled(4 + batches * (c.rows + 3) * (c.depth + 3)),
                     rhs = filled(batches * (c.depth + 5) * (c.columns + 5)),
                     bias = filled(2 + c.columns),
                     result(batches * c.rows * c.columns, NAN);
  void *buffers[] = {lhs.data(), rhs.data(), bias.data(), result.data()};

  Expected<std::shared_ptr<const VendorCall>> call = cublasLtMatmul(fake(), p);
  ASSERT_TRUE(bool(call)) << call.error().message();
  EXPECT_EQ((*call)->scratch, 1000u);
  std::vector<std::byte> workspace((*call)->scratch);
  Status status = static_cast<const GpuCall &>(**call).enqueue(
      buffers, workspace.data(), nullptr);
  ASSERT_TRUE(bool(status)) << status.error().message();
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t m = 0; m < c.rows; ++m)
      for (int64_t n = 0; n < c.columns; ++n) {
        double sum = c.bias ? bias[2 + n] : 0;
        for (int64_t k = 0; k < c.depth; ++k)
          sum += double(lhs[4 + (batched ? b * p.lhs.batchStrides[0] : 0) +
                            m * p.lhs.rowStride + k * p.lhs.columnStride]) *
                 rhs[(batched ? b * p.rhs.batchStrides[0] : 0) +
                     k * p.rhs.rowStride + n * p.rhs.columnStride];
        ASSERT_NEAR(result[(b * c.rows + m) * c.columns + n],
                    activated(static_cast<float>(sum), c.activation), 1e-4)
            << b << " " << m << " " << n;
      }
}

constexpr auto kNone = VendorActivation::none;
INSTANTIATE_TEST_SUITE_P(
    Matmuls, CublasLtMatmul,
    testing::Values(
        MatmulCase{0, 7, 9, 5, true, true, false, kNone},
        MatmulCase{0, 7, 9, 5, true, false, true, kNone},
        MatmulCase{0, 7, 9, 5, false, true, true, VendorActivation::relu},
        MatmulCase{0, 7, 9, 5, false, false, false, VendorActivation::geluTanh},
        MatmulCase{3, 4, 6, 8, true, true, true, kNone},
        MatmulCase{3, 4, 6, 8, false, false, false, kNone},
        MatmulCase{0, 1, 9, 5, true, false, true, kNone},
        MatmulCase{0, 7, 1, 5, true, true, true, kNone},
        MatmulCase{0, 7, 9, 1, false, true, false, kNone},
        MatmulCase{2, 1, 1, 1, true, true, true, kNone}));

VendorMatmul plain() {
  VendorMatmul p;
  p.library = VendorLibrary::cublaslt;
  p.rows = p.columns = p.depth = 4;
  p.lhs = matrix(0, 4, 4, true, 0, false);
  p.rhs = matrix(1, 4, 4, true, 0, false);
  p.result = matrix(2, 4, 4, true, 0, false);
  return p;
}

std::string refusal(const VendorMatmul &matmul) {
  Expected<std::shared_ptr<const VendorCall>> call =
      cublasLtMatmul(fake(), matmul);
  return call ? "none" : call.error().what;
}

TEST(CublasLt, RefusesWhatItHasNot) {
  VendorMatmul p = plain();
  EXPECT_EQ(refusal(p), "none");
  p.activation = VendorActivation::gelu;
  EXPECT_THAT(refusal(p), HasSubstr("by tanh only"));
  p = plain();
  p.lhs.rowStride = 8;
  p.lhs.columnStride = 2;
  EXPECT_THAT(refusal(p), HasSubstr("neither its rows nor its columns"));
  p = plain();
  p.lhs.dtype = p.rhs.dtype = DType::i32;
  EXPECT_THAT(refusal(p), HasSubstr("no matmuls of i32"));
  p = plain();
  p.rhs.dtype = DType::bf16; // the fake has only float32
  EXPECT_THAT(refusal(p), HasSubstr("cublasLtMatmulAlgoGetHeuristic returned"));
  p = plain();
  p.batch = {2, 3};
  EXPECT_THAT(refusal(p), HasSubstr("one batch dim"));
  p = plain();
  p.batch = {int64_t(1) << 31};
  p.lhs.batchStrides = p.rhs.batchStrides = p.result.batchStrides = {16};
  EXPECT_THAT(refusal(p), HasSubstr("no 2147483648 matmuls in one call"));
}

TEST(CublasLt, IsOfAKnownVersionAndPlace) {
  EXPECT_THAT(fake()->text(), HasSubstr("cuBLASLt 13.1.0, " FAKE_FOLDER));
  setenv("FAKE_CUBLASLT_VERSION", "110200", 1);
  Expected<std::shared_ptr<const CublasLt>> old = CublasLt::open(nullptr);
  unsetenv("FAKE_CUBLASLT_VERSION");
  ASSERT_FALSE(bool(old));
  EXPECT_THAT(old.error().what, HasSubstr("it is cuBLASLt 11"));
}

TEST(OpenVendor, SaysWhatIsWrong) {
  setenv("KNAPPER_VENDOR_PATH", "/nonexistent::" FAKE_FOLDER, 1);
  Expected<VendorFile> none = openVendorFile({"libof_no_vendor.so.7"});
  ASSERT_FALSE(bool(none));
  EXPECT_THAT(none.error().message(), HasSubstr("no libof_no_vendor.so.7"));
  Expected<VendorFile> found =
      openVendorFile({"libof_no_vendor.so.7", "libcublasLt.so.13"});
  ASSERT_TRUE(bool(found)) << found.error().message();
  EXPECT_EQ(found->find("no_such_function"), nullptr);
}

TEST(OpenVendor, GoesOnBehindADamagedFile) {
  std::string folder = testing::TempDir() + "damaged_vendor";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libcublasLt.so.13") << "no library";
  setenv("KNAPPER_VENDOR_PATH", (folder + ":" FAKE_FOLDER).c_str(), 1);
  Expected<VendorFile> found = openVendorFile({"libcublasLt.so.13"});
  ASSERT_TRUE(bool(found)) << found.error().message();
  EXPECT_THAT(found->path, HasSubstr(FAKE_FOLDER));
  std::ofstream(folder + "/libof_no_vendor.so.7") << "no library";
  Expected<VendorFile> none = openVendorFile({"libof_no_vendor.so.7"});
  ASSERT_FALSE(bool(none));
  EXPECT_THAT(none.error().what, HasSubstr("it lies there but cannot"));
}

TEST(OpenVendor, TakesNoFolderBelowTheWorkingOne) {
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(FAKE_FOLDER);
  setenv("KNAPPER_VENDOR_PATH", ".", 1);
  Expected<VendorFile> found = openVendorFile({"libcublasLt.so.13"});
  std::filesystem::current_path(before);
  if (found) // a system's own
    EXPECT_EQ(found->path.find(FAKE_FOLDER), std::string::npos);
}

} // namespace
