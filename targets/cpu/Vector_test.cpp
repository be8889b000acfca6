// Vector operations and control flow, compiled and run.
#include "targets/cpu/KernelTest.h"

using namespace knapper;

namespace {

class Vector : public testing::TestWithParam<std::string_view> {
protected:
  /// Runs `body`, which reads %x (f32, elements 1, 2, 3, ...) and stores to %y
  /// at %c0; returns the first `count` elements of y.
  std::vector<float> run(const std::string &body, int count,
                         std::vector<int64_t> symbols = {0}) {
    if (!runsHere(GetParam()))
      return {};
    auto kernels = compileText(
        "tile.func @f(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) "
        "{\n%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n" +
            body + "\ntile.return\n}",
        "f", GetParam());
    EXPECT_TRUE(kernels) << kernels.error().message();
    if (!kernels)
      return {};
    std::vector<float> x(256), y(256, -1);
    for (int i = 0; i < 256; ++i)
      x[i] = i + 1;
    (*kernels)->call("f", {x.data(), y.data()}, symbols, 0, 1);
    y.resize(count);
    return y;
  }
  std::string load(const std::string &name, int lanes, int at = 0) {
    std::string n = std::to_string(at);
    return "%at_" + name + " = arith.constant " + n + " : index\n%" + name +
           " = tile.load %x[%at_" + name + "] : !tile.buffer<f32> -> vector<" +
           std::to_string(lanes) + "xf32>\n";
  }
  std::string store(const std::string &name, const std::string &type,
                    const std::string &at = "c0") {
    return "tile.store %" + name + ", %y[%" + at + "] : " + type +
           ", !tile.buffer<f32>\n";
  }
  std::vector<float> numbers(std::initializer_list<float> list) {
    return runsHere(GetParam()) ? std::vector<float>(list)
                                : std::vector<float>();
  }
};

TEST_P(Vector, ReductionsOfAnyWidth) {
  for (int lanes : {1, 2, 7, 16, 24, 48, 64, 100}) {
    std::string v = "vector<" + std::to_string(lanes) + "xf32>";
    float sum = lanes * (lanes + 1) / 2;
    EXPECT_EQ(
        run(load("v", lanes) +
                "%s = vector.reduction <add>, %v fastmath<reassoc> : " + v +
                " into f32\n%t = vector.reduction <add>, %v : " + v +
                " into f32\n%m = vector.reduction <maximumf>, %v : " + v +
                " into f32\n%i = vector.reduction <minnumf>, %v, %s : " + v +
                " into f32\n" + store("s", "f32") +
                "%c2 = arith.constant 2 : index\n"
                "%c3 = arith.constant 3 : index\n" +
                store("t", "f32", "c1") + store("m", "f32", "c2") +
                store("i", "f32", "c3"),
            4),
        numbers({sum, sum, float(lanes), 1}))
        << lanes;
  }
}

TEST_P(Vector, LookupsByTheLowBits) {
  // A table of one instruction on some machines, and one that never is; whole
  // registers and less.
  for (int words : {32, 8})
    for (int lanes : {4, 16, 48, 64}) {
      std::string table, n = std::to_string(lanes);
      std::vector<float> wanted;
      for (int i = 0; i < words; ++i)
        table += (i ? ", " : "") + std::to_string(i * i - 7);
      for (int i = 1; i <= lanes; ++i) {
        int word = (i - 40) & (words - 1);
        wanted.push_back(word * word - 7);
      }
      std::string f = "vector<" + n + "xf32>", i = "vector<" + n + "xi32>";
      EXPECT_EQ(run(load("a", lanes) + "%i = arith.fptosi %a : " + f + " to " +
                        i + "\n%forty = arith.constant dense<40> : " + i +
                        "\n%index = arith.subi %i, %forty : " + i +
                        "\n%word = tile.lookup %index in [" + table +
                        "] : " + i + "\n%r = arith.sitofp %word : " + i +
                        " to " + f + "\n" + store("r", f),
                    lanes),
                runsHere(GetParam()) ? wanted : std::vector<float>())
          << words << " words, " << lanes << " lanes";
    }
}

TEST_P(Vector, ScalesByPowersOfTwo) {
  // Powers -352, -341, ... past both ends of the exponents, whole and, a
  // quarter more, to be rounded down.
  for (int lanes : {4, 16, 64})
    for (double more : {0.0, 0.25}) {
      std::vector<float> wanted;
      for (int i = 1; i <= lanes; ++i)
        wanted.push_back(std::ldexp(float(i), 11 * i - 352));
      std::string f = "vector<" + std::to_string(lanes) + "xf32>";
      EXPECT_EQ(run(load("a", lanes) +
                        "%step = arith.constant dense<1.1e1> : " + f +
                        "\n%first = arith.constant dense<" +
                        std::to_string(more - 352) + "> : " + f +
                        "\n%power = math.fma %a, %step, %first : " + f +
                        "\n%r = tile.scale_by_power %a, %power : " + f + "\n" +
                        store("r", f),
                    lanes),
                runsHere(GetParam()) ? wanted : std::vector<float>())
          << lanes << " lanes";
    }
}

TEST_P(Vector, AddsMatmulsOfBytes) {
  // Bytes x, x, 255, 255 by the least ones: sums of two exceed 16 bits.
  for (int lanes : {4, 8, 16, 48}) {
    std::string n = std::to_string(lanes), f = "vector<" + n + "xf32>",
                i = "vector<" + n + "xi32>";
    std::vector<float> wanted;
    for (int x = 1; x <= lanes; ++x)
      wanted.push_back(x + (255 + 255 + x + x) * -128);
    EXPECT_EQ(run(load("x0", lanes) + "%i = arith.fptosi %x0 : " + f + " to " +
                      i + "\n%high = arith.constant dense<0xffff0000> : " + i +
                      "\n%times = arith.constant dense<0x101> : " + i +
                      "\n%low = arith.muli %i, %times : " + i +
                      "\n%a = arith.ori %low, %high : " + i +
                      "\n%b = arith.constant dense<0x80808080> : " + i +
                      "\n%s = tile.add_byte_products %i, %a, %b : " + i +
                      "\n%r = arith.sitofp %s : " + i + " to " + f + "\n" +
                      store("r", f),
                  lanes),
              runsHere(GetParam()) ? wanted : std::vector<float>())
        << lanes << " lanes";
  }
}

TEST_P(Vector, PlacesInPages) {
  auto places = run("%n7 = arith.constant 7 : index\n"
                    "%a = tile.page_offset %x[%c0] : !tile.buffer<f32>\n"
                    "%b = tile.page_offset %x[%n7] : !tile.buffer<f32>\n"
                    "%ai = arith.index_cast %a : index to i32\n"
                    "%bi = arith.index_cast %b : index to i32\n"
                    "%af = arith.sitofp %ai : i32 to f32\n"
                    "%bf = arith.sitofp %bi : i32 to f32\n" +
                        store("af", "f32") + store("bf", "f32", "c1"),
                    2);
  if (places.empty())
    return;
  EXPECT_LT(places[0], 4096);
  EXPECT_EQ((int(places[0]) + 28) % 4096, int(places[1]));
}

TEST_P(Vector, ShufflesAndSlices) {
  EXPECT_EQ(run(load("a", 4) + load("b", 4, 8) +
                    "%s = vector.shuffle %a, %b [0, 4, 3, 7, 1] : "
                    "vector<4xf32>, vector<4xf32>\n" +
                    store("s", "vector<5xf32>"),
                5),
            numbers({1, 9, 4, 12, 2}));
  EXPECT_EQ(run(load("a", 2) + load("b", 4, 8) +
                    "%s = vector.shuffle %a, %b [0, 2, 5, 1] : "
                    "vector<2xf32>, vector<4xf32>\n" +
                    store("s", "vector<4xf32>"),
                4),
            numbers({1, 9, 12, 2}));
  EXPECT_EQ(run(load("a", 3) + load("b", 3, 8) +
                    "%s = vector.interleave %a, %b : vector<3xf32> -> "
                    "vector<6xf32>\n" +
                    store("s", "vector<6xf32>"),
                6),
            numbers({1, 9, 2, 10, 3, 11}));
  EXPECT_EQ(run(load("a", 8) +
                    "%e, %o = vector.deinterleave %a : vector<8xf32> -> "
                    "vector<4xf32>\n%s = arith.subf %e, %o : vector<4xf32>\n" +
                    store("o", "vector<4xf32>"),
                4),
            numbers({2, 4, 6, 8}));
  EXPECT_EQ(run(load("a", 48) +
                    "%s = vector.extract_strided_slice %a {offsets = [15], "
                    "sizes = [3], strides = [1]} : vector<48xf32> to "
                    "vector<3xf32>\n%t = vector.insert_strided_slice %s, %a "
                    "{offsets = [1], strides = [1]} : vector<3xf32> into "
                    "vector<48xf32>\n" +
                    store("t", "vector<48xf32>"),
                5),
            numbers({1, 16, 17, 18, 5}));
}

// One stage of a transposition: lanes of two registers each, or more.
TEST_P(Vector, ShufflesOfSeveralRegisters) {
  for (int distance : {1, 4, 8, 16}) {
    std::string mask;
    std::vector<float> expected;
    for (int i = 0; i < 32; ++i) {
      int lane = i & distance ? 32 + (i ^ distance) : i;
      mask += (i ? ", " : "") + std::to_string(lane);
      expected.push_back(lane < 32 ? lane + 1 : lane - 32 + 101);
    }
    if (!runsHere(GetParam()))
      expected.clear();
    EXPECT_EQ(run(load("a", 32) + load("b", 32, 100) +
                      "%s = vector.shuffle %a, %b [" + mask +
                      "] : vector<32xf32>, vector<32xf32>\n" +
                      store("s", "vector<32xf32>"),
                  32),
              expected)
        << distance;
  }
}

TEST_P(Vector, ElementsRowsAndMasks) {
  EXPECT_EQ(run(load("a", 6) +
                    "%e = vector.extract %a[%n] : f32 from vector<6xf32>\n"
                    "%t = vector.insert %e, %a[0] : f32 into vector<6xf32>\n" +
                    store("t", "vector<6xf32>"),
                6, {4}),
            numbers({5, 2, 3, 4, 5, 6}));
  EXPECT_EQ(
      run(load("a", 6) +
              "%r = vector.broadcast %a : vector<6xf32> to "
              "vector<2x6xf32>\n%d = arith.addf %r, %r : vector<2x6xf32>\n"
              "%i = vector.insert %a, %d[0] : vector<6xf32> into "
              "vector<2x6xf32>\n%f = vector.shape_cast %i : "
              "vector<2x6xf32> to vector<12xf32>\n" +
              store("f", "vector<12xf32>"),
          12),
      numbers({1, 2, 3, 4, 5, 6, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(run(load("a", 6) +
                    "%m = vector.create_mask %n : vector<6xi1>\n"
                    "%z = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.5]> "
                    ": vector<6xf32>\n%s = arith.select %m, %a, %z : "
                    "vector<6xi1>, vector<6xf32>\n" +
                    store("s", "vector<6xf32>"),
                6, {2}),
            numbers({1, 2, 2, 3, 4, 5.5}));
  EXPECT_EQ(run("%i = vector.step : vector<5xindex>\n"
                "%j = arith.index_cast %i : vector<5xindex> to vector<5xi32>\n"
                "%s = arith.sitofp %j : vector<5xi32> to vector<5xf32>\n" +
                    store("s", "vector<5xf32>"),
                5),
            numbers({0, 1, 2, 3, 4}));
}

TEST_P(Vector, LoopsCarryTiles) {
  for (int64_t n : {0, 1, 5}) {
    std::vector<float> expected =
        numbers({float(1 + n), float(2 + 2 * n), float(3 + 3 * n)});
    EXPECT_EQ(run(load("a", 3) +
                      "%r = scf.for %i = %c0 to %n step %c1 iter_args(%c = %a) "
                      "-> (vector<3xf32>) {\n%s = arith.addf %c, %a : "
                      "vector<3xf32>\nscf.yield %s : vector<3xf32>\n}\n" +
                      store("r", "vector<3xf32>"),
                  3, {n}),
              expected);
    EXPECT_EQ(
        run(load("a", 3) +
                "%r:2 = scf.while (%c = %a, %i = %c0) : (vector<3xf32>, "
                "index) -> (vector<3xf32>, index) {\n%go = arith.cmpi slt,"
                " %i, %n : index\nscf.condition(%go) %c, %i : "
                "vector<3xf32>, index\n} do {\n^bb0(%c: vector<3xf32>, "
                "%i: index):\n%s = arith.addf %c, %a : vector<3xf32>\n"
                "%j = arith.addi %i, %c1 : index\n"
                "scf.yield %s, %j : vector<3xf32>, index\n}\n" +
                store("r#0", "vector<3xf32>"),
            3, {n}),
        expected);
  }
}

TEST_P(Vector, Branches) {
  for (int64_t n : {0, 1, 2, 9}) {
    float expected = n == 0 ? 10 : n == 1 ? 20 : 30;
    EXPECT_EQ(run("%a = arith.constant 10.0 : f32\n%b = arith.constant 20.0 : "
                  "f32\n%c = arith.constant 30.0 : f32\n%r = "
                  "scf.index_switch %n -> f32\ncase 0 {\nscf.yield %a : f32\n}"
                  "\ncase 1 {\nscf.yield %b : f32\n}\ndefault {\nscf.yield %c "
                  ": f32\n}\n%big = arith.cmpi sgt, %n, %c1 : index\n"
                  "%s = scf.if %big -> (f32) {\n%t = arith.negf %r : f32\n"
                  "scf.yield %t : f32\n} else {\nscf.yield %r : f32\n}\n" +
                      store("s", "f32"),
                  1, {n}),
              numbers({n > 1 ? -expected : expected}));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Vector, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
