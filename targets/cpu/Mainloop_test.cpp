// The main loop of matmuls against three plain loops.
#include "targets/cpu/KernelTest.h"

#include <bit>
#include <random>

using namespace knapper;

namespace {

struct Shape {
  int bm, bn;
  std::string a = "f32", b = "f32";
  bool packedA = false, outer = false, init = false, rows = false,
       prefetch = false;
};

// A and B at offsets, strides and all from symbols; y rows of bn.
std::string source(const Shape &s, const std::string &name) {
  std::string m = std::to_string(s.bm), n = std::to_string(s.bn);
  std::string pa = "!tile.buffer<" + s.a + ">",
              pb = "!tile.buffer<" + s.b + ">";
  std::string type = "vector<" + m + "x" + n + "xf32>",
              row = "vector<" + n + "xf32>";
  std::string text =
      "tile.func @" + name + "(%a: " + pa + ", %b: " + pb +
      ", %y: !tile.buffer<f32>, %aoff: index, %lda: index, %ka: index, %boff: "
      "index, %ldb: index, %k: index, %n: index, %ao: index, %bo: index, "
      "%rows: "
      "index) {\n%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : "
      "index\n"
      "%bm = arith.constant " +
      m +
      " : index\n%three = arith.constant "
      "dense<3.0> : " +
      type + "\n%acc = tile.mainloop A(%a[%aoff], row " +
      (s.packedA ? "%c1, k %bm" : "%lda, k %ka") +
      (s.rows ? ", rows %rows" : "") + ") B(%b[%boff], k %ldb) over %k " +
      (s.outer ? "outer %n(%ao, %bo) " : "") + (s.init ? "init %three " : "") +
      (s.prefetch ? "prefetch %b[%boff] step %c1 " : "") + ": " + pa + ", " +
      pb + " -> " + type + "\n";
  for (int i = 0; i < s.bm; ++i) {
    std::string r = std::to_string(i);
    text += "%r" + r + " = vector.extract %acc[" + r + "] : " + row + " from " +
            type + "\n%o" + r + " = arith.constant " +
            std::to_string(i * s.bn) + " : index\ntile.store %r" + r +
            ", %y[%o" + r + "] : " + row + ", !tile.buffer<f32>\n";
  }
  return text + "tile.return\n}\n";
}

uint16_t encode(float x, const std::string &type) {
  if (type == "bf16")
    return std::bit_cast<uint32_t>(x) >> 16;
  return std::bit_cast<uint16_t>(_Float16(x));
}

class Mainloop : public testing::TestWithParam<std::string_view> {};

TEST_P(Mainloop, MatchesThreeLoops) {
  if (!runsHere(GetParam()))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  std::vector<Shape> shapes = {
      {8, 48}, {6, 16}, {1, 64}, {3, 24}, {5, 8, "f32", "f32", true}};
  shapes.push_back({4, 32, "bf16", "bf16"});
  shapes.push_back({4, 16, "f32", "bf16", false, true});
  shapes.push_back({2, 16, "f16", "f16", true, true, true});
  shapes.push_back({7, 16, "f32", "f32", false, true, true, true, true});
  shapes.push_back({6, 20, "f32", "f32", false, false, true, false, true});
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i)
    text += source(shapes[i], "mm" + std::to_string(i));
  auto kernels = compileText(text, "mm0", GetParam());
  ASSERT_TRUE(kernels) << kernels.error().message();
  std::mt19937 random(1);
  for (size_t i = 0; i < shapes.size(); ++i)
    for (int k : {0, 1, 3, 4, 7, 64})
      for (bool transposed : {false, true}) {
        const Shape &s = shapes[i];
        int64_t aoff = 5, boff = 3, ldb = s.bn + 1, n = s.outer ? 2 : 1;
        int64_t ao = s.bm * (k + 2), bo = ldb * (k + 1);
        int64_t lda = transposed ? 1 : k + 2, ka = transposed ? s.bm : 1;
        if (s.packedA)
          lda = 1, ka = s.bm;
        // Small integers: exact in every type.
        std::vector<float> a(aoff + n * ao + 64), b(boff + n * bo + 64);
        for (float &x : a)
          x = int(random() % 9) - 4;
        for (float &x : b)
          x = int(random() % 9) - 4;
        std::vector<uint16_t> a16, b16;
        for (float x : a)
          a16.push_back(encode(x, s.a));
        for (float x : b)
          b16.push_back(encode(x, s.b));
        std::vector<float> y(s.bm * s.bn, -99);
        int64_t rows = s.rows ? std::max(1, s.bm - 2) : s.bm;
        (*kernels)->call("mm" + std::to_string(i),
                         {s.a == "f32" ? (void *)a.data() : a16.data(),
                          s.b == "f32" ? (void *)b.data() : b16.data(),
                          y.data()},
                         {aoff, lda, ka, boff, ldb, k, n, ao, bo, rows}, 0, 1);
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < s.bn; ++c) {
            float sum = s.init ? 3 : 0;
            for (int o = 0; o < n; ++o)
              for (int q = 0; q < k; ++q)
                sum += a[aoff + o * ao + r * lda + q * ka] *
                       b[boff + o * bo + q * ldb + c];
            ASSERT_EQ(y[r * s.bn + c], sum)
                << "shape " << i << " k " << k << " row " << r << " col " << c;
          }
      }
}

