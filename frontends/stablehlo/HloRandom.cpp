// Random bits of a key and a counter, bit for bit those of XLA on CPUs.
#include "frontends/stablehlo/HloNode.h"

using namespace mlir;

namespace knapper {
namespace {

/// Arithmetic on words of 32 and 64 bits without a sign.
struct Words {
  HloNode &n;
  Type u32 = n.b.getIntegerType(32, /*isSigned=*/false),
       u64 = n.b.getIntegerType(64, /*isSigned=*/false);

  Value word(uint32_t value) {
    return n.integerScalar(static_cast<int64_t>(value), u32);
  }
  Value number(uint64_t value) {
    return n.integerScalar(static_cast<int64_t>(value), u64);
  }
  Value add(Value x, Value y) { return n.add(x, y); }
  Value exclusive(Value x, Value y) { return n.binary<ts::XorOp>(x, y); }
  Value low(Value x) { return n.convert(x, u32); }
  Value high(Value x) {
    return n.convert(n.binary<ts::ShiftRightOp>(x, number(32)), u32);
  }
  Value joined(Value low, Value high) {
    return n.binary<ts::OrOp>(
        n.convert(low, u64),
        n.binary<ts::ShiftLeftOp>(n.convert(high, u64), number(32)));
  }
  Value rotated(Value x, int by) {
    return n.binary<ts::OrOp>(
        n.binary<ts::ShiftLeftOp>(x, word(static_cast<uint32_t>(by))),
        n.binary<ts::ShiftRightOp>(x, word(static_cast<uint32_t>(32 - by))));
  }
  /// Entry `i` of the state, a scalar.
  Value entry(int64_t i) {
    return n.reshapeTo(n.sliceDim(n[0], 0, n.dim(i), n.dim(1)), {});
  }
  /// Where each element of `shape` lies, counted from 0.
  Value counter(ArrayRef<int64_t> shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return n.reshapeTo(n.iota({count}, 0, u64), shape);
  }
  LogicalResult outState(ArrayRef<Value> entries) {
    SmallVector<Value> parts;
    for (Value each : entries)
      parts.push_back(n.reshapeTo(each, {1}));
    if (llvm::is_contained(parts, Value()))
      return failure();
    return n.out(n.make<ts::ConcatOp>(ValueRange(parts), uint64_t(0)));
  }
};

//===----------------------------------------------------------------------===//
// Threefry: two words of 20 rounds
//===----------------------------------------------------------------------===//

std::pair<Value, Value> threefry(Words &w, Value x, Value y, Value key) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Value keys[3] = {w.low(key), w.high(key), {}};
  keys[2] = w.exclusive(w.word(0x1BD11BDA), w.exclusive(keys[0], keys[1]));
  x = w.add(x, keys[0]);
  y = w.add(y, keys[1]);
  for (unsigned i = 0; i < 5; ++i) {
    for (int by : rotations[i % 2]) {
      x = w.add(x, y);
      y = w.exclusive(x, w.rotated(y, by));
    }
    x = w.add(x, keys[(i + 1) % 3]);
    y = w.add(y, w.add(keys[(i + 2) % 3], w.word(i + 1)));
  }
  return {x, y};
}

/// The dim that both words share: the first even one, else the longest.
size_t sharedDim(ArrayRef<int64_t> shape) {
  size_t longest = 0;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size % 2 == 0)
      return i;
    if (size > shape[longest])
      longest = i;
  }
  return longest;
}

Value threefryBits(HloNode &n, ArrayRef<int64_t> shape, bool wide) {
  Words w{n};
  SmallVector<int64_t> drawn(shape);
  size_t dim = 0;
  if (!wide) {
    if (drawn.empty())
      drawn.push_back(1);
    dim = sharedDim(drawn);
    drawn[dim] = (drawn[dim] + 1) / 2;
    drawn.insert(drawn.begin() + static_cast<int64_t>(dim) + 1, 1);
  }
  Value at = w.add(w.counter(drawn), w.entry(1));
  auto [x, y] = threefry(w, w.low(at), w.high(at), w.entry(0));
  int64_t count = 1;
  for (int64_t size : drawn)
    count *= size;
  if (mlir::failed(
          w.outState({w.entry(0), w.add(w.entry(1), w.number(count))})))
    return {};
  if (wide)
    return w.joined(x, y);
  if (!x || !y)
    return {};
  if (shape.empty())
    return n.reshapeTo(x, {});
  Value both = n.make<ts::ConcatOp>(ValueRange{x, y}, uint64_t(dim + 1));
  SmallVector<int64_t> even(shape), zeros(shape.size(), 0),
      ones(shape.size(), 1);
  even[dim] = 2 * drawn[dim];
  return n.slice(n.reshapeTo(both, even), zeros, shape, ones);
}

