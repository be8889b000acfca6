// Random numbers: Philox 4x32-10 of a counter an element. Nothing is kept
// between runs: a node draws the same numbers in each run, nodes of other seeds
// or names other ones.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// The attribute `seed`, an integer for Dropout and a float for all others, or
/// else a number of the node's own.
uint64_t keyOf(Node &n) {
  if (!n.hasAttr("seed"))
    return llvm::xxh3_64bits(n.name);
  if (n.proto.op_type() == "Dropout")
    return static_cast<uint64_t>(n.integer("seed", 0));
  return llvm::bit_cast<uint32_t>(static_cast<float>(n.real("seed", 0)));
}

/// Two words of 32 random bits an element, as i64.
std::array<Value, 2> randomBits(Node &n, ArrayRef<Dim> dims) {
  uint64_t key = keyOf(n);
  Type i64 = n.b.getI64Type();
  Dim count = ts::product(n.importer.context, dims);
  RankedTensorType flat = n.type({count}, i64);
  if (!flat)
    return {};
  Value low32 = n.integerScalar(0xffffffff, i64),
        half = n.integerScalar(32, i64);
  auto low = [&](Value x) { return n.binary<ts::AndOp>(x, low32); };
  auto high = [&](Value x) { return n.binary<ts::ShiftRightOp>(x, half); };
  Value index = n.makeAs<ts::IotaOp>(flat, uint64_t(0));
  Value zero = n.broadcastTo(n.integerScalar(0, i64), {count});
  std::array<Value, 4> c{low(index), high(index), zero, zero};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    Value first = n.mul(c[0], n.integerScalar(0xD2511F53, i64)),
          second = n.mul(c[2], n.integerScalar(0xCD9E8D57, i64));
    auto mix = [&](Value product, Value other, uint32_t part) {
      Value both = n.binary<ts::XorOp>(high(product), other);
      return n.binary<ts::XorOp>(both, n.integerScalar(part, i64));
    };
    Value next = mix(second, c[1], k0), third = mix(first, c[3], k1);
    c = {next, low(second), third, low(first)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {n.reshape(c[0], dims), n.reshape(c[1], dims)};
}

/// Numbers in [0, 1) with as many bits as the element type holds.
Value uniform(Node &n, ArrayRef<Dim> dims, Type element) {
  std::array<Value, 2> bits = randomBits(n, dims);
  Type i64 = n.b.getI64Type();
  int64_t precision = element.isF64()    ? 53
                      : element.isBF16() ? 8
                      : element.isF16()  ? 11
                                         : 24;
  Value word = bits[0];
  if (element.isF64()) // 21 more bits
    word = n.binary<ts::OrOp>(
        n.binary<ts::ShiftLeftOp>(word, n.integerScalar(21, i64)),
        n.binary<ts::ShiftRightOp>(bits[1], n.integerScalar(11, i64)));
  else
    word =
        n.binary<ts::ShiftRightOp>(word, n.integerScalar(32 - precision, i64));
  return n.mul(n.convert(word, element),
               std::ldexp(1, -static_cast<int>(precision)));
}

/// Box and Muller: a pair of uniform numbers gives one normal number.
Value normal(Node &n, ArrayRef<Dim> dims, Type element) {
  std::array<Value, 2> bits = randomBits(n, dims);
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  // In (0, 1], so that its logarithm is finite.
  Value radius =
      n.mul(n.add(n.convert(n.binary<ts::ShiftRightOp>(
                                bits[0], n.integerScalar(8, n.b.getI64Type())),
                            fine),
                  1),
            std::ldexp(1, -24));
  Value angle =
      n.mul(n.convert(n.binary<ts::ShiftRightOp>(
                          bits[1], n.integerScalar(8, n.b.getI64Type())),
                      fine),
            std::ldexp(2 * M_PI, -24));
  Value length = n.make<ts::SqrtOp>(n.mul(n.make<ts::LogOp>(radius), -2));
  return n.convert(n.mul(length, n.make<ts::CosOp>(angle)), element);
}

/// The floating-point type that `dtype` names, or null and a note of what is
/// missing.
Type typeOf(Node &n, Type otherwise, bool floating) {
  if (!n.hasAttr("dtype"))
    return otherwise;
  auto dtype = static_cast<int32_t>(n.integer("dtype", 0));
  Type element = onnxElementType(n.importer.context, dtype);
  if (!element || (floating && !isa<FloatType>(element))) {
    (void)n.unsupported("element type " + onnxTypeName(dtype));
    return {};
  }
  return element;
}

/// RandomUniform, RandomNormal and their forms with a shape like an input's.
template <bool isNormal, bool like> LogicalResult importRandom(Node &n) {
  SmallVector<Dim> dims;
  Type element = n.b.getF32Type();
  if (like) {
    dims = ts::dimsOf(n[0]);
    if (isa<FloatType>(ts::elementTypeOf(n[0])))
      element = ts::elementTypeOf(n[0]);
  } else {
    for (int64_t size : n.integers("shape")) {
      if (size < 0)
        return n.fail("shape holds " + Twine(size), "give sizes");
      dims.push_back(n.dim(size));
    }
  }
  element = typeOf(n, element, true);
  if (!element)
    return failure();
  if (isNormal)
    return n.out(n.add(n.mul(normal(n, dims, element), n.real("scale", 1)),
                       n.real("mean", 0)));
  double low = n.real("low", 0), high = n.real("high", 1);
  return n.out(n.add(n.mul(uniform(n, dims, element), high - low), low));
}

LogicalResult importBernoulli(Node &n) {
  Type own = ts::elementTypeOf(n[0]), element = typeOf(n, own, false);
  if (!element)
    return failure();
  Type fine = own.isF64() ? own : Type(n.b.getF32Type());
  Value hit =
      n.compare(ts::ComparePredicate::lt, uniform(n, ts::dimsOf(n[0]), fine),
                n.convert(n[0], fine));
  return n.out(n.convert(hit, element));
}

/// Classes drawn with probabilities softmax(input): how many cumulated ones a
/// uniform number exceeds.
LogicalResult importMultinomial(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  int64_t samples = n.integer("sample_size", 1);
  if (dims.size() != 2 || samples < 1)
    return n.fail("needs [batch, classes] and a positive sample_size, has " +
                      ts::shapeText(n[0].getType()),
                  "correct the input or the attribute");
  auto dtype =
      static_cast<int32_t>(n.integer("dtype", onnx::TensorProto::INT32));
  if (dtype != onnx::TensorProto::INT32 && dtype != onnx::TensorProto::INT64)
    return n.fail("dtype is " + onnxTypeName(dtype), "use INT32 or INT64");
  Type own = ts::elementTypeOf(n[0]), i64 = n.b.getI64Type();
  Type fine = own.isF64() ? own : Type(n.b.getF32Type());
  Value shares =
      n.make<ts::SoftmaxOp>(n.convert(n[0], fine), uint64_t(1), bool(false));
  Value sums = n.make<ts::ScanOp>(ts::ReduceKind::add, shares, uint64_t(1),
                                  bool(false), bool(false));
  SmallVector<Dim> result{dims[0], n.dim(samples)},
      all{dims[0], n.dim(samples), dims[1]};
  Value drawn = n.broadcastAt(uniform(n, result, fine), {0, 1}, all);
  Value above = n.compare(ts::ComparePredicate::ge, drawn,
                          n.broadcastAt(sums, {0, 2}, all));
  Value index =
      n.reduce(ts::ReduceKind::add, n.convert(above, i64), {2}, false);
  // Rounding may leave the last sum below 1.
  index = n.binary<ts::MinOp>(index, n.sizeScalar(dims[1] - 1, i64));
  return n.out(n.convert(index, onnxElementType(n.importer.context, dtype)));
}

/// At inference a dropout passes its input on; in training each element is
/// kept with probability 1 - ratio.
LogicalResult importDropout(Node &n) {
  bool inference = !n.has(2);
  if (n.has(2)) {
    if (!ts::elementCount(n[2].getType()).isConstant(1))
      return n.fail("training_mode must be one boolean", "give a scalar");
    std::optional<SmallVector<Dim>> known = n.importer.sizes(n[2]);
    inference = known && known->front().isConstant(0);
  }
  Type i1 = n.b.getI1Type();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (inference) {
    if (n.wants(1) &&
        failed(n.out(n.broadcastTo(n.integerScalar(1, i1), dims), 1)))
      return failure();
    return n.out(n[0]);
  }
  Type fine = n.b.getF32Type();
  Value ratio =
      n.has(1) ? n.convert(n.reshape(n[1], {}), fine) : n.scalar(0.5, fine);
  Value training = n.reshape(n[2], {});
  Value kept =
      n.compare(ts::ComparePredicate::ge, uniform(n, dims, fine), ratio);
  Value mask = n.binary<ts::OrOp>(kept, n.make<ts::NotOp>(training));
  Value scale = n.select(
      training, n.div(n.scalar(1, fine), n.sub(n.scalar(1, fine), ratio)),
      n.scalar(1, fine));
  Value scaled = n.mul(n[0], n.convert(scale, ts::elementTypeOf(n[0])));
  if (n.wants(1) && failed(n.out(mask, 1)))
    return failure();
  return n.out(n.select(mask, scaled, n.scalarFor(n[0], 0)));
}

/// Until opset 11 what was trained has no Dropout that does something.
LogicalResult importOldDropout(Node &n) {
  if (n.wants(1) &&
      failed(n.out(
          n.broadcastTo(n.integerScalar(1, n.b.getI1Type()), ts::dimsOf(n[0])),
          1)))
    return failure();
  return n.out(n[0]);
}

constexpr OpRow rows[] = {
    {"", "Bernoulli", 15, 1, 1, importBernoulli},
    {"", "Dropout", 12, 1, 3, importDropout},
    {"", "Dropout", 7, 1, 1, importOldDropout, 11},
    {"", "Multinomial", 7, 1, 1, importMultinomial},
    {"", "RandomNormal", 1, 0, 0, importRandom<true, false>},
    {"", "RandomNormalLike", 1, 1, 1, importRandom<true, true>},
    {"", "RandomUniform", 1, 0, 0, importRandom<false, false>},
    {"", "RandomUniformLike", 1, 1, 1, importRandom<false, true>},
};

} // namespace

ArrayRef<OpRow> randomRows() { return rows; }

} // namespace knapper
