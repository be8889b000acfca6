#include "runtime/numeric/NumericOperators.h"
#include "runtime/numeric/Special.h"
#include "runtime/operators/HostDomain.h"

#include <algorithm>
#include <numeric>

namespace knapper::numeric {
namespace {

using Compute = decltype(knapper_operator::compute);

template <typename T> const T *input(const knapper_call *call, int i) {
  return static_cast<const T *>(call->inputs[i].data);
}
template <typename T> T *output(const knapper_call *call) {
  return static_cast<T *>(call->outputs[0].data);
}
template <typename T> size_t countOf(const knapper_call *call) {
  return call->outputs[0].bytes / sizeof(T);
}

/// `wide` of doubles, `narrow` of floats.
template <auto wide, auto narrow = wide>
int unary(void *, const knapper_call *call) {
  if (call->inputs[0].dtype == KNAPPER_F64)
    std::transform(input<double>(call, 0),
                   input<double>(call, 0) + countOf<double>(call),
                   output<double>(call), [](double x) { return wide(x); });
  else
    std::transform(input<float>(call, 0),
                   input<float>(call, 0) + countOf<float>(call),
                   output<float>(call),
                   [](float x) { return static_cast<float>(narrow(x)); });
  return 0;
}

template <auto wide, auto narrow = wide>
int binary(void *, const knapper_call *call) {
  if (call->inputs[0].dtype == KNAPPER_F64)
    std::transform(input<double>(call, 0),
                   input<double>(call, 0) + countOf<double>(call),
                   input<double>(call, 1), output<double>(call),
                   [](double x, double y) { return wide(x, y); });
  else
    std::transform(
        input<float>(call, 0), input<float>(call, 0) + countOf<float>(call),
        input<float>(call, 1), output<float>(call),
        [](float x, float y) { return static_cast<float>(narrow(x, y)); });
  return 0;
}

int gcd(void *, const knapper_call *call) {
  std::transform(
      input<int64_t>(call, 0), input<int64_t>(call, 0) + countOf<int64_t>(call),
      input<int64_t>(call, 1), output<int64_t>(call), [](int64_t x, int64_t y) {
        auto size = [](int64_t v) {
          auto bits = static_cast<uint64_t>(v);
          return v < 0 ? 0 - bits : bits;
        };
        return static_cast<int64_t>(std::gcd(size(x), size(y)));
      });
  return 0;
}

struct ElementRow {
  const char *name;
  int32_t inputs;
  bool integers;
  Compute compute;
};

constexpr ElementRow rows[] = {
    {"IntegerGcd", 2, true, gcd},
    {"SpecialAiryAi", 1, false, unary<airyAi>},
    {"SpecialBesselI0", 1, false, unary<besselI0>},
    {"SpecialBesselI1", 1, false, unary<besselI1>},
    {"SpecialBesselJ0", 1, false, unary<besselJ0>},
    {"SpecialBesselJ1", 1, false, unary<besselJ1>},
    {"SpecialBesselK0", 1, false, unary<besselK0>},
    {"SpecialBesselK1", 1, false, unary<besselK1>},
    {"SpecialBesselY0", 1, false, unary<besselY0>},
    {"SpecialBesselY1", 1, false, unary<besselY1>},
    {"SpecialChebyshevT", 2, false,
     binary<chebyshevT<double>, chebyshevT<float>>},
    {"SpecialChebyshevU", 2, false,
     binary<chebyshevU<double>, chebyshevU<float>>},
    {"SpecialChebyshevV", 2, false,
     binary<chebyshevV<double>, chebyshevV<float>>},
    {"SpecialChebyshevW", 2, false,
     binary<chebyshevW<double>, chebyshevW<float>>},
    {"SpecialDigamma", 1, false, unary<digamma>},
    {"SpecialErfc", 1, false, unary<complementOfErf>},
    {"SpecialErfcx", 1, false, unary<scaledComplementOfErf>},
    {"SpecialErfinv", 1, false, unary<inverseOfErf>},
    {"SpecialHermiteH", 2, false, binary<hermiteH<double>, hermiteH<float>>},
    {"SpecialHermiteHe", 2, false, binary<hermiteHe<double>, hermiteHe<float>>},
    {"SpecialLaguerre", 2, false, binary<laguerre<double>, laguerre<float>>},
    {"SpecialLegendre", 2, false, binary<legendre<double>, legendre<float>>},
    {"SpecialLogGamma", 1, false, unary<logGamma>},
    {"SpecialLowerGamma", 2, false, binary<lowerGamma>},
    {"SpecialNormalQuantile", 1, false, unary<normalQuantile>},
    {"SpecialScaledBesselI0", 1, false, unary<scaledBesselI0>},
    {"SpecialScaledBesselI1", 1, false, unary<scaledBesselI1>},
    {"SpecialScaledBesselK0", 1, false, unary<scaledBesselK0>},
    {"SpecialScaledBesselK1", 1, false, unary<scaledBesselK1>},
    {"SpecialShiftedChebyshevT", 2, false,
     binary<shiftedChebyshevT<double>, shiftedChebyshevT<float>>},
    {"SpecialShiftedChebyshevU", 2, false,
     binary<shiftedChebyshevU<double>, shiftedChebyshevU<float>>},
    {"SpecialShiftedChebyshevV", 2, false,
     binary<shiftedChebyshevV<double>, shiftedChebyshevV<float>>},
    {"SpecialShiftedChebyshevW", 2, false,
     binary<shiftedChebyshevW<double>, shiftedChebyshevW<float>>},
    {"SpecialSphericalBesselJ0", 1, false, unary<sphericalBesselJ0>},
    {"SpecialTrigamma", 1, false, unary<trigamma, trigammaOfFloat>},
    {"SpecialUpperGamma", 2, false, binary<upperGamma>},
    {"SpecialZeta", 2, false, binary<hurwitzZeta>},
};

/// The call may be of a damaged artefact.
int shape(void *user, const knapper_call *call, knapper_result_shape *results) {
  const ElementRow &row = *static_cast<const ElementRow *>(user);
  bool good = call->num_inputs == row.inputs && call->num_outputs == 1;
  for (int32_t i = 0; good && i < row.inputs; ++i) {
    const knapper_tensor &x = call->inputs[i], &first = call->inputs[0];
    good = x.rank >= 0 && x.dtype == first.dtype && x.rank == first.rank &&
           std::equal(x.shape, x.shape + x.rank, first.shape) &&
           (row.integers ? x.dtype == KNAPPER_I64
                         : x.dtype == KNAPPER_F32 || x.dtype == KNAPPER_F64);
  }
  if (!good)
    return failCall(call, "the operator is called with other tensors than it "
                          "takes: the file is damaged");
  const knapper_tensor &x = call->inputs[0];
  results[0] = {x.dtype, x.rank, {}};
  std::copy_n(x.shape, x.rank, results[0].shape);
  return 0;
}

} // namespace

std::vector<knapper_operator> elementOperators() {
  std::vector<knapper_operator> made;
  for (const ElementRow &row : rows)
    made.push_back({sizeof(knapper_operator), kHostDomain, row.name, shape,
                    row.compute, const_cast<ElementRow *>(&row), nullptr});
  return made;
}

} // namespace knapper::numeric
