#include "targets/cpu/testing/math/Unary.h"

#include "codegen/math/Lanes.h"
#include "codegen/math/Math.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

using namespace mlir;

namespace knapper::vecmath::testing {

template <typename T> static T sigmoidOf(T x) {
  T e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
template <typename T> static T geluErfOf(T x) {
  return x * 0.5L * std::erfc(-x * T(0x1.6a09e667f3bcc908p-1L));
}
template <typename T> static T geluTanhOf(T x) {
  return x * sigmoidOf(x * (1 + T(0.044715L) * x * x) *
                       (2 * T(0x1.9884533d436508d4p-1L)));
}
template <typename T> static T rsqrtOf(T x) { return 1 / std::sqrt(x); }

/// As the tensor level defines it.
static Value sigmoid(OpBuilder &b, Location loc, Value x) {
  V v{&b, loc, x};
  V e = v.make<math::ExpOp>((-v).value);
  return (1.0 / (e + 1.0)).value;
}

template <typename T> static T expNonPositiveOf(T x) {
  return std::exp(-std::fabs(x));
}

static Value expNonPositive(OpBuilder &b, Location loc, Value x) {
  return buildExpNonPositive(b, loc, (-abs(V{&b, loc, x})).value);
}

#define BOTH(NAME)                                                             \
  [](double x) -> double { return NAME(x); },                                  \
      [](long double x) -> long double { return NAME(x); }

const std::vector<Unary> &unaryFunctions() {
  static const std::vector<Unary> table = {
      {ofOp<math::ExpOp>("exp"), BOTH(std::exp), 1, 1.25},
      {ofOp<math::Exp2Op>("exp2"), BOTH(std::exp2), 1, 1.25},
      {ofBuilder("exp_non_positive", expNonPositive), BOTH(expNonPositiveOf),
       89, 1.25, 0x1p-103},
      {ofOp<math::ExpM1Op>("expm1"), BOTH(std::expm1), 1.5, 2},
      {ofOp<math::LogOp>("log"), BOTH(std::log), 1, 1},
      {ofOp<math::Log2Op>("log2"), BOTH(std::log2), 1.75, 2},
      {ofOp<math::Log10Op>("log10"), BOTH(std::log10), 1.25, 1.25},
      {ofOp<math::Log1pOp>("log1p"), BOTH(std::log1p), 1.55, 1.5},
      {ofOp<math::TanhOp>("tanh"), BOTH(std::tanh), 2.6, 3},
      {ofBuilder("sigmoid", sigmoid), BOTH(sigmoidOf), 2.5, 2.5, 0x1p-100},
      {ofOp<math::ErfOp>("erf"), BOTH(std::erf), 1.5, 2},
      {ofOp<math::ErfcOp>("erfc"), BOTH(std::erfc), 0.51, 4},
      {ofOp<math::SinOp>("sin"), BOTH(std::sin), 1.5, 2.5},
      {ofOp<math::CosOp>("cos"), BOTH(std::cos), 1.5, 2.5},
      {ofOp<math::TanOp>("tan"), BOTH(std::tan), 3.25, 4},
      {ofOp<math::AsinOp>("asin"), BOTH(std::asin), 0.51, 2.5},
      {ofOp<math::AcosOp>("acos"), BOTH(std::acos), 0.51, 2.5},
      {ofOp<math::AtanOp>("atan"), BOTH(std::atan), 1.5, 1.5},
      {ofOp<math::SinhOp>("sinh"), BOTH(std::sinh), 0.51, 3},
      {ofOp<math::CoshOp>("cosh"), BOTH(std::cosh), 0.51, 3},
      {ofOp<math::AsinhOp>("asinh"), BOTH(std::asinh), 0.51, 2.5},
      {ofOp<math::AcoshOp>("acosh"), BOTH(std::acosh), 0.51, 3},
      {ofOp<math::AtanhOp>("atanh"), BOTH(std::atanh), 0.51, 2.5},
      {ofOp<math::CbrtOp>("cbrt"), BOTH(std::cbrt), 0.51, 1},
      {ofOp<math::RsqrtOp>("rsqrt"), BOTH(rsqrtOf), 1.5, 1.5},
      {ofOp<math::SqrtOp>("sqrt"), BOTH(std::sqrt), 0.5, 0.5},
      {ofOp<math::RoundOp>("round"), BOTH(std::round), 0, 0},
      {ofOp<math::RoundEvenOp>("roundeven"), BOTH(std::nearbyint), 0, 0},
      {ofOp<math::FloorOp>("floor"), BOTH(std::floor), 0, 0},
      {ofOp<math::CeilOp>("ceil"), BOTH(std::ceil), 0, 0},
      {ofOp<math::TruncOp>("trunc"), BOTH(std::trunc), 0, 0},
      {ofBuilder("gelu_erf", buildGeluErf), BOTH(geluErfOf), 2, 3, 1},
      {ofBuilder("gelu_tanh", buildGeluTanh), BOTH(geluTanhOf), 2, 2, 1},
  };
  return table;
}

std::vector<Function> functionsOf(const std::vector<Unary> &unary) {
  std::vector<Function> functions;
  for (const Unary &u : unary)
    functions.push_back(u.function);
  return functions;
}

double ulpsF32(float got, double want, double smallest) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want))
    return double(got) == want ? 0 : INFINITY;
  if (want == 0 && !smallest)
    return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  // An overflow is the next float that the format lacks.
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : double(got);
  double clipped =
      std::fabs(want) > 0x1p128 ? std::copysign(0x1p128, want) : want;
  double size = std::max(std::fabs(clipped), smallest);
  int exponent = int(std::bit_cast<uint64_t>(size) >> 52 & 0x7ff) - 1023;
  exponent = std::max(std::min(exponent, 127) - 23, -149);
  double ulp = std::bit_cast<double>(uint64_t(exponent + 1023) << 52);
  return std::fabs(value - clipped) / ulp;
}