// Bytes at the ends of their range, whose sums no 16 bits hold; K of any
// remainder, A with and without a stride along K.
TEST_P(Mainloop, AddsMatmulsOfBytes) {
  if (!runsHere(GetParam()))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  std::vector<std::array<int, 3>> shapes; // rows, columns, k
  for (int k : {0, 1, 2, 3, 4, 7, 16, 22, 64, 1027})
    for (auto [rows, columns] : {std::pair(4, 16), {3, 48}, {1, 64}})
      shapes.push_back({rows, columns, k});
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto [rows, columns, k] = shapes[i];
    auto n = [](int64_t x) { return std::to_string(x); };
    std::string type = "vector<" + n(rows) + "x" + n(columns) + "xi32>",
                row = "vector<" + n(columns) + "xi32>";
    text += "tile.func @mm" + n(i) +
            "(%a: !tile.buffer<i8>, %b: !tile.buffer<i8>, %y: "
            "!tile.buffer<i32>, %lda: index, %ka: index, %valid: index) {\n"
            "%z = arith.constant 0 : index\n%one = arith.constant 1 : index\n"
            "%k = arith.constant " +
            n(k) + " : index\n%ldb = arith.constant " + n(4 * columns) +
            " : index\n%seven = arith.constant dense<7> : " + type + "\n" +
            "%acc = tile.mainloop A(%a[%z], row %lda, k " +
            (i % 2 ? "%one" : "%ka") +
            ", rows %valid) B(%b[%z], k %ldb) over %k init %seven : "
            "!tile.buffer<i8>, !tile.buffer<i8> -> " +
            type + "\n";
    for (int r = 0; r < rows; ++r)
      text += "%r" + n(r) + " = vector.extract %acc[" + n(r) + "] : " + row +
              " from " + type + "\n%o" + n(r) + " = arith.constant " +
              n(r * columns) + " : index\ntile.store %r" + n(r) + ", %y[%o" +
              n(r) + "] : " + row + ", !tile.buffer<i32>\n";
    text += "tile.return\n}\n";
  }
  auto kernels = compileText(text, "mm0", GetParam());
  ASSERT_TRUE(kernels) << kernels.error().message();
  std::mt19937 random(3);
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto [rows, columns, k] = shapes[i];
    int64_t ka = i % 2 ? 1 : 3, lda = k * ka + 1, groups = (k + 3) / 4;
    // Not a byte more than is read: the row past the valid ones is not there.
    int valid = std::max(1, rows - 1);
    std::vector<uint8_t> a(k ? (valid - 1) * lda + (k - 1) * ka + 1 : 0);
    std::vector<int8_t> b(groups * columns * 4);
    for (uint8_t &x : a)
      x = random() % 3 ? 255 : random();
    for (int j = 0; j < columns; ++j)
      for (int q = 0; q < k; ++q)
        b[(q / 4 * columns + j) * 4 + q % 4] = j % 2 ? -128 : random();
    std::vector<int32_t> y(rows * columns, -99);
    (*kernels)->call("mm" + std::to_string(i), {a.data(), b.data(), y.data()},
                     {lda, ka, valid}, 0, 1);
    for (int r = 0; r < valid; ++r)
      for (int j = 0; j < columns; ++j) {
        int32_t sum = 7;
        for (int q = 0; q < k; ++q)
          sum += a[r * lda + q * ka] * b[(q / 4 * columns + j) * 4 + q % 4];
        ASSERT_EQ(y[r * columns + j], sum)
            << "shape " << i << " row " << r << " column " << j;
      }
  }
}

