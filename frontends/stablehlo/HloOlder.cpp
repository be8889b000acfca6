// Ops that newer programs have other spellings of, and functions of elements.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

/// The last dim of the left operand with the first of the right.
LogicalResult importDot(HloNode &n) {
  int64_t left = ts::rankOf(n[0]);
  Type element = n.element();
  if (!element || left < 1 || left > 2 || ts::rankOf(n[1]) < 1)
    return n.damaged("is of no vectors or matrices");
  Value x = n.convert(n[0], element), y = n.convert(n[1], element);
  return n.out(n.make<ts::DotOp>(
      x, y, SmallVector<int64_t>(), SmallVector<int64_t>(),
      SmallVector<int64_t>{left - 1}, SmallVector<int64_t>{0}, TypeAttr()));
}

/// Dims in front.
LogicalResult importBroadcast(HloNode &n) {
  SmallVector<ts::Dim> dims = n.resultDims();
  SmallVector<int64_t> sizes = n.integers("broadcast_sizes");
  if (n.failed() || dims.size() != sizes.size() + ts::rankOf(n[0]))
    return n.damaged("its result has another rank");
  SmallVector<int64_t> at;
  for (size_t i = sizes.size(); i < dims.size(); ++i)
    at.push_back(static_cast<int64_t>(i));
  for (auto [i, dim] : llvm::enumerate(at))
    if (ts::dimsOf(n[0])[i] != dims[dim])
      return n.damaged("its result has another shape");
  return n.out(n.broadcastAt(n[0], at, dims));
}

/// Where a letter stands in an operand's dims, each once.
bool lettersOf(HloNode &n, StringRef text, Value value) {
  llvm::StringSet<> seen;
  bool right = !value || static_cast<int64_t>(text.size()) == ts::rankOf(value);
  for (char letter : text)
    right &= llvm::isAlpha(letter) && seen.insert(StringRef(&letter, 1)).second;
  if (!right)
    (void)n.unsupported("with the dims '" + text + "'");
  return right;
}

/// An operand without the dims that nothing else has.
Value summed(HloNode &n, Value x, std::string &letters, StringRef kept) {
  SmallVector<int64_t> gone;
  std::string left;
  for (auto [i, letter] : llvm::enumerate(letters))
    if (kept.contains(letter))
      left += letter;
    else
      gone.push_back(static_cast<int64_t>(i));
  letters = left;
  return gone.empty() ? x : n.reduce(ts::ReduceKind::add, x, gone, false);
}

LogicalResult importEinsum(HloNode &n) {
  auto [inputs, output] = n.text("einsum_config").split("->");
  auto [first, second] = inputs.split(',');
  std::string a = first.trim().str(), b = second.trim().str();
  StringRef out = output.trim();
  if (n.failed() || !lettersOf(n, a, n[0]) || !lettersOf(n, b, n[1]) ||
      !lettersOf(n, out, Value()))
    return failure();
  Value x = summed(n, n[0], a, b + out.str()),
        y = summed(n, n[1], b, a + out.str());
  SmallVector<int64_t> batch[2], contract[2], order;
  std::string shared, restOfFirst, restOfSecond;
  for (auto [i, letter] : llvm::enumerate(a)) {
    size_t other = b.find(letter);
    if (other == std::string::npos) {
      restOfFirst += letter;
      continue;
    }
    bool kept = out.contains(letter);
    (kept ? batch : contract)[0].push_back(static_cast<int64_t>(i));
    (kept ? batch : contract)[1].push_back(static_cast<int64_t>(other));
    if (kept)
      shared += letter;
  }
  for (char letter : b)
    if (a.find(letter) == std::string::npos)
      restOfSecond += letter;
  std::string made = shared + restOfFirst + restOfSecond;
  for (char letter : out) {
    size_t at = made.find(letter);
    if (at == std::string::npos)
      return n.damaged("its result has a dim that no operand has");
    order.push_back(static_cast<int64_t>(at));
  }
  Type element = n.element();
  Value dot =
      n.make<ts::DotOp>(n.convert(x, element), n.convert(y, element), batch[0],
                        batch[1], contract[0], contract[1], TypeAttr());
  return n.out(n.transpose(dot, order));
}

LogicalResult importUnaryEinsum(HloNode &n) {
  auto [input, output] = n.text("einsum_config").split("->");
  std::string a = input.trim().str();
  StringRef out = output.trim();
  if (n.failed() || !lettersOf(n, a, n[0]) || !lettersOf(n, out, Value()))
    return failure();
  Value x = summed(n, n[0], a, out);
  SmallVector<int64_t> order;
  for (char letter : out) {
    size_t at = a.find(letter);
    if (at == std::string::npos)
      return n.damaged("its result has a dim that the operand has not");
    order.push_back(static_cast<int64_t>(at));
  }
  return n.out(n.transpose(x, order));
}

LogicalResult importIndexSelect(HloNode &n) {
  int64_t dim = n.dimension("dim", ts::rankOf(n[0]));
  if (n.integer("batch_dims") != 0)
    return n.unsupported("with dims of a batch");
  if (n.failed())
    return failure();
  int64_t size = n.shape(n[0])[dim];
  Type i64 = n.b.getI64Type();
  if (size == 0)
    return n.damaged("selects from no elements");
  Value index = n.binary<ts::MinOp>(
      n.binary<ts::MaxOp>(n.asIndex(n[1]), n.integerScalar(0, i64)),
      n.integerScalar(size - 1, i64));
  return n.out(n.make<ts::GatherOp>(n[0], index, uint64_t(dim)));
}

LogicalResult importMap(HloNode &n) {
  auto dims = [&](size_t i) {
    return llvm::to_vector(llvm::drop_begin(
        ts::dimsOf(n[i]), isHloComplex(n.op->getOperand(i).getType())));
  };
  for (size_t i = 0; i < n.size(); ++i)
    if (dims(i) != dims(0))
      return n.damaged("its operands differ in shape");
  Block *block = hloBlock(n.op, 0, n.size());
  if (!block)
    return n.damaged("its region has not an argument an operand");
  // Results may be of another type than the operands.
  SmallVector<Value> wanted(block->back().getOperands());
  if (wanted.size() != n.results.size())
    return n.damaged("its region gives another number of results");
  std::optional<SmallVector<Value>> made =
      hloValuesIn(n, 0, n.operands, wanted);
  return made ? giveHloResults(n, *made) : failure();
}

constexpr HloRow rows[] = {
    {"broadcast", 1, importBroadcast},
    {"dot", 2, importDot},
    {"einsum", 2, importEinsum},
    {"map", 1, importMap},
    {"torch_index_select", 2, importIndexSelect},
    {"unary_einsum", 1, importUnaryEinsum},
};

} // namespace

llvm::ArrayRef<HloRow> hloOlderRows() { return rows; }

} // namespace knapper