double ulpsF64(double got, long double want, double smallest) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want))
    return double(want) == got ? 0 : INFINITY;
  if (want == 0 && !smallest)
    return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  long double limit = 0x1p1024L;
  long double value = std::isinf(got) ? std::copysign(limit, (long double)got)
                                      : (long double)got;
  if (std::fabs(want) > limit)
    want = std::copysign(limit, want);
  int exponent = std::ilogb(std::max(std::fabs(want), (long double)smallest));
  exponent = std::max(std::min(exponent, 1023) - 52, -1074);
  return double(std::fabs(value - want) / std::ldexp(1.0L, exponent));
}

Report check(const Unary &unary,
             llvm::ArrayRef<std::unique_ptr<Kernels>> kernels,
             uint64_t stride) {
  const std::string &name = unary.function.name;
  constexpr uint64_t kAll = uint64_t(1) << 32;
  constexpr unsigned kBlock = 1 << 14;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Report total;
  auto work = [&] {
    std::vector<float> x(kBlock), first(kBlock), other(kBlock);
    Report mine;
    while (true) {
      uint64_t from = next.fetch_add(kBlock * stride);
      if (from >= kAll)
        break;
      for (unsigned i = 0; i < kBlock; ++i)
        x[i] = std::bit_cast<float>(uint32_t(from + i * stride));
      kernels[0]->call(name, {x.data(), first.data()}, kBlock);
      for (const auto &kernel : kernels.drop_front()) {
        kernel->call(name, {x.data(), other.data()}, kBlock);
        for (unsigned i = 0; i < kBlock; ++i)
          if (std::bit_cast<uint32_t>(first[i]) !=
                  std::bit_cast<uint32_t>(other[i]) &&
              !(std::isnan(first[i]) && std::isnan(other[i]))) {
            ++mine.differing;
            mine.differsAt = x[i];
          }
      }
      for (unsigned i = 0; i < kBlock && from + i * stride < kAll; ++i) {
        double want = unary.reference(x[i]);
        ++mine.checked;
        // Most are the nearest float: an error of at most 1/2.
        if (mine.worst >= 0.5 && float(want) == first[i] && want != 0)
          continue;
        double error = ulpsF32(first[i], want, unary.smallest);
        if (error > mine.worst) {
          mine.worst = error;
          mine.at = x[i];
          mine.got = first[i];
        }
      }
    }
    std::lock_guard lock(mutex);
    total.checked += mine.checked;
    if (mine.differing) {
      total.differing += mine.differing;
      total.differsAt = mine.differsAt;
    }
    if (mine.worst > total.worst) {
      total.worst = mine.worst;
      total.at = mine.at;
      total.got = mine.got;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency());
       ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  return total;
}

} // namespace knapper::vecmath::testing