// K odd and even, known and not; not an element more than is read.
TEST_P(Mainloop, AddsMatmulsOfPairs) {
  if (!runsHere(GetParam()))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  struct Case {
    int rows, columns, k;
    bool known, strided, outer;
  };
  std::vector<Case> cases;
  for (int k : {0, 1, 2, 3, 8, 9, 64, 131})
    for (auto [rows, columns] : {std::pair(4, 16), {8, 48}, {1, 64}, {3, 32}})
      for (bool known : {false, true})
        // Runs of an outer loop are whole pairs of B.
        cases.push_back({rows, columns, k, known, rows == 3, k % 2 == 0});
  std::string text;
  auto n = [](int64_t x) { return std::to_string(x); };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    std::string type = "vector<" + n(c.rows) + "x" + n(c.columns) + "xf32>",
                row = "vector<" + n(c.columns) + "xf32>";
    text +=
        "tile.func @mm" + n(i) +
        "(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, %y: "
        "!tile.buffer<f32>, %lda: index, %ka: index, %valid: index, %size: "
        "index, %bo: index) {\n%z = arith.constant 0 : index\n%one = "
        "arith.constant 1 : index\n%two = arith.constant 2 : index\n%fixed = "
        "arith.constant " +
        n(c.k) + " : index\n%ldb = arith.constant " + n(2 * c.columns) +
        " : index\n%seven = arith.constant dense<7.0> : " + type +
        "\n%acc = tile.mainloop A(%a[%z], row %lda, k " +
        (c.strided ? "%ka" : "%one") +
        ", rows %valid) B(%b[%z], k %ldb) over " +
        (c.known ? "%fixed" : "%size") +
        (c.outer ? " outer %two(%size, %bo)" : "") +
        " init %seven {pairs} : !tile.buffer<bf16>, !tile.buffer<bf16> -> " +
        type + "\n";
    for (int r = 0; r < c.rows; ++r)
      text += "%r" + n(r) + " = vector.extract %acc[" + n(r) + "] : " + row +
              " from " + type + "\n%o" + n(r) + " = arith.constant " +
              n(r * c.columns) + " : index\ntile.store %r" + n(r) + ", %y[%o" +
              n(r) + "] : " + row + ", !tile.buffer<f32>\n";
    text += "tile.return\n}\n";
  }
  auto kernels = compileText(text, "mm0", GetParam());
  ASSERT_TRUE(kernels) << kernels.error().message();
  std::mt19937 random(5);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &c = cases[i];
    int64_t ka = c.strided ? 3 : 1, outer = c.outer ? 2 : 1,
            pairs = (c.k + 1) / 2;
    int64_t lda = outer * c.k * ka + 1, bo = pairs * 2 * c.columns;
    int valid = std::max(1, c.rows - 1);
    // Small integers: exact in every order.
    std::vector<uint16_t> a((valid - 1) * lda + (outer - 1) * c.k +
                            std::max<int64_t>(0, (c.k - 1) * ka + 1)),
        b(outer * bo);
    auto value = [](uint16_t bits) {
      return std::bit_cast<float>(uint32_t(bits) << 16);
    };
    for (uint16_t &x : a)
      x = encode(int(random() % 9) - 4, "bf16");
    auto at = [&](int o, int q, int j) {
      return o * bo + (q / 2 * c.columns + j) * 2 + q % 2;
    };
    for (int o = 0; o < outer; ++o)
      for (int j = 0; j < c.columns; ++j)
        for (int q = 0; q < c.k; ++q)
          b[at(o, q, j)] = encode(int(random() % 9) - 4, "bf16");
    std::vector<float> y(c.rows * c.columns, -99);
    (*kernels)->call("mm" + n(i), {a.data(), b.data(), y.data()},
                     {lda, ka, valid, c.k, bo}, 0, 1);
    for (int r = 0; r < valid; ++r)
      for (int j = 0; j < c.columns; ++j) {
        float sum = 7;
        for (int o = 0; o < outer; ++o)
          for (int q = 0; q < c.k; ++q)
            sum += value(a[r * lda + o * c.k + q * ka]) * value(b[at(o, q, j)]);
        ASSERT_EQ(y[r * c.columns + j], sum)
            << "case " << i << " row " << r << " column " << j;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Mainloop, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
