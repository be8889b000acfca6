// Discrete Fourier transforms on CPUs: a program = one row, by the passes of
// FourierPlan.h.
//
//   1  Butterflies lie side by side in registers: their inputs are runs of
//      memory in every pass. Results are runs, too, once the radices before
//      have as many combinations as a register has lanes; until then they are
//      interleaved in registers.
//   2  Between passes real and imaginary parts lie apart in scratch; the first
//      pass reads and the last one writes them side by side.
//   3  Real rows are half as many complex numbers (elements of even and of odd
//      place): a step more takes the two spectra apart (Sorensen et al.,
//      Real-valued fast Fourier transform algorithms, IEEE Trans. ASSP 35,
//      1987). To real rows the same step goes first.
//   4  Lengths with a large prime factor are convolutions with a chirp, whose
//      inverse transform is the same passes with the parts exchanged.
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/Butterfly.h"
#include "ir/tensor/Fourier.h"
#include "ir/tensor/FourierPlan.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

ts::FourierPlan planOf(ts::DftOp op) {
  return *ts::fourierPlan(*Dim(op.getLength()).asConstant(),
                          op.getFromReal() || op.getToReal());
}

/// Bytes from one part of scratch to the next. Not a power of two: lines of
/// several parts would meet in the same sets of the cache.
int64_t partBytes(ts::DftOp op) {
  int64_t bytes = planOf(op).passLength *
                  int64_t(ts::elementBytes(ts::elementTypeOf(op.getInput())));
  return (bytes + 63) / 64 * 64 + 64;
}

int64_t powerUpTo(int64_t most) {
  int64_t power = 1;
  while (power * 2 <= most)
    power *= 2;
  return power;
}

/// Where complex numbers lie: parts apart in two buffers, or (`im` null) side
/// by side from element `start` on.
struct Numbers {
  Value re, im, start;
};

class Transform {
public:
  Transform(BuildContext &context, ts::DftOp op)
      : e(context.emitter), b(e.builder), loc(e.location), op(op),
        plan(planOf(op)), element(ts::elementTypeOf(op.getInput())),
        lanes(context.target.vectorBytes / ts::elementBytes(element)),
        table(e.inputBuffer(cast<BlockArgument>(op.getTable()))),
        n(plan.complexLength) {
    for (int i = 0; i < 4; ++i)
      scratch.push_back(tile::ScratchOp::create(b, loc,
                                                tile::BufferType::get(element),
                                                e.constant(i * partBytes(op))));
  }

  LogicalResult build();

private:
  VectorType tileType(int64_t width) { return VectorType::get(width, element); }
  Butterfly arithmetic(int64_t width) {
    return {e, tileType(width), op.getInverse() ? 1 : -1};
  }
  Value loadPart(Value buffer, Value at, int64_t width) {
    return tile::LoadOp::create(b, loc, tileType(width), buffer, at);
  }
  Value reversed(Value tile);
  ComplexTile load(const Numbers &from, Value at, int64_t width);
  void store(ComplexTile x, const Numbers &to, Value at);
  /// Factors from element `at` on of the table's cosines and sines.
  ComplexTile roots(int64_t cosines, int64_t sines, Value at, int64_t width,
                    bool same);
  /// Steps of `width` over [begin, end); the last one ends at `last`.
  LogicalResult steps(int64_t begin, int64_t end, int64_t last, int64_t width,
                      llvm::function_ref<void(Value at)> body);

  /// One butterfly a lane from element `at` on of each of the inputs.
  SmallVector<ComplexTile> butterflies(const ts::FourierPass &pass,
                                       const Numbers &from, Value at,
                                       int64_t width, ComplexTile *factors);
  LogicalResult pass(const ts::FourierPass &pass, const Numbers &from,
                     const Numbers &to);
  /// Results of a tile follow one another, interleaved.
  LogicalResult interleavedPass(const ts::FourierPass &pass,
                                const Numbers &from, const Numbers &to,
                                int64_t width);
  /// All passes, which write `first` and `second` alternately, the last `to`.
  LogicalResult passes(const Numbers &from, const Numbers &first,
                       const Numbers &second, const Numbers &to);
  /// The transform as a convolution with a chirp; `first` is not `from`.
  LogicalResult convolve(const Numbers &from, const Numbers &first,
                         const Numbers &second, const Numbers &to);
  /// Between the spectrum of n complex numbers and the half of that of 2 n real
  /// ones; `split`: from the former to the latter.
  LogicalResult halves(const Numbers &from, const Numbers &to, bool split);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::DftOp op;
  ts::FourierPlan plan;
  Type element;
  int64_t lanes;
  Value table;
  int64_t n;
  SmallVector<Value> scratch; ///< real, imaginary parts, twice
};

