// Matmuls.
#include "frontends/onnx/Integers.h"
#include "ir/tensor/ConstantExpression.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// `result`: the element type of the sums, where it is not the operands'.
Value dot(Node &n, Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch,
          ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
          ArrayRef<int64_t> rhsContract, Type result = {}) {
  if (!lhs || !rhs)
    return {};
  // Equal sizes by form, as ts.dot wants them; else checked at run time.
  SmallVector<Dim> left = ts::dimsOf(lhs), right = ts::dimsOf(rhs);
  auto unify = [&](ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
    for (auto [i, j] : llvm::zip(a, b)) {
      if (left[i] == right[j])
        continue;
      bool takeLeft = left[i].asConstant() ||
                      (!right[j].asConstant() && left[i].asSymbol());
      (takeLeft ? right[j] : left[i]) = takeLeft ? left[i] : right[j];
    }
  };
  unify(lhsBatch, rhsBatch);
  unify(lhsContract, rhsContract);
  lhs = n.castDims(lhs, left);
  rhs = n.castDims(rhs, right);
  if (!rhs)
    return {};
  if (lhsContract.size() == left.size() && rhsContract.size() == right.size()) {
    // Nothing is left of either: a sum of products, not a matmul.
    if (result) {
      lhs = n.convert(lhs, result);
      rhs = n.convert(rhs, result);
    }
    SmallVector<int64_t> order(left.size());
    for (auto [i, j] : llvm::zip(lhsContract, rhsContract))
      order[i] = j;
    return n.reduce(ts::ReduceKind::add,
                    n.make<ts::MulOp>(lhs, n.transpose(rhs, order)),
                    llvm::to_vector(llvm::seq<int64_t>(0, left.size())),
                    /*keep=*/false);
  }
  return n.make<ts::DotOp>(
      lhs, rhs, ArrayRef<int64_t>(lhsBatch), ArrayRef<int64_t>(rhsBatch),
      ArrayRef<int64_t>(lhsContract), ArrayRef<int64_t>(rhsContract),
      result ? TypeAttr::get(result) : TypeAttr());
}

/// NumPy's matmul: the last two dims multiply, those before broadcast.
Value matmul(Node &n, Value a, Value b, Type element = {}) {
  if (!a || !b)
    return {};
  int64_t ra = ts::rankOf(a), rb = ts::rankOf(b);
  if (!ra || !rb) {
    (void)n.fail("a scalar cannot be a factor of a matmul",
                 "use Mul for scalars");
    return {};
  }
  SmallVector<Dim> da = ts::dimsOf(a), db = ts::dimsOf(b);
  // A right factor without batch, or with one of size 1, shares all rows.
  bool flat = rb <= 2;
  if (!flat &&
      llvm::all_of(ArrayRef<Dim>(db).drop_back(2),
                   [](Dim d) { return d.isConstant(1); }) &&
      rb <= ra) {
    b = n.reshape(b, ArrayRef<Dim>(db).take_back(2));
    rb = 2;
    flat = true;
  }
  if (flat)
    return dot(n, a, b, {}, {}, {ra - 1}, {rb == 1 ? 0 : rb - 2}, element);
  // A vector on the left is a matrix of one row, which goes away again.
  bool vector = ra == 1;
  if (vector) {
    a = n.reshape(a, {n.dim(1), da[0]});
    if (!a)
      return {};
    da = ts::dimsOf(a);
    ra = 2;
  }
  SmallVector<Dim> batch =
      n.broadcastDims({SmallVector<Dim>(ArrayRef<Dim>(da).drop_back(2)),
                       SmallVector<Dim>(ArrayRef<Dim>(db).drop_back(2))});
  auto widen = [&](Value value, ArrayRef<Dim> dims) {
    SmallVector<Dim> to = batch;
    llvm::append_range(to, dims.take_back(2));
    return n.broadcastTo(value, to);
  };
  a = widen(a, da);
  b = widen(b, db);
  auto count = static_cast<int64_t>(batch.size());
  auto batchDims = llvm::to_vector(llvm::seq<int64_t>(0, count));
  Value result =
      dot(n, a, b, batchDims, batchDims, {count + 1}, {count}, element);
  if (!vector || !result)
    return result;
  SmallVector<Dim> dims = ts::dimsOf(result);
  dims.erase(dims.begin() + count);
  return n.reshape(result, dims);
}

