// Calls and branches.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloHostCall.h"
#include "frontends/stablehlo/HloTokens.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Puts a function's ops in place of the call.
LogicalResult inlined(HloNode &n, StringRef callee) {
  if (n.frame.lift)
    for (Type type : n.op->getOperandTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type);
          tensor && tensor.getRank() != 0)
        return n.unsupported("a tensor given to a function of elements");
  Expected<SmallVector<Value>> results = n.importer.call(callee, n.operands, n);
  if (!results) {
    n.error = results.takeError();
    return failure();
  }
  return giveHloResults(n, *results);
}

LogicalResult importCall(HloNode &n) { return inlined(n, n.text("callee")); }

/// A composite's decomposition is always right; top_k is known by its name.
LogicalResult importComposite(HloNode &n) {
  return inlined(n, n.text("decomposition"));
}

LogicalResult importCustomCall(HloNode &n) {
  StringRef target = n.text("call_target_name");
  // Marks of the partitioner, on one device.
  if ((target == "Sharding" || target == "SPMDFullToShardShape" ||
       target == "SPMDShardToFullShape") &&
      n.size() == 1 && n.results.size() == 1)
    return n.out(n[0]);
  if (isHloHostCall(n))
    return importHloHostCall(n);
  if (target == "shape_assertion")
    return importHloShapeAssertion(n);
  if (const HloTarget *known = findHloTarget(target))
    return n.size() == known->operands && n.results.size() == known->results
               ? known->import(n)
               : n.damaged("calls '" + target + "' with " + Twine(n.size()) +
                           " operands");
  return n.unsupported("target '" + target +
                       "' is code of another compiler's runtime");
}

/// A branch of an if or case as a function without arguments.
bool importBranch(HloNode &n, unsigned index, HloBody &region) {
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  Block *block = beginHloBody(n, index, "branch", {}, region);
  if (!block)
    return false;
  std::optional<SmallVector<Value>> values =
      importHloBlock(n, *block, region.frame);
  bool right = values && values->size() == n.results.size();
  if (right)
    for (auto [i, value] : llvm::enumerate(*values))
      right &= value.getType() == n.resultType(i);
  if (values && !right)
    (void)n.damaged("a branch gives other types than the results");
  n.importer.endBody(region.body,
                     right ? ArrayRef<Value>(*values) : ArrayRef<Value>(), at);
  return right;
}

/// Branches number `first` and later, chosen by an index among them.
std::optional<SmallVector<Value>> chooseFrom(HloNode &n, Value index,
                                             unsigned first);

SmallVector<Type> resultTypes(HloNode &n) {
  SmallVector<Type> types;
  for (size_t i = 0; i < n.results.size(); ++i)
    types.push_back(n.resultType(i));
  return types;
}

std::optional<SmallVector<Value>> buildIf(HloNode &n, Value condition,
                                          HloBody &yes, HloBody &no) {
  SmallVector<Type> types = resultTypes(n);
  if (n.failed())
    return std::nullopt;
  auto op = ts::IfOp::create(
      n.b, n.loc, types, condition, SymbolRefAttr::get(yes.body.function),
      SymbolRefAttr::get(no.body.function), yes.body.captures, no.body.captures,
      n.b.getArrayAttr({}));
  return SmallVector<Value>(op.getResults());
}

std::optional<SmallVector<Value>> chooseFrom(HloNode &n, Value index,
                                             unsigned first) {
  unsigned last = n.op->getNumRegions() - 1;
  // Of one branch: ops in place.
  if (first == last) {
    Block *block = hloBlock(n.op, first, 0);
    if (!block) {
      (void)n.damaged("a branch has arguments");
      return std::nullopt;
    }
    HloFrame frame;
    frame.parent = &n.frame;
    frame.body = n.frame.body;
    frame.depth = n.frame.depth + 1;
    return importHloBlock(n, *block, frame);
  }
  Value isFirst =
      n.compare(ts::ComparePredicate::eq, index, n.scalarFor(index, first));
  if (!isFirst)
    return std::nullopt;
  HloBody yes, no;
  bool good = importBranch(n, first, yes);
  if (first + 1 == last) {
    good &= importBranch(n, last, no);
  } else {
    OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
    n.importer.beginBody(no.body, "branch", n.loc, n.frame.body, {});
    no.frame.parent = &n.frame;
    no.frame.body = &no.body;
    no.frame.depth = n.frame.depth + 1;
    HloNode inner(n.importer, no.frame, n.op, n.kind, n.loc);
    std::optional<SmallVector<Value>> values =
        chooseFrom(inner, n.importer.capture(no.body, index), first + 1);
    n.importer.endBody(no.body, values ? *values : SmallVector<Value>(), at);
    good &= values.has_value();
    if (inner.error)
      n.error = inner.error;
  }
  if (!good || n.failed())
    return std::nullopt;
  return buildIf(n, isFirst, yes, no);
}

/// An index outside takes the last branch.
LogicalResult importCase(HloNode &n) {
  unsigned count = n.op->getNumRegions();
  if (count == 0 || count > 64 || ts::rankOf(n[0]) != 0 ||
      !ts::elementTypeOf(n[0]).isInteger(32))
    return n.damaged("has no branches, more than 64, or no index");
  std::optional<SmallVector<Value>> values = chooseFrom(n, n[0], 0);
  return values ? giveHloResults(n, *values) : failure();
}

LogicalResult importIf(HloNode &n) {
  if (n.op->getNumRegions() != 2 || ts::rankOf(n[0]) != 0 ||
      !ts::elementTypeOf(n[0]).isInteger(1))
    return n.damaged("has no two branches, or no condition");
  HloBody yes, no;
  bool good = importBranch(n, 0, yes);
  good &= importBranch(n, 1, no);
  if (!good)
    return failure();
  std::optional<SmallVector<Value>> values = buildIf(n, n[0], yes, no);
  return values ? giveHloResults(n, *values) : failure();
}

LogicalResult importToken(HloNode &n) {
  return n.out(n.broadcastTo(n.scalar(0, n.b.getI1Type()), {n.dim(0)}));
}

LogicalResult importStream(HloNode &n) {
  return n.unsupported("a stream between the host and a running program: give "
                       "arrays as arguments and results");
}

constexpr HloRow rows[] = {
    {"after_all", 0, importToken},
    {"call", 0, importCall},
    {"case", 1, importCase},
    {"composite", 0, importComposite},
    {"create_token", 0, importToken},
    {"custom_call", 0, importCustomCall},
    {"if", 1, importIf},
    {"infeed", 0, importStream},
    {"outfeed", 0, importStream},
    {"recv", 0, importStream},
    {"send", 0, importStream},
};

} // namespace

const HloTarget *findHloTarget(StringRef name) {
  for (ArrayRef<HloTarget> known : {hloMatrixTargets(), hloSortTargets()})
    for (const HloTarget &each : known)
      if (name == each.name)
        return &each;
  return nullptr;
}

bool isHloToken(Type type) {
  auto tuple = dyn_cast<TupleType>(type);
  return tuple && tuple.size() == 0;
}

llvm::ArrayRef<HloRow> hloControlRows() { return rows; }

} // namespace knapper