Value Transform::reversed(Value tile) {
  int64_t width = cast<VectorType>(tile.getType()).getNumElements();
  SmallVector<int64_t> mask;
  for (int64_t i = width; i-- > 0;)
    mask.push_back(i);
  return vector::ShuffleOp::create(b, loc, tile, tile, mask);
}

ComplexTile Transform::load(const Numbers &from, Value at, int64_t width) {
  if (from.im)
    return {loadPart(from.re, at, width), loadPart(from.im, at, width)};
  Value both =
      loadPart(from.re, e.add(from.start, e.mul(at, e.constant(2))), 2 * width);
  auto parts = vector::DeinterleaveOp::create(b, loc, both);
  return {parts.getRes1(), parts.getRes2()};
}

void Transform::store(ComplexTile x, const Numbers &to, Value at) {
  if (to.im) {
    tile::StoreOp::create(b, loc, x.re, to.re, at);
    tile::StoreOp::create(b, loc, x.im, to.im, at);
    return;
  }
  Value both = vector::InterleaveOp::create(b, loc, x.re, x.im);
  tile::StoreOp::create(b, loc, both, to.re,
                        e.add(to.start, e.mul(at, e.constant(2))));
}

ComplexTile Transform::roots(int64_t cosines, int64_t sines, Value at,
                             int64_t width, bool same) {
  auto factor = [&](int64_t start) -> Value {
    Value place = e.add(e.constant(start), at);
    if (!same)
      return loadPart(table, place, width);
    Value one = tile::LoadOp::create(b, loc, element, table, place);
    return e.widen(one, width);
  };
  return {factor(cosines), factor(sines)};
}

LogicalResult Transform::steps(int64_t begin, int64_t end, int64_t last,
                               int64_t width,
                               llvm::function_ref<void(Value at)> body) {
  bool cut = begin + (end - begin + width - 1) / width * width > last;
  return forEach(
      e, e.constant(begin), e.constant(end),
      [&](Value at) -> LogicalResult {
        // What is computed twice is the same both times.
        body(cut ? e.min(at, e.constant(last - width)) : at);
        return success();
      },
      width);
}

SmallVector<ComplexTile> Transform::butterflies(const ts::FourierPass &pass,
                                                const Numbers &from, Value at,
                                                int64_t width,
                                                ComplexTile *factors) {
  Butterfly butterfly = arithmetic(width);
  SmallVector<ComplexTile> x;
  for (int64_t q = 0; q < pass.radix; ++q)
    x.push_back(load(from, e.add(at, e.constant(q * pass.l * pass.m)), width));
  x = butterfly.transform(x);
  if (pass.m > 1)
    for (int64_t p = 1; p < pass.radix; ++p)
      x[p] = butterfly.multiply(x[p], factors[p - 1]);
  return x;
}

LogicalResult Transform::interleavedPass(const ts::FourierPass &pass,
                                         const Numbers &from, const Numbers &to,
                                         int64_t width) {
  return steps(0, pass.l * pass.m, pass.l * pass.m, width, [&](Value at) {
    SmallVector<ComplexTile> factors;
    for (int64_t p = 1; p < pass.radix && pass.m > 1; ++p)
      factors.push_back(roots(ts::FourierPlan::cosines(pass, p),
                              ts::FourierPlan::sines(pass, p), at, width,
                              /*same=*/false));
    SmallVector<Value> re, im;
    for (ComplexTile y : butterflies(pass, from, at, width, factors.data())) {
      re.push_back(y.re);
      im.push_back(y.im);
    }
    re = interleaved(e, re, pass.l);
    im = interleaved(e, im, pass.l);
    Value place = e.mul(at, e.constant(pass.radix));
    for (int64_t p = 0; p < pass.radix; ++p)
      store({re[p], im[p]}, to, e.add(place, e.constant(p * width)));
  });
}