LogicalResult importMatMul(Node &n) { return n.out(matmul(n, n[0], n[1])); }

LogicalResult importMatMulInteger(Node &n) {
  return n.out(integerMatMul(n, n[0], n[2], n[1], n[3]));
}

LogicalResult importGemm(Node &n) {
  if (ts::rankOf(n[0]) != 2 || ts::rankOf(n[1]) != 2)
    return n.fail("A and B must be matrices, they are " +
                      ts::shapeText(n[0].getType()) + " and " +
                      ts::shapeText(n[1].getType()),
                  "use MatMul for other ranks");
  Value result = dot(n, n[0], n[1], {}, {}, {n.flag("transA", false) ? 0 : 1},
                     {n.flag("transB", false) ? 1 : 0});
  double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  if (alpha != 1)
    result = n.mul(result, alpha);
  if (!n.has(2) || beta == 0 || !result)
    return n.out(result);
  Value c = beta == 1 ? n[2] : n.mul(n[2], beta);
  return n.out(n.make<ts::AddOp>(result, n.broadcastTo(c, ts::dimsOf(result))));
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

/// A tensor whose dims carry labels.
struct Labelled {
  Value value;
  std::string labels;
};

/// Dims a and b carry one label: of them only equal indices count.
void takeDiagonal(Node &n, Labelled &x, size_t a, size_t b) {
  x.labels.erase(b, 1);
  if (!x.value)
    return;
  SmallVector<Dim> dims = ts::dimsOf(x.value);
  if (!(dims[a] == dims[b])) {
    dims[dims[a].asConstant() ? b : a] = dims[dims[a].asConstant() ? a : b];
    x.value = n.castDims(x.value, dims);
  }
  RankedTensorType type = n.type(dims, n.b.getI64Type());
  Value same = n.compare(ts::ComparePredicate::eq,
                         n.makeAs<ts::IotaOp>(type, uint64_t(a)),
                         n.makeAs<ts::IotaOp>(type, uint64_t(b)));
  x.value = n.reduce(ts::ReduceKind::add,
                     n.select(same, x.value, n.scalarFor(x.value, 0)),
                     {static_cast<int64_t>(b)}, false);
}

/// The contraction of two operands: summed over the labels that they share and
/// nothing later `needs`.
Labelled contract(Node &n, const Labelled &a, const Labelled &b,
                  const std::map<char, int> &needs) {
  if (!a.value || !b.value)
    return {};
  // A shared dim of size 1 on one side broadcasts.
  SmallVector<Dim> da = ts::dimsOf(a.value), db = ts::dimsOf(b.value);
  SmallVector<int64_t> ab, bb, ac, bc;
  for (auto [i, c] : llvm::enumerate(a.labels)) {
    size_t j = b.labels.find(c);
    if (j == std::string::npos)
      continue;
    if (da[i].isConstant(1))
      da[i] = db[j];
    else if (db[j].isConstant(1))
      db[j] = da[i];
    (needs.count(c) ? ab : ac).push_back(i);
    (needs.count(c) ? bb : bc).push_back(j);
  }
  Labelled contraction{dot(n, n.broadcastTo(a.value, da),
                           n.broadcastTo(b.value, db), ab, bb, ac, bc),
                       ""};
  for (int64_t i : ab)
    contraction.labels += a.labels[i];
  for (const Labelled *side : {&a, &b})
    for (char c : side->labels)
      if ((side == &a ? b : a).labels.find(c) == std::string::npos)
        contraction.labels += c;
  return contraction;
}

/// From the left to the right; sums first over labels that one operand has
/// alone.
LogicalResult importEinsum(Node &n) {
  std::string equation = n.text("equation", "");
  llvm::erase(equation, ' ');
  auto [left, right] = StringRef(equation).split("->");
  bool explicitResult = StringRef(equation).contains("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != n.size())
    return n.fail("equation '" + equation + "' has " + Twine(terms.size()) +
                      " terms for " + Twine(n.size()) + " inputs",
                  "give a term an input");
  // An ellipsis becomes labels '0', '1', ... counted from the right.
  size_t broadcastRank = 0;
  SmallVector<Labelled> operands;
  std::map<char, int> uses, written; ///< operands; places in the equation
  for (auto [i, term] : llvm::enumerate(terms)) {
    std::string labels;
    int64_t rank = ts::rankOf(n[i]);
    size_t letters = llvm::count_if(term, [](char c) { return c != '.'; });
    for (size_t at = 0; at < term.size(); ++at) {
      if (llvm::isAlpha(term[at])) {
        labels += term[at];
        continue;
      }
      if (term.substr(at, 3) != "..." || rank < static_cast<int64_t>(letters) ||
          rank - letters > 9)
        return n.fail("equation '" + equation + "' is malformed",
                      "use letters, one '...' and '->'");
      size_t extra = rank - letters;
      broadcastRank = std::max(broadcastRank, extra);
      for (size_t k = extra; k-- > 0;)
        labels += static_cast<char>('0' + k);
      at += 2;
    }
    if (static_cast<int64_t>(labels.size()) != rank)
      return n.fail("term '" + term + "' does not fit the shape " +
                        ts::shapeText(n[i].getType()),
                    "give a label a dim");
    for (char c : labels)
      ++written[c];
    Labelled operand{n[i], labels};
    for (size_t a = 0; a < operand.labels.size(); ++a)
      for (size_t b; (b = operand.labels.find(operand.labels[a], a + 1)) !=
                     std::string::npos;)
        takeDiagonal(n, operand, a, b);
    if (!operand.value)
      return failure();
    for (char c : operand.labels)
      ++uses[c];
    operands.push_back(operand);
  }
  std::string result;
  for (size_t k = broadcastRank; k-- > 0;)
    if (!explicitResult || right.contains("..."))
      result += static_cast<char>('0' + k);
  if (explicitResult) {
    std::string dots = result;
    result.clear();
    for (size_t at = 0; at < right.size(); ++at)
      if (right.substr(at, 3) == "...") {
        result += dots;
        at += 2;
      } else {
        result += right[at];
      }
  } else {
    for (auto [label, count] : written)
      if (llvm::isAlpha(label) && count == 1)
        result += label;
  }
  std::map<char, int> inResult;
  for (char c : result)
    if (!uses.count(c) || inResult[c]++)
      return n.fail("equation '" + equation +
                        "' has an unknown or doubled "
                        "label in its result",
                    "name each result label once, from the inputs");
  // Labels of one operand alone that the result does not have: sum first.
  for (Labelled &operand : operands) {
    SmallVector<int64_t> gone;
    std::string kept;
    for (auto [i, c] : llvm::enumerate(operand.labels))
      if (uses[c] == 1 && !inResult.count(c))
        gone.push_back(i);
      else
        kept += c;
    if (!gone.empty())
      operand.value = n.reduce(ts::ReduceKind::add, operand.value, gone, false);
    operand.labels = kept;
  }
  Labelled contraction = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::map<char, int> needs = inResult;
    for (const Labelled &later : ArrayRef<Labelled>(operands).drop_front(i + 1))
      for (char c : later.labels)
        ++needs[c];
    contraction = contract(n, contraction, operands[i], needs);
    if (!contraction.value)
      return n.out(Value());
  }
  SmallVector<int64_t> permutation;
  for (char c : result)
    permutation.push_back(contraction.labels.find(c));
  return n.out(n.transpose(contraction.value, permutation));
}

/// Elimination with the largest pivot of each column, written out.
LogicalResult importDet(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  std::optional<int64_t> size =
      rank < 2 ? std::nullopt : dims[rank - 1].asConstant();
  if (rank < 2 || (size && !dims[rank - 2].isConstant(*size) &&
                   dims[rank - 2].asConstant()))
    return n.fail("needs square matrices, has " + ts::shapeText(n[0].getType()),
                  "give [..., n, n]");
  if (!size || *size > 32)
    return n.unsupported(size ? "matrices of more than 32 rows"
                              : "matrices of symbolic size");
  using P = ts::ComparePredicate;
  Type element = ts::elementTypeOf(n[0]), i64 = n.b.getI64Type();
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  ArrayRef<Dim> around = ArrayRef<Dim>(dims).drop_back(2);
  Dim count = ts::product(n.importer.context, around), one = n.dim(1);
  dims[rank - 2] = n.dim(*size);
  Value a = n.reshape(n.convert(n.castDims(n[0], dims), fine),
                      {count, n.dim(*size), n.dim(*size)});
  Value det = n.broadcastTo(n.scalar(1, fine), {count});
  for (int64_t left = *size; left > 0 && a; --left) {
    Value column =
        n.reshape(n.sliceDim(a, 2, n.dim(0), one), {count, n.dim(left)});
    Value best =
        n.make<ts::ArgReduceOp>(ts::ReduceKind::max, n.make<ts::AbsOp>(column),
                                uint64_t(1), bool(false));
    Value at = n.reshape(best, {count, one});
    Value pivot = n.reshape(
        n.make<ts::GatherElementsOp>(column, at, uint64_t(1)), {count});
    Value swapped = n.compare(P::ne, best, n.integerScalar(0, i64));
    det = n.mul(det, n.select(swapped, n.make<ts::NegOp>(pivot), pivot));
    if (left == 1)
      break;
    // The pivot's row goes up, the first row takes its place.
    Value rowAt = n.broadcastTo(n.reshape(best, {count, one, one}),
                                {count, one, n.dim(left)});
    Value row = n.make<ts::GatherElementsOp>(a, rowAt, uint64_t(1));
    Value first = n.sliceDim(a, 1, n.dim(0), one),
          rest = n.sliceDim(a, 1, one, n.dim(left - 1));
    Value number = n.makeAs<ts::IotaOp>(
        n.type({count, n.dim(left - 1), n.dim(left)}, i64), uint64_t(1));
    Value chosen =
        n.compare(P::eq, n.add(number, 1), n.reshape(best, {count, one, one}));
    rest = n.select(chosen, first, rest);
    // A column of zeros has determinant 0 already.
    Value zero = n.compare(P::eq, pivot, n.scalar(0, fine));
    Value divisor =
        n.reshape(n.select(zero, n.scalar(1, fine), pivot), {count, one, one});
    Value factor = n.div(n.sliceDim(rest, 2, n.dim(0), one), divisor);
    auto tail = [&](Value x) { return n.sliceDim(x, 2, one, n.dim(left - 1)); };
    a = n.sub(tail(rest), n.mul(factor, tail(row)));
  }
  return n.out(n.convert(n.reshape(det, around), element));
}

constexpr OpRow rows[] = {
    {"", "Det", 11, 1, 1, importDet},
    {"", "Einsum", 12, 1, anyNumber, importEinsum},
    {"", "Gemm", 1, 2, 3, importGemm},
    {"", "MatMul", 1, 2, 2, importMatMul},
    {"", "MatMulInteger", 10, 2, 4, importMatMulInteger},
};

} // namespace

