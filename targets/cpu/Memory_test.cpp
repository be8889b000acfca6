// Ragged edges, gathers and scatters: values, and nothing touched outside.
#include "targets/cpu/KernelTest.h"

#include <cstring>
#include <sys/mman.h>

using namespace knapper;

namespace {

/// Memory that ends where a page that may not be touched begins.
template <typename T> class Guarded {
public:
  explicit Guarded(size_t count) : count(count) {
    pages = (count * sizeof(T) + 4095) / 4096 * 4096;
    base =
        static_cast<char *>(mmap(nullptr, pages + 4096, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base + pages, 4096, PROT_NONE);
  }
  ~Guarded() { munmap(base, pages + 4096); }
  Guarded(const Guarded &) = delete;
  T *data() { return reinterpret_cast<T *>(base + pages) - count; }
  T &operator[](size_t i) { return data()[i]; }

private:
  size_t count, pages;
  char *base;
};

class TileMemory : public testing::TestWithParam<std::string_view> {
protected:
  bool compile(const std::string &text, const std::string &name) {
    if (!runsHere(GetParam()))
      return false;
    auto result = compileText(text, name, GetParam());
    EXPECT_TRUE(result) << result.error().message();
    if (!result)
      return false;
    kernels = std::move(*result);
    return true;
  }
  std::unique_ptr<TestKernels> kernels;
};

/// Copies with a pad: y gets the first n of x, then the pad, whole tiles; z
/// gets the first n only.
template <typename T>
void raggedCopy(TestKernels &kernels, const std::string &name, int lanes,
                T pad) {
  for (int n = 0; n <= 2 * lanes; ++n) {
    int tiles = 2;
    Guarded<T> x(n), z(n);
    std::vector<T> y(tiles * lanes);
    for (int i = 0; i < n; ++i)
      x[i] = T(i % 2);
    kernels.call(name, {x.data(), y.data(), z.data()}, {n}, 0, tiles);
    for (int i = 0; i < tiles * lanes; ++i)
      ASSERT_EQ(y[i], i < n ? T(i % 2) : pad)
          << name << " lanes " << lanes << " n " << n << " i " << i;
    for (int i = 0; i < n; ++i)
      ASSERT_EQ(z[i], T(i % 2)) << name << " n " << n << " i " << i;
  }
}

std::string raggedSource(const std::string &element, const std::string &pad,
                         int lanes) {
  std::string n = std::to_string(lanes),
              v = "vector<" + n + "x" + element + ">",
              p = "!tile.buffer<" + element + ">";
  return "tile.func @copy_" + element + "_" + n + "(%x: " + p + ", %y: " + p +
         ", %z: " + p +
         ", %n: index) {\n%id = tile.program_id\n%w = "
         "arith.constant " +
         n +
         " : index\n%off = arith.muli %id, %w : index\n"
         "%valid = arith.subi %n, %off : index\n%pad = arith.constant " +
         pad + "\n%v = tile.load %x[%off] valid %valid pad "
         "%pad : " +
         p + " -> " + v + "\ntile.store %v, %y[%off] : " + v + ", " + p +
         "\ntile.store %v, %z[%off] valid %valid : " + v + ", " + p +
         "\ntile.return\n}\n";
}

TEST_P(TileMemory, RaggedEdgesTouchNothingOutside) {
  std::string text;
  for (int lanes : {16, 48, 5}) {
    text += raggedSource("f32", "7.0 : f32", lanes);
    text += raggedSource("i8", "7 : i8", lanes);
    text += raggedSource("i1", "true", lanes);
    text += raggedSource("bf16", "7.0 : bf16", lanes);
    text += raggedSource("f64", "7.0 : f64", lanes);
  }
  if (!compile(text, "copy_f32_16"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  for (int lanes : {16, 48, 5}) {
    std::string n = "_" + std::to_string(lanes);
    raggedCopy<float>(*kernels, "copy_f32" + n, lanes, 7);
    raggedCopy<int8_t>(*kernels, "copy_i8" + n, lanes, 7);
    raggedCopy<int8_t>(*kernels, "copy_i1" + n, lanes, 1);
    raggedCopy<uint16_t>(*kernels, "copy_bf16" + n, lanes, 0x40e0);
    raggedCopy<double>(*kernels, "copy_f64" + n, lanes, 7);
  }
}

// How many elements there are is known: the narrowest register that holds them,
// widened by the pad.
TEST_P(TileMemory, KnownEdgesArePadded) {
  const std::pair<std::string, std::string> types[] = {
      {"f32", "7.0"}, {"i8", "7"}, {"bf16", "7.0"}, {"f64", "7.0"}};
  const int counts[] = {1, 3, 4, 7, 8, 16, 17, 20, 33, 36, 47};
  std::string text;
  for (const auto &[type, pad] : types)
    for (int count : counts) {
      std::string v = "vector<48x" + type + ">",
                  p = "!tile.buffer<" + type + ">", n = std::to_string(count);
      text +=
          "tile.func @known_" + type + "_" + n + "(%x: " + p + ", %y: " + p +
          ") {\n%c0 = arith.constant 0 : index\n%n = arith.constant " + n +
          " : index\n%pad = arith.constant " + pad + " : " + type +
          "\n%v = tile.load %x[%c0] valid %n pad %pad : " + p + " -> " + v +
          "\ntile.store %v, %y[%c0] : " + v + ", " + p + "\ntile.return\n}\n";
    }
  if (!compile(text, "known_f32_1"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  auto check = [&]<typename T>(const std::string &type, T pad, int count) {
    Guarded<T> x(count);
    for (int i = 0; i < count; ++i)
      x[i] = T(i + 1);
    T y[48];
    kernels->call("known_" + type + "_" + std::to_string(count), {x.data(), y},
                  {}, 0, 1);
    for (int i = 0; i < 48; ++i)
      ASSERT_EQ(y[i], i < count ? T(i + 1) : pad)
          << type << " " << count << " " << i;
  };
  for (int count : counts) {
    check.operator()<float>("f32", 7, count);
    check.operator()<int8_t>("i8", 7, count);
    check.operator()<uint16_t>("bf16", 0x40e0, count);
    check.operator()<double>("f64", 7, count);
  }
}

/// Every `stride`th element of x, the first `valid` of 24, the last of which
/// ends the memory.
template <typename T>
void stridedEdges(TestKernels &kernels, const std::string &name, int stride,
                  T pad) {
  constexpr int lanes = 24;
  for (int valid = 0; valid <= lanes; ++valid) {
    int span = valid ? (valid - 1) * std::abs(stride) + 1 : 0;
    Guarded<T> x(span);
    for (int i = 0; i < span; ++i)
      x[i] = T(i + 1);
    T y[lanes];
    int first = stride < 0 ? span - 1 : 0;
    kernels.call(name, {x.data(), y}, {first, valid}, 0, 1);
    for (int i = 0; i < lanes; ++i)
      ASSERT_EQ(y[i], i < valid ? T(first + i * stride + 1) : pad)
          << name << " valid " << valid << " lane " << i;
  }
}

TEST_P(TileMemory, StridedEdgesArePadded) {
  const int strides[] = {-2, -1, 1, 2, 3, 4, 5};
  auto name = [](const std::string &type, int stride) {
    return "every_" + type + (stride < 0 ? "_back_" : "_") +
           std::to_string(std::abs(stride));
  };
  std::string text;
  for (auto [type, pad] : {std::pair<std::string, std::string>{"f32", "7.0"},
                           {"i8", "7"},
                           {"f64", "7.0"},
                           {"i16", "7"}})
    for (int stride : strides) {
      std::string v = "vector<24x" + type + ">",
                  p = "!tile.buffer<" + type + ">";
      text += "tile.func @" + name(type, stride) + "(%x: " + p + ", %y: " + p +
              ", %first: index, %valid: index) {\n"
              "%c0 = arith.constant 0 : index\n%step = arith.constant " +
              std::to_string(stride) + " : index\n%pad = arith.constant " +
              pad + " : " + type +
              "\n%v = tile.load_strided %x[%first, %step] valid %valid "
              "pad %pad : " +
              p + " -> " + v + "\ntile.store %v, %y[%c0] : " + v + ", " + p +
              "\ntile.return\n}\n";
    }
  if (!compile(text, name("f32", 1)))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  for (int stride : strides) {
    stridedEdges<float>(*kernels, name("f32", stride), stride, 7);
    stridedEdges<int8_t>(*kernels, name("i8", stride), stride, 7);
    stridedEdges<double>(*kernels, name("f64", stride), stride, 7);
    stridedEdges<int16_t>(*kernels, name("i16", stride), stride, 7);
  }
}

TEST_P(TileMemory, TruthIsAnyNonzeroByteAndStoredAsOne) {
  if (!compile(R"(
    tile.func @not(%x: !tile.buffer<i1>, %y: !tile.buffer<i1>) {
      %c0 = arith.constant 0 : index
      %t = arith.constant dense<true> : vector<16xi1>
      %v = tile.load %x[%c0] : !tile.buffer<i1> -> vector<16xi1>
      %r = arith.xori %v, %t : vector<16xi1>
      tile.store %r, %y[%c0] : vector<16xi1>, !tile.buffer<i1>
      tile.return
    })",
               "not"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  uint8_t x[16] = {0, 1, 2, 255, 0, 0, 128}, y[16];
  kernels->call("not", {x, y}, {}, 0, 1);
  for (int i = 0; i < 16; ++i)
    ASSERT_EQ(y[i], x[i] == 0);
}

template <typename T>
void gathers(TestKernels &kernels, const std::string &suffix) {
  const int lanes = 24;
  Guarded<T> x(100);
  Guarded<T> y(100);
  for (int i = 0; i < 100; ++i)
    x[i] = T(i + 1), y[i] = T(0);
  int64_t index[lanes];
  for (int i = 0; i < lanes; ++i)
    index[i] = i < 20 ? (i * 37) % 100 : int64_t(1) << 40; // far outside
  T out[lanes];
  kernels.call("gather_" + suffix, {x.data(), index, out}, {20}, 0, 1);
  for (int i = 0; i < lanes; ++i)
    ASSERT_EQ(out[i], i < 20 && i % 2 == 0 ? x[index[i]] : T(5)) << suffix << i;
  kernels.call("scatter_" + suffix, {y.data(), index, x.data()}, {20}, 0, 1);
  for (int i = 0; i < 100; ++i) {
    T expected = T(0);
    for (int l = 0; l < 20; l += 2)
      if (index[l] == i)
        expected = x[l];
    ASSERT_EQ(y[i], expected) << suffix << i;
  }
  kernels.call("strided_" + suffix, {x.data(), out}, {3, 4}, 0, 1);
  for (int i = 0; i < lanes; ++i)
    ASSERT_EQ(out[i], x[3 + i * 4]);
}

std::string gatherSource(const std::string &t) {
  std::string v = "vector<24x" + t + ">", p = "!tile.buffer<" + t + ">";
  std::string head = R"(
      %c0 = arith.constant 0 : index
      %i = tile.load %index[%c0] : !tile.buffer<i64> -> vector<24xi64>
      %offsets = arith.index_cast %i : vector<24xi64> to vector<24xindex>
      %step = vector.step : vector<24xindex>
      %one = arith.constant dense<1> : vector<24xindex>
      %odd = arith.andi %step, %one : vector<24xindex>
      %mask = arith.cmpi ne, %odd, %one : vector<24xindex>
)";
  return "tile.func @gather_" + t + "(%x: " + p +
         ", %index: !tile.buffer<i64>, %y: " + p + ", %n: index) {" + head +
         "%pad = arith.constant 5" + (t[0] == 'i' ? "" : ".0") + " : " + t +
         "\n%g = tile.gather %x[%offsets] valid %n mask %mask pad %pad : " + p +
         " -> " + v + "\ntile.store %g, %y[%c0] : " + v + ", " + p +
         "\ntile.return\n}\ntile.func @scatter_" + t + "(%y: " + p +
         ", %index: !tile.buffer<i64>, %x: " + p + ", %n: index) {" + head +
         "%v = tile.load %x[%c0] : " + p + " -> " + v +
         "\ntile.scatter %v, %y[%offsets] valid %n mask %mask : " + v + ", " +
         p + "\ntile.return\n}\ntile.func @strided_" + t + "(%x: " + p +
         ", %y: " + p +
         ", %at: index, %stride: index) {\n%c0 = arith.constant 0 : index\n"
         "%g = tile.load_strided %x[%at, %stride] : " +
         p + " -> " + v + "\ntile.store %g, %y[%c0] : " + v + ", " + p +
         "\ntile.return\n}\n";
}

TEST_P(TileMemory, GatherAndScatterSkipLanes) {
  if (!compile(gatherSource("f32") + gatherSource("i8") + gatherSource("i16") +
                   gatherSource("i64"),
               "gather_f32"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  gathers<float>(*kernels, "f32");
  gathers<int8_t>(*kernels, "i8");
  gathers<int16_t>(*kernels, "i16");
  gathers<int64_t>(*kernels, "i64");
}

/// Lanes at a distance that the compiler knows, from a base that it does not,
/// under a mask: a distance of 1 is a run of memory.
template <typename T>
void gatheredRows(TestKernels &kernels, const std::string &name, int distance) {
  constexpr int lanes = 16;
  for (int count = 0; count <= lanes; ++count) {
    Guarded<T> x(3 + (count ? (count - 1) * distance + 1 : 0));
    for (int i = 0; i < 3 + (count ? (count - 1) * distance + 1 : 0); ++i)
      x[i] = T(i + 1);
    T y[lanes];
    kernels.call(name, {x.data(), y}, {3, 3 + count * distance}, 0, 1);
    for (int i = 0; i < lanes; ++i)
      ASSERT_EQ(y[i], i < count ? T(3 + i * distance + 1) : T(0))
          << name << " count " << count << " lane " << i;
  }
}

TEST_P(TileMemory, GatheredRowsUnderAMask) {
  auto name = [](const std::string &type, int distance) {
    return "row_" + type + "_" + std::to_string(distance);
  };
  std::string text;
  for (std::string type : {"f32", "bf16", "i8"})
    for (int distance : {1, 2, 3}) {
      std::string v = "vector<16x" + type + ">",
                  p = "!tile.buffer<" + type + ">", places;
      for (int i = 0; i < 16; ++i)
        places += (i ? ", " : "") + std::to_string(i * distance);
      text += "tile.func @" + name(type, distance) + "(%x: " + p +
              ", %y: " + p +
              ", %first: index, %end: index) {\n"
              "%c0 = arith.constant 0 : index\n"
              "%base = vector.broadcast %first : index to vector<16xindex>\n"
              "%ends = vector.broadcast %end : index to vector<16xindex>\n"
              "%lane = arith.constant dense<[" +
              places +
              "]> : vector<16xindex>\n"
              "%at = arith.addi %base, %lane : vector<16xindex>\n"
              "%in = arith.cmpi slt, %at, %ends : vector<16xindex>\n"
              "%v = tile.gather %x[%at] mask %in : " +
              p + " -> " + v + "\ntile.store %v, %y[%c0] : " + v + ", " + p +
              "\ntile.return\n}\n";
    }
  if (!compile(text, name("f32", 1)))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  for (int distance : {1, 2, 3}) {
    gatheredRows<float>(*kernels, name("f32", distance), distance);
    gatheredRows<uint16_t>(*kernels, name("bf16", distance), distance);
    gatheredRows<int8_t>(*kernels, name("i8", distance), distance);
  }
}

/// Stores one element of `wide`, narrowed; what follows it stays.
template <typename Wide, typename T>
void oneNarrowed(TestKernels &kernels, const std::string &name) {
  Wide x[16];
  std::fill_n(x, 16, Wide(3));
  T y[16];
  std::fill_n(y, 16, T(7));
  kernels.call(name, {x, y}, {}, 0, 1);
  EXPECT_NE(y[0], T(7)) << name;
  for (int i = 1; i < 16; ++i)
    EXPECT_EQ(y[i], T(7)) << name << " " << i;
}

TEST_P(TileMemory, OneLaneOfANarrowingStore) {
  auto source = [](const std::string &wide, const std::string &narrow,
                   const std::string &op) {
    std::string from = "vector<16x" + wide + ">",
                to = "vector<16x" + narrow + ">";
    return "tile.func @narrow_" + narrow + "(%x: !tile.buffer<" + wide +
           ">, %y: !tile.buffer<" + narrow +
           ">) {\n%c0 = arith.constant 0 : index\n"
           "%c1 = arith.constant 1 : index\n%v = tile.load %x[%c0] : "
           "!tile.buffer<" +
           wide + "> -> " + from + "\n%w = " + op + " %v : " + from + " to " +
           to + "\ntile.store %w, %y[%c0] valid %c1 : " + to +
           ", !tile.buffer<" + narrow + ">\ntile.return\n}\n";
  };
  if (!compile(source("i32", "i8", "arith.trunci") +
                   source("i32", "i16", "arith.trunci") +
                   source("i64", "i32", "arith.trunci") +
                   source("f32", "bf16", "arith.truncf"),
               "narrow_i8"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  oneNarrowed<int32_t, int8_t>(*kernels, "narrow_i8");
  oneNarrowed<int32_t, int16_t>(*kernels, "narrow_i16");
  oneNarrowed<int64_t, int32_t>(*kernels, "narrow_i32");
  oneNarrowed<float, uint16_t>(*kernels, "narrow_bf16");
}

TEST_P(TileMemory, ScratchStatusPrefetchAndNontemporal) {
  if (!compile(R"(
    tile.func @f(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
      %c0 = arith.constant 0 : index
      %c64 = arith.constant 64 : index
      %id = tile.program_id
      tile.prefetch %x[%c64] : !tile.buffer<f32>
      %a = tile.scratch[%c0] : !tile.buffer<f32>
      %b = tile.scratch[%c64] : !tile.buffer<f32>
      %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<16xf32>
      tile.store %v, %a[%c0] {alignment = 64} : vector<16xf32>, !tile.buffer<f32>
      %w = arith.addf %v, %v : vector<16xf32>
      tile.store %w, %b[%c0] : vector<16xf32>, !tile.buffer<f32>
      %c8 = arith.constant 8 : index
      %both = tile.load %a[%c8] : !tile.buffer<f32> -> vector<16xf32>
      tile.store %both, %y[%c0] {nontemporal, alignment = 64} : vector<16xf32>, !tile.buffer<f32>
      %bad = arith.cmpi eq, %id, %n : index
      tile.set_status 1 if %bad
      tile.return
    })",
               "f"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  alignas(64) float x[128], y[16];
  for (int i = 0; i < 16; ++i)
    x[i] = i + 1;
  kernels->call("f", {x, y}, {3}, 0, 3);
  EXPECT_EQ(kernels->status, kernelOk);
  for (int i = 0; i < 16; ++i)
    ASSERT_EQ(y[i], i < 8 ? i + 9 : 2 * (i - 7));
  kernels->call("f", {x, y}, {3}, 0, 4);
  EXPECT_EQ(kernels->status, kernelIndexOutOfRange);
}

// Stores to an output declared to be an input's memory are seen by later loads.
TEST_P(TileMemory, DeclaredAliasIsHonoured) {
  if (!compile(R"(
    tile.func @f(%x: !tile.buffer<f32>, %z: !tile.buffer<f32>, %y: !tile.buffer<f32> {tile.may_alias = 0 : i64}) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %one = arith.constant 1.0 : f32
      scf.for %i = %c0 to %c4 step %c1 {
        %v = tile.load %x[%c0] : !tile.buffer<f32> -> f32
        %w = arith.addf %v, %one : f32
        tile.store %w, %y[%c0] : f32, !tile.buffer<f32>
      }
      tile.return
    })",
               "f"))
    GTEST_SKIP() << "this machine does not run " << GetParam();
  float x = 1, z = 0;
  kernels->call("f", {&x, &z, &x}, {}, 0, 1);
  EXPECT_EQ(x, 5);
}

INSTANTIATE_TEST_SUITE_P(Isa, TileMemory, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