LogicalResult Transform::pass(const ts::FourierPass &pass, const Numbers &from,
                              const Numbers &to) {
  bool isBinary = (pass.l & (pass.l - 1)) == 0;
  if (isBinary && pass.l < lanes && pass.m > 1)
    return interleavedPass(pass, from, to,
                           std::min(lanes, powerUpTo(pass.l * pass.m)));
  int64_t width = std::min(lanes, powerUpTo(pass.l));
  return forEach(
      e, e.constant(0), e.constant(pass.m), [&](Value j) -> LogicalResult {
        SmallVector<ComplexTile> factors;
        Value factor = e.mul(j, e.constant(pass.repeats));
        for (int64_t p = 1; p < pass.radix && pass.m > 1; ++p)
          factors.push_back(roots(ts::FourierPlan::cosines(pass, p),
                                  ts::FourierPlan::sines(pass, p), factor,
                                  width, /*same=*/true));
        Value start = e.mul(j, e.constant(pass.l));
        Value place = e.mul(start, e.constant(pass.radix));
        return steps(0, pass.l, pass.l, width, [&](Value k) {
          SmallVector<ComplexTile> y =
              butterflies(pass, from, e.add(start, k), width, factors.data());
          for (auto [p, tile] : llvm::enumerate(y))
            store(tile, to,
                  e.add(e.add(place, k), e.constant(int64_t(p) * pass.l)));
        });
      });
}

LogicalResult Transform::halves(const Numbers &from, const Numbers &to,
                                bool split) {
  int64_t width = std::min(lanes, powerUpTo(n / 2));
  Butterfly butterfly = arithmetic(width);
  auto mirrored = [&](ComplexTile x) {
    return ComplexTile{reversed(x.re), butterfly.neg(reversed(x.im))};
  };
  LogicalResult status = steps(1, n / 2 + 1, n, width, [&](Value k) {
    Value other = e.sub(e.constant(n - width + 1), k);
    ComplexTile x = load(from, k, width),
                y = mirrored(load(from, other, width));
    ComplexTile sum = butterfly.add(x, y), difference = butterfly.sub(x, y);
    ComplexTile root = roots(plan.halves, plan.halves + n, k, width,
                             /*same=*/false);
    difference =
        butterfly.rotated(butterfly.multiply(difference, root), split ? -1 : 1);
    if (split) {
      sum = butterfly.scaled(sum, 0.5);
      difference = butterfly.scaled(difference, 0.5);
    }
    store(butterfly.add(sum, difference), to, k);
    store(mirrored(butterfly.sub(sum, difference)), to, other);
  });
  auto part = [&](const Numbers &x, int64_t number, bool imaginary) {
    Value at = e.constant(number);
    if (!x.im)
      at = e.add(x.start, e.constant(2 * number + (imaginary ? 1 : 0)));
    return std::pair(imaginary && x.im ? x.im : x.re, at);
  };
  auto get = [&](int64_t number, bool imaginary) -> Value {
    auto [buffer, at] = part(from, number, imaginary);
    return tile::LoadOp::create(b, loc, element, buffer, at);
  };
  auto put = [&](Value x, int64_t number, bool imaginary) {
    auto [buffer, at] = part(to, number, imaginary);
    tile::StoreOp::create(b, loc, x, buffer, at);
  };
  // Those that are real.
  Value first = get(0, false), last = split ? get(0, true) : get(n, false);
  Value sum = butterfly.add(first, last),
        difference = butterfly.sub(first, last);
  put(sum, 0, false);
  if (split) {
    Value zero = e.splat(element, 0, 0);
    put(zero, 0, true);
    put(difference, n, false);
    put(zero, n, true);
  } else {
    put(difference, 0, true);
  }
  return status;
}