ArrayRef<OpRow> matMulRows() { return rows; }

Centred centred(Value value, Value zero) {
  auto constant =
      zero ? zero.getDefiningOp<ts::ConstantOp>() : ts::ConstantOp();
  auto data = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                       : DenseElementsAttr();
  if (data && data.isSplat() && isa<IntegerType>(data.getElementType()) &&
      data.getSplatValue<APInt>().isZero())
    zero = {};
  bool isUnsigned = ts::elementTypeOf(value).isUnsignedInteger();
  return {value, zero, zero || isUnsigned ? 255 : 128};
}

int64_t exactTerms(const Centred &a, const Centred &b) {
  auto isByte = [](const Centred &x) {
    return ts::elementTypeOf(x.value).getIntOrFloatBitWidth() == 8;
  };
  if (!isByte(a) || !isByte(b))
    return 0;
  int64_t terms = (int64_t(1) << 24) / (a.largest * b.largest);
  return static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(terms)));
}

/// u8 times a constant matrix of i8, which targets have instructions for; the
/// zero points come in after the sums:
///   sum (a - p)(b - q) = sum ab - p sum b - q (sum a - K p)
/// Bytes of the other sign move by 128, and their zero points with them. All of
/// it wraps in i32, so that nothing is lost.
static Value byteMatMul(Node &n, Centred a, Centred b) {
  Type i32 = n.b.getI32Type();
  auto offset = [&](Centred &x, bool isUnsigned) {
    Type element = ts::elementTypeOf(x.value);
    if (x.zero)
      x.zero = n.convert(x.zero, i32);
    if (element.isUnsignedInteger() == isUnsigned)
      return;
    Value by = n.integerScalar(isUnsigned ? 128 : -128, i32);
    x.value = n.convert(n.add(n.convert(x.value, i32), by),
                        isUnsigned ? n.b.getIntegerType(8, false)
                                   : n.b.getIntegerType(8));
    x.zero = x.zero ? n.add(x.zero, by) : by;
  };
  offset(a, true);
  offset(b, false);
  Value result = matmul(n, a.value, b.value, i32);
  if (!result)
    return {};
  int64_t ra = ts::rankOf(a.value), rb = ts::rankOf(b.value);
  auto sum = [&](Value x, int64_t dim, bool keep) {
    return n.reduce(ts::ReduceKind::add, n.convert(x, i32), {dim}, keep);
  };
  if (a.zero)
    result = n.sub(result, n.mul(a.zero, sum(b.value, rb - 2, ra > 1)));
  if (b.zero) {
    Value sums = sum(a.value, ra - 1, true);
    if (a.zero) {
      int64_t depth = *ts::dimOf(b.value, rb - 2).asConstant();
      sums = n.sub(sums, n.mul(a.zero, n.integerScalar(depth, i32)));
    }
    result = n.sub(result, n.mul(sums, b.zero));
  }
  return result;
}

