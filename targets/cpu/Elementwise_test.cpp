// Elementwise operations and conversions against plain C++, on full, cut and
// single lanes.
#include "targets/cpu/KernelTest.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace knapper;

namespace {

using Bytes = std::vector<char>;

template <typename T> Bytes pack(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

uint16_t toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// One operation on lists of operands, all elements of one type.
struct ElementwiseCase {
  /// With %a %b %c, TYPE and TO for vector types, SPLAT and END around what is
  /// dense in a vector.
  std::string name, op;
  std::string from, to; // element types
  std::vector<Bytes> operands;
  Bytes expected;
  size_t count;
};

template <typename To, typename From, typename F>
ElementwiseCase make(std::string name, std::string op, std::string from,
                     std::string to, std::vector<std::vector<From>> operands,
                     F f) {
  ElementwiseCase c{name, op, from, to, {}, {}, operands[0].size()};
  std::vector<To> expected;
  for (size_t i = 0; i < c.count; ++i) {
    if constexpr (std::is_invocable_v<F, From, From, From>)
      expected.push_back(f(operands[0][i], operands[1][i], operands[2][i]));
    else if constexpr (std::is_invocable_v<F, From, From>)
      expected.push_back(f(operands[0][i], operands[1][i]));
    else
      expected.push_back(f(operands[0][i]));
  }
  for (auto &o : operands)
    c.operands.push_back(pack(o));
  c.expected = pack(expected);
  return c;
}

std::string replaced(std::string text, const std::string &what,
                     const std::string &with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string source(const ElementwiseCase &c, int lanes) {
  std::string n = std::to_string(lanes);
  auto type = [&](const std::string &element) {
    return lanes ? "vector<" + n + "x" + element + ">" : element;
  };
  std::string args, loads;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    std::string letter(1, char('a' + i));
    args += "%p" + letter + ": !tile.buffer<" + c.from + ">, ";
    loads += "%" + letter + " = tile.load %p" + letter +
             "[%off] : !tile.buffer<" + c.from + "> -> " + type(c.from) + "\n";
  }
  std::string op =
      replaced(replaced(c.op, "TYPE", type(c.from)), "TO", type(c.to));
  op = replaced(replaced(op, "SPLAT", lanes ? "dense<" : ""), "END",
                lanes ? ">" : "");
  return "tile.func @" + c.name + "_" + n + "(" + args + "%y: !tile.buffer<" +
         c.to + ">) {\n%id = tile.program_id\n%n = arith.constant " +
         std::to_string(lanes ? lanes : 1) +
         " : index\n%off = arith.muli %id, %n : index\n" + loads +
         (op.find("%r =") == std::string::npos ? "%r = " : "%m = ") + op +
         "\ntile.store %r, %y[%off] : " + type(c.to) + ", !tile.buffer<" +
         c.to + ">\ntile.return\n}\n";
}

size_t bytesOf(const std::string &element) {
  if (element == "f64" || element == "i64")
    return 8;
  if (element == "f32" || element == "i32")
    return 4;
  return element == "i8" || element == "i1" ? 1 : 2;
}

class Elementwise : public testing::TestWithParam<std::string_view> {
protected:
  void run(std::vector<ElementwiseCase> cases) {
    if (!runsHere(GetParam()))
      GTEST_SKIP() << "this machine does not run " << GetParam();
    const int widths[] = {0, 16, 48, 7};
    std::string text;
    for (const ElementwiseCase &c : cases)
      for (int lanes : widths)
        text += source(c, lanes);
    auto kernels = compileText(text, cases[0].name + "_16", GetParam());
    ASSERT_TRUE(kernels) << kernels.error().message();
    for (ElementwiseCase &c : cases)
      for (int lanes : widths) {
        size_t width = std::max(lanes, 1), size = bytesOf(c.to);
        // Whole tiles only: the operands are repeated to fill the last one.
        size_t count = (c.count + width - 1) / width * width;
        std::vector<Bytes> operands;
        for (const Bytes &o : c.operands) {
          Bytes filled;
          size_t from = bytesOf(c.from);
          for (size_t i = 0; i < count; ++i)
            filled.insert(filled.end(), o.begin() + i % c.count * from,
                          o.begin() + (i % c.count + 1) * from);
          operands.push_back(filled);
        }
        Bytes result(count * size);
        std::vector<void *> buffers;
        for (Bytes &o : operands)
          buffers.push_back(o.data());
        buffers.push_back(result.data());
        (*kernels)->call(c.name + "_" + std::to_string(lanes), buffers, {}, 0,
                         count / width);
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(
              memcmp(&result[i * size], &c.expected[i % c.count * size], size),
              0)
              << c.name << " lanes " << lanes << " element " << i << ": got "
              << hex(&result[i * size], size) << ", expected "
              << hex(&c.expected[i % c.count * size], size);
      }
  }
  static std::string hex(const char *bytes, size_t n) {
    std::string text;
    char digits[3];
    for (size_t i = n; i-- > 0;) {
      snprintf(digits, sizeof digits, "%02x", (unsigned char)bytes[i]);
      text += digits;
    }
    return text;
  }
};

const float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> floats() {
  return {0.0f,        -0.0f, 1.0f,   -1.0f,   0.5f,      1.5f,    2.5f,
          -2.5f,       1e-3f, 3e38f,  -3e38f,  1e-40f,    kInf,    -kInf,
          65504,       65520, 70000,  1e-8f,   127.6f,    -128.9f, 255.4f,
          256.5f,      1e10f, -1e10f, 3.1415f, 16777217., 2.1e9f,  1.00390625f,
          1.01171875f, 6e-8f, 3e-8f};
}

TEST_P(Elementwise, Floats) {
  std::vector<float> x = floats(), y(x.rbegin(), x.rend());
  auto f32 = [&](std::string name, std::string op, auto f) {
    return make<float, float>(name, op + " %a, %b : TYPE", "f32", "f32", {x, y},
                              f);
  };
  run({f32("add", "arith.addf",
           [](float a, float b) {
             float s = a + b;
             return std::isnan(s) ? std::bit_cast<float>(0xffc00000) : s;
           }),
       f32("max", "arith.maxnumf",
           [](float a, float b) { return a == b ? a : std::fmax(a, b); }),
       make<float, float>("floor", "math.floor %a : TYPE", "f32", "f32", {x},
                          [](float a) { return std::floor(a); }),
       make<float, float>("round", "math.round %a : TYPE", "f32", "f32", {x},
                          [](float a) { return std::round(a); }),
       make<float, float>("roundeven", "math.roundeven %a : TYPE", "f32", "f32",
                          {x}, [](float a) { return std::nearbyint(a); }),
       make<float, float>("abs", "math.absf %a : TYPE", "f32", "f32", {x},
                          [](float a) { return std::fabs(a); }),
       make<float, float>("fma", "math.fma %a, %b, %b : TYPE", "f32", "f32",
                          {{1.5f, 2.f, -3.f}, {1e-3f, 7.f, .1f}},
                          [](float a, float b) { return std::fma(a, b, b); })});
}

TEST_P(Elementwise, MaximumKeepsNan) {
  // As a truth value: NaN has no one bit pattern.
  run({make<uint8_t, float>(
           "isnan",
           "arith.maximumf %a, %b : TYPE\n"
           "%r = arith.cmpf uno, %m, %m : TYPE",
           "f32", "i1", {{1, kNan, 2, -0.0f, kNan}, {kNan, 1, 3, 0, kNan}},
           [](float a, float b) { return std::isnan(a) || std::isnan(b); }),
       make<float, float>("relu", "arith.maximumf %a, %b : TYPE", "f32", "f32",
                          {{1, -1, -0.0f, 3, kInf}, {0, 0, 0, 0, 0}},
                          [](float a, float b) { return a > b ? a : b; })});
}

TEST_P(Elementwise, Conversions) {
  std::vector<float> x = floats();
  x.push_back(kNan);
  auto clamp = [](double low, double high) {
    return [=](float a) -> double {
      return std::isnan(a)
                 ? 0
                 : std::trunc(std::min(std::max<double>(a, low), high));
    };
  };
  std::vector<double> d;
  for (float v : floats())
    d.push_back(v), d.push_back(v * (1 + 1e-9)), d.push_back(v * (1 - 1e-9));
  d.push_back(1.0 + std::ldexp(1, -8) + std::ldexp(1, -40)); // bf16 tie + a bit
  d.push_back(1.0 + std::ldexp(1, -11) + std::ldexp(1, -40)); // f16 tie + a bit
  auto halfOf = [](double v) -> uint16_t {
    return std::bit_cast<uint16_t>(static_cast<_Float16>(v));
  };
  // bf16 of a double by one rounding: through the f32 below or above it.
  auto bf16Of = [](double v) -> uint16_t {
    float f = static_cast<float>(v);
    uint32_t bits = std::bit_cast<uint32_t>(f);
    if (double(f) != v) {
      if (std::fabs(double(f)) > std::fabs(v))
        --bits;
      bits |= 1;
    }
    return toBf16(std::bit_cast<float>(bits));
  };
  run({make<int8_t, float>("toI8", "arith.fptosi %a : TYPE to TO", "f32", "i8",
                           {x}, clamp(-128, 127)),
       make<uint8_t, float>("toU8", "arith.fptoui %a : TYPE to TO", "f32", "i8",
                            {x}, clamp(0, 255)),
       make<int16_t, float>("toI16", "arith.fptosi %a : TYPE to TO", "f32",
                            "i16", {x}, clamp(-32768, 32767)),
       make<int32_t, float>("toI32", "arith.fptosi %a : TYPE to TO", "f32",
                            "i32", {x}, clamp(-2147483648.0, 2147483647.0)),
       make<int64_t, float>(
           "toI64", "arith.fptosi %a : TYPE to TO", "f32", "i64",
           {{1e10f, -1e10f, kNan, 0.5f, -7.9f}},
           [](float a) { return std::isnan(a) ? 0 : int64_t(a); }),
       make<int64_t, float>("toI64Limits", "arith.fptosi %a : TYPE to TO",
                            "f32", "i64", {{kInf, -kInf, 1e30f}},
                            [](float a) {
                              return a > 0
                                         ? std::numeric_limits<int64_t>::max()
                                         : std::numeric_limits<int64_t>::min();
                            }),
       make<uint16_t, float>("toBf16", "arith.truncf %a : TYPE to TO", "f32",
                             "bf16", {x}, toBf16),
       make<uint16_t, float>("toF16", "arith.truncf %a : TYPE to TO", "f32",
                             "f16", {floats()}, halfOf),
       make<uint16_t, double>("f64ToF16", "arith.truncf %a : TYPE to TO", "f64",
                              "f16", {d}, halfOf),
       make<uint16_t, double>("f64ToBf16", "arith.truncf %a : TYPE to TO",
                              "f64", "bf16", {d}, bf16Of),
       make<float, uint16_t>(
           "fromBf16", "arith.extf %a : TYPE to TO", "bf16", "f32",
           {{0x3f80, 0xff80, 0x0001, 0x4049}},
           [](uint16_t a) { return std::bit_cast<float>(uint32_t(a) << 16); }),
       make<float, uint16_t>(
           "fromF16", "arith.extf %a : TYPE to TO", "f16", "f32",
           {{0x3c00, 0xfc00, 0x0001, 0x7bff}},
           [](uint16_t a) { return float(std::bit_cast<_Float16>(a)); }),
       make<double, uint16_t>("bf16ToF64", "arith.extf %a : TYPE to TO", "bf16",
                              "f64", {{0x3f80, 0xff80, 0x4049}},
                              [](uint16_t a) {
                                return double(
                                    std::bit_cast<float>(uint32_t(a) << 16));
                              }),
       make<float, int64_t>("fromI64", "arith.sitofp %a : TYPE to TO", "i64",
                            "f32", {{0, -1, 1ll << 40, INT64_MIN, INT64_MAX}},
                            [](int64_t a) { return float(a); }),
       make<float, uint8_t>("fromU8", "arith.uitofp %a : TYPE to TO", "i8",
                            "f32", {{0, 1, 127, 128, 255}},
                            [](uint8_t a) { return float(a); }),
       make<uint16_t, int32_t>("intToBf16", "arith.sitofp %a : TYPE to TO",
                               "i32", "bf16", {{0, -1, 257, 258, 259}},
                               [](int32_t a) { return toBf16(float(a)); })});
}

TEST_P(Elementwise, HalfArithmeticRoundsOnce) {
  std::vector<uint16_t> x, y;
  for (uint32_t i = 0; i < 300; ++i)
    x.push_back(uint16_t(0x3c00 + i * 7)),
        y.push_back(uint16_t(0x3800 + i * 11));
  auto f16 = [](uint16_t a) { return std::bit_cast<_Float16>(a); };
  auto bf16 = [](uint16_t a) {
    return std::bit_cast<float>(uint32_t(a) << 16);
  };
  run({make<uint16_t, uint16_t>("mulF16", "arith.mulf %a, %b : TYPE", "f16",
                                "f16", {x, y},
                                [&](uint16_t a, uint16_t b) {
                                  return std::bit_cast<uint16_t>(
                                      _Float16(float(f16(a)) * float(f16(b))));
                                }),
       make<uint16_t, uint16_t>(
           "addBf16", "arith.addf %a, %b : TYPE", "bf16", "bf16", {x, y},
           [&](uint16_t a, uint16_t b) { return toBf16(bf16(a) + bf16(b)); })});
}

template <typename T> T divided(T a, T b) {
  if (b == 0)
    return 0;
  if (std::is_signed_v<T> && b == T(-1))
    return T(0 - uint64_t(a));
  return T(a / b);
}
template <typename T> T remaindered(T a, T b) {
  if (b == 0 || (std::is_signed_v<T> && b == T(-1)))
    return 0;
  return T(a % b);
}

template <typename T>
void addDivisions(std::vector<ElementwiseCase> &cases, std::string type) {
  std::vector<T> a, b;
  T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  for (T x : {T(0), T(1), T(-1), T(7), T(-7), T(100), low, high, T(high - 1)})
    for (T y : {T(0), T(1), T(-1), T(2), T(-3), T(10), low, high})
      a.push_back(x), b.push_back(y);
  using U = std::make_unsigned_t<T>;
  std::vector<U> ua(a.begin(), a.end()), ub(b.begin(), b.end());
  cases.push_back(make<T, T>("divs_" + type, "arith.divsi %a, %b : TYPE", type,
                             type, {a, b}, divided<T>));
  cases.push_back(make<T, T>("rems_" + type, "arith.remsi %a, %b : TYPE", type,
                             type, {a, b}, remaindered<T>));
  cases.push_back(make<U, U>("divu_" + type, "arith.divui %a, %b : TYPE", type,
                             type, {ua, ub}, divided<U>));
  cases.push_back(make<U, U>("remu_" + type, "arith.remui %a, %b : TYPE", type,
                             type, {ua, ub}, remaindered<U>));
  cases.push_back(make<T, T>(
      "floordiv_" + type, "arith.floordivsi %a, %b : TYPE", type, type, {a, b},
      [](T x, T y) {
        T q = divided(x, y);
        return y != 0 && remaindered(x, y) != 0 && ((x < 0) != (y < 0))
                   ? T(q - 1)
                   : q;
      }));
  // Constant divisors take another way.
  for (int by : {-1, 1, 0, -3}) {
    std::string divisor =
        "arith.constant SPLAT" + std::to_string(by) + "END : TYPE\n";
    cases.push_back(
        make<T, T>("divs_" + type + "_by_" + std::to_string(cases.size()),
                   divisor + "%r = arith.divsi %a, %m : TYPE", type, type, {a},
                   [by](T x) { return divided(x, T(by)); }));
    cases.push_back(
        make<T, T>("rems_" + type + "_by_" + std::to_string(cases.size()),
                   divisor + "%r = arith.remsi %a, %m : TYPE", type, type, {a},
                   [by](T x) { return remaindered(x, T(by)); }));
  }
}

TEST_P(Elementwise, IntegerDivisionNeverTraps) {
  std::vector<ElementwiseCase> cases;
  addDivisions<int8_t>(cases, "i8");
  addDivisions<int16_t>(cases, "i16");
  addDivisions<int32_t>(cases, "i32");
  addDivisions<int64_t>(cases, "i64");
  run(cases);
}

TEST_P(Elementwise, Integers) {
  std::vector<int32_t> a = {1, -1, 5, INT32_MIN, 77}, b = {0, 31, 32, 100, -1};
  run({make<int32_t, int32_t>(
           "shl", "arith.shli %a, %b : TYPE", "i32", "i32", {a, b},
           [](int32_t x, int32_t y) {
             return uint32_t(y) > 31 ? 0 : int32_t(uint32_t(x) << y);
           }),
       make<int32_t, int32_t>(
           "shrs", "arith.shrsi %a, %b : TYPE", "i32", "i32", {a, b},
           [](int32_t x, int32_t y) { return x >> std::min<uint32_t>(y, 31); }),
       make<int32_t, int32_t>(
           "mulhi",
           "arith.constant 0 : i1\n"
           "%lo, %high = arith.mului_extended %a, %b : TYPE\n"
           "%r = arith.ori %high, %high : TYPE",
           "i32", "i32", {a, b}, [](int32_t x, int32_t y) {
             return int32_t(uint64_t(uint32_t(x)) * uint32_t(y) >> 32);
           })});
}

INSTANTIATE_TEST_SUITE_P(Isa, Elementwise, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