LogicalResult Transform::passes(const Numbers &from, const Numbers &first,
                                const Numbers &second, const Numbers &to) {
  Numbers now = from;
  for (auto [i, each] : llvm::enumerate(plan.passes)) {
    Numbers next = i + 1 == plan.passes.size() ? to : i % 2 ? second : first;
    if (failed(pass(each, now, next)))
      return failure();
    now = next;
  }
  return success();
}

LogicalResult Transform::convolve(const Numbers &from, const Numbers &first,
                                  const Numbers &second, const Numbers &to) {
  int64_t m = plan.passLength;
  Butterfly butterfly = arithmetic(lanes);
  auto times = [&](const Numbers &x, int64_t factors, int64_t count,
                   const Numbers &y) {
    return steps(0, count, count, lanes, [&](Value at) {
      ComplexTile factor = roots(factors, factors + count, at, lanes,
                                 /*same=*/false);
      store(butterfly.multiply(load(x, at, lanes), factor), y, at);
    });
  };
  auto exchanged = [](const Numbers &x) { return Numbers{x.im, x.re, {}}; };
  Value zero = e.splat(element, lanes, 0);
  // An even number of passes would end where they began.
  bool odd = plan.passes.size() % 2;
  const Numbers &middle = odd ? second : first;
  const Numbers &other = odd ? first : second;
  if (failed(times(from, plan.chirp, n, first)) ||
      failed(steps(n, m, m, lanes,
                   [&](Value at) { store({zero, zero}, first, at); })) ||
      failed(passes(first, second, first, middle)) ||
      failed(times(middle, plan.filter, m, middle)) ||
      failed(passes(exchanged(middle), exchanged(other), exchanged(middle),
                    odd ? exchanged(other) : exchanged(middle))))
    return failure();
  return times(odd ? other : middle, plan.chirp, n, to);
}

LogicalResult Transform::build() {
  Value row = tile::ProgramIdOp::create(b, loc);
  auto rowOf = [&](Value tensor, Value buffer) -> Numbers {
    return {buffer, {}, e.mul(row, e.size(ts::dimOf(tensor, 1)))};
  };
  Numbers given = rowOf(op.getInput(),
                        e.inputBuffer(cast<BlockArgument>(op.getInput()))),
          result = rowOf(op.getResult(), e.outputBuffer(0));
  Numbers own[] = {{scratch[0], scratch[1], {}}, {scratch[2], scratch[3], {}}};
  int next = 0;
  Numbers from = given;
  if (op.getToReal()) {
    if (failed(halves(given, own[next], /*split=*/false)))
      return failure();
    from = own[next];
    next = 1 - next;
  }
  Numbers spectrum = op.getFromReal() ? own[1] : result;
  if (plan.isChirp()) {
    if (failed(convolve(from, own[next], own[1 - next], spectrum)))
      return failure();
  } else {
    // The last pass must not write what it reads.
    size_t odd = plan.passes.size() % 2;
    if (op.getFromReal())
      next = odd ? 1 : 0;
    if (failed(passes(from, own[next], own[1 - next], spectrum)))
      return failure();
  }
  return op.getFromReal() ? halves(spectrum, result, /*split=*/true)
                          : success();
}

} // namespace

LogicalResult chooseCpuFourier(ts::KernelOp kernel, const TargetDesc &, Knobs &,
                               SmallVectorImpl<Schedule> &schedules) {
  ts::DftOp op = firstOp<ts::DftOp>(kernel);
  if (!op)
    return success(); // a scan
  if (!op.getTable())
    return kernel.emitOpError("has a transform without a table");
  Schedule schedule;
  schedule.kind = "cpu_fourier";
  schedule.grid = ts::dimOf(op.getInput(), 0);
  schedule.grain = grainOf(4000, ts::dimOf(op.getInput(), 1));
  schedule.scratch = Dim::constant(kernel.getContext(), 4 * partBytes(op));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuFourier(BuildContext &context) {
  return Transform(context, firstOp<ts::DftOp>(context.kernel)).build();
}

} // namespace knapper