Value integerMatMul(Node &n, Value a, Value aZero, Value b, Value bZero) {
  if (!a || !b)
    return {};
  // A zero point a row of the left factor; a column of the right one.
  if (aZero && ts::rankOf(aZero) == 1 && !ts::dimOf(aZero, 0).isConstant(1))
    aZero = n.reshape(aZero, {ts::dimOf(aZero, 0), n.dim(1)});
  Centred left = centred(a, aZero), right = centred(b, bZero);
  Type f32 = n.b.getF32Type(), i32 = n.b.getI32Type();
  int64_t ra = ts::rankOf(a), rb = ts::rankOf(b),
          slice = exactTerms(left, right);
  std::optional<int64_t> depth =
      ra ? ts::dimOf(a, ra - 1).asConstant() : std::nullopt;
  int64_t along = rb == 1 ? 0 : rb - 2;
  if (slice && ra >= 1 && rb == 2 && ts::isConstantExpression(b) &&
      ts::dimOf(b, 0).asConstant() && ts::dimOf(b, 1).asConstant())
    return byteMatMul(n, left, right);
  if (!slice || !depth || *depth < 1 || *depth > slice * maxSlices || !rb ||
      !ts::dimOf(b, along).isConstant(*depth)) {
    Value x = left.as(n, i32), y = right.as(n, i32);
    return matmul(n, x, y);
  }
  // Differences of bytes are exact in bf16, too: half the memory.
  Type bf16 = n.b.getBF16Type();
  Value x = n.convert(left.as(n, f32), bf16);
  Value y = n.convert(right.as(n, f32), bf16), sum;
  for (int64_t at = 0; at < *depth; at += slice) {
    Dim start = n.dim(at), count = n.dim(std::min(slice, *depth - at));
    Value xs = n.sliceDim(x, ra - 1, start, count);
    Value ys = n.sliceDim(y, along, start, count);
    Value part = n.convert(matmul(n, xs, ys, f32), i32);
    sum = sum ? n.add(sum, part) : part;
  }
  return sum;
}

} // namespace knapper