//===----------------------------------------------------------------------===//
// Philox: four words of 10 rounds
//===----------------------------------------------------------------------===//

Value philoxBits(HloNode &n, ArrayRef<int64_t> shape, bool wide) {
  Words w{n};
  int64_t count = 1, states = n.shape(n[0])[0];
  for (int64_t size : shape)
    count *= size;
  int64_t words = wide ? 2 * count : count, drawn = (words + 3) / 4;
  Value key = w.entry(0), low = w.entry(1);
  Value high = states > 2 ? w.entry(2) : key;
  // A counter of 128 bits.
  auto advanced = [&](Value by) {
    Value sum = w.add(low, by);
    Value carry =
        n.convert(n.compare(ts::ComparePredicate::lt, sum, low), w.u64);
    return std::pair(sum, w.add(high, carry));
  };
  auto [first, second] = advanced(n.iota({drawn}, 0, w.u64));
  Value x[4] = {w.low(first), w.high(first), w.low(second), w.high(second)};
  Value keys[2] = {w.low(key), w.high(key)};
  for (unsigned round = 0; round < 10; ++round) {
    Value left = n.mul(n.convert(x[0], w.u64), w.number(0xD2511F53)),
          right = n.mul(n.convert(x[2], w.u64), w.number(0xCD9E8D57));
    Value next[4] = {
        w.exclusive(w.exclusive(w.high(right), x[1]), keys[0]), w.low(right),
        w.exclusive(w.exclusive(w.high(left), x[3]), keys[1]), w.low(left)};
    std::copy(next, next + 4, x);
    keys[0] = w.add(keys[0], w.word(0x9E3779B9));
    keys[1] = w.add(keys[1], w.word(0xBB67AE85));
  }
  auto [end, carried] = advanced(w.number(static_cast<uint64_t>(drawn)));
  SmallVector<Value> state{key, end};
  if (states > 2)
    state.push_back(carried);
  if (mlir::failed(w.outState(state)))
    return {};
  SmallVector<Value> columns;
  if (wide)
    columns = {w.joined(x[0], x[1]), w.joined(x[2], x[3])};
  else
    columns.assign(x, x + 4);
  for (Value &column : columns)
    column = n.reshapeTo(column, {drawn, 1});
  if (llvm::is_contained(columns, Value()))
    return {};
  Value bits = n.make<ts::ConcatOp>(ValueRange(columns), uint64_t(1));
  auto each = static_cast<int64_t>(columns.size());
  bits = n.slice(n.reshapeTo(bits, {drawn * each}), {0}, {count}, {1});
  return n.reshapeTo(bits, shape);
}

/// The state's next, then the bits.
LogicalResult importBits(HloNode &n) {
  StringRef algorithm = n.text("rng_algorithm");
  RankedTensorType type = n.resultType(1);
  if (!type || n.failed())
    return failure();
  bool threefry = algorithm == "THREE_FRY";
  SmallVector<int64_t> state = n.shape(n[0]);
  if (state.size() != 1 || state[0] < 2 || state[0] > (threefry ? 2 : 3) ||
      !ts::elementTypeOf(n[0]).isUnsignedInteger(64))
    return n.unsupported("of a state that is not two ui64, or three of PHILOX");
  Type element = type.getElementType();
  unsigned width = element.getIntOrFloatBitWidth();
  if (!isa<IntegerType>(element) || width < 8)
    return n.unsupported("of other elements than integers of 8 to 64 bits");
  bool wide = width == 64;
  Value bits = threefry ? threefryBits(n, type.getShape(), wide)
                        : philoxBits(n, type.getShape(), wide);
  if (!bits)
    return failure();
  Type plain = n.b.getIntegerType(width, /*isSigned=*/false);
  bits = n.convert(bits, plain);
  return n.out(element == plain || !bits ? bits
                                         : n.makeAs<ts::BitcastOp>(type, bits),
               1);
}

constexpr HloRow rows[] = {
    {"rng_bit_generator", 1, importBits},
};

} // namespace

llvm::ArrayRef<HloRow> hloRandomRows() { return rows; }

} // namespace knapper
