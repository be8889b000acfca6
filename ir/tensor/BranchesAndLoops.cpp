// Verifiers of branches and loops, and the functions that are their bodies.
#include "ir/tensor/BranchesAndLoops.h"
#include "runtime/operators/HostDomain.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

func::FuncOp ts::bodyOf(Operation *op, FlatSymbolRefAttr name) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name);
}

SmallVector<func::FuncOp> ts::bodiesOf(Operation *op) {
  if (auto branch = dyn_cast<IfOp>(op))
    return {bodyOf(op, branch.getThenBodyAttr()),
            bodyOf(op, branch.getElseBodyAttr())};
  if (auto loop = dyn_cast<LoopOp>(op))
    return {bodyOf(op, loop.getBodyAttr())};
  return {};
}

SmallVector<StringAttr> ts::symbolsSetBy(Operation *op) {
  SmallVector<StringAttr> names;
  if (auto bind = dyn_cast<BindSizeOp>(op))
    return {bind.getSymbolAttr()};
  if (auto external = dyn_cast<ExternalOp>(op))
    llvm::append_range(names, external.getSymbols().getAsRange<StringAttr>());
  if (auto branch = dyn_cast<IfOp>(op))
    llvm::append_range(names, branch.getSymbols().getAsRange<StringAttr>());
  if (auto loop = dyn_cast<LoopOp>(op)) {
    llvm::append_range(names, loop.getSymbols().getAsRange<StringAttr>());
    names.push_back(loop.getCounterAttr());
    if (loop.getCountAttr())
      names.push_back(loop.getCountAttr());
  }
  return names;
}

llvm::SetVector<StringAttr> ts::symbolsNamedBy(Operation *op) {
  llvm::SetVector<StringAttr> symbols;
  for (Type type : op->getResultTypes())
    for (Dim dim : dimsOf(type))
      dim.collectSymbols(symbols);
  op->getAttrDictionary().walk([&](DimAttr dim) {
    Dim(dim).collectSymbols(symbols);
    return WalkResult::skip();
  });
  return symbols;
}

SmallVector<func::FuncOp> ts::withBodies(func::FuncOp entry) {
  SmallVector<func::FuncOp> order{entry};
  llvm::SmallDenseSet<Operation *> seen{entry};
  // Depth first, in the order in which a program's regions are numbered.
  auto visit = [&](auto &self, func::FuncOp function) -> void {
    function.walk([&](Operation *op) {
      for (func::FuncOp body : bodiesOf(op))
        if (body && seen.insert(body).second) {
          order.push_back(body);
          self(self, body);
        }
    });
  };
  visit(visit, entry);
  return order;
}

bool ts::isNamed(ArrayAttr symbols, Dim dim) {
  std::optional<StringRef> name = dim.asSymbol();
  return name && llvm::any_of(symbols.getAsRange<StringAttr>(),
                              [&](StringAttr s) { return s == *name; });
}

using Effects = SmallVectorImpl<MemoryEffects::EffectInstance>;

void IfOp::getEffects(Effects &effects) {
  if (!getSymbols().empty())
    effects.emplace_back(MemoryEffects::Write::get());
}
void LoopOp::getEffects(Effects &effects) {
  if (!getSymbols().empty() || getCount())
    effects.emplace_back(MemoryEffects::Write::get());
}

void ExternalOp::getEffects(Effects &effects) {
  // Those that come with the runtime compute and do nothing else.
  if (getDomain() != kHostDomain || !getSymbols().empty())
    effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult ExternalOp::verify() {
  auto present = static_cast<size_t>(llvm::count(getPresent(), true));
  if (present != getInputs().size())
    return emitOpError("(C1) ")
           << getInputs().size() << " operands, " << present << " are present";
  for (NamedAttribute named : getParameters()) {
    Attribute value = named.getValue();
    auto texts = dyn_cast<ArrayAttr>(value);
    auto number = dyn_cast<IntegerAttr>(value);
    auto tensor = dyn_cast<DenseElementsAttr>(value);
    if (!isa<FloatAttr, StringAttr, DenseI64ArrayAttr, DenseF32ArrayAttr>(
            value) &&
        !(number && number.getType().isInteger(64)) &&
        !(tensor && tensor.getElementType().isIntOrFloat()) &&
        !(texts && llvm::all_of(texts, llvm::IsaPred<StringAttr>)))
      return emitOpError("(C3) parameter ")
             << named.getName() << " is of no kind that operators take";
  }
  for (auto symbol : getSymbols().getAsRange<StringAttr>())
    if (llvm::none_of(getResultTypes(), [&](Type type) {
          return llvm::is_contained(
              dimsOf(type), Dim::symbol(getContext(), symbol.getValue()));
        }))
      return emitOpError("(C2) no result has the size ") << symbol;
  return success();
}

/// Whether `given` can stand where `wanted` is declared.
static bool fits(Type given, Type wanted, ArrayAttr symbols) {
  auto from = cast<RankedTensorType>(given),
       to = cast<RankedTensorType>(wanted);
  if (from.getRank() != to.getRank() ||
      from.getElementType() != to.getElementType())
    return false;
  for (auto [a, b] : llvm::zip(dimsOf(given), dimsOf(wanted)))
    if (!(a == b) && !isNamed(symbols, b))
      return false;
  return true;
}

LogicalResult IfOp::verifySymbolUses(SymbolTableCollection &table) {
  auto check = [&](FlatSymbolRefAttr name, ValueRange inputs) {
    auto body = table.lookupNearestSymbolFrom<func::FuncOp>(*this, name);
    if (!body || body.isDeclaration())
      return LogicalResult(emitOpError("has no body ") << name);
    if (TypeRange(body.getArgumentTypes()) != TypeRange(inputs))
      return LogicalResult(emitOpError("(C1) other inputs than its body ")
                           << name);
    if (body.getNumResults() != getNumResults())
      return LogicalResult(emitOpError("(C1) other results than its body ")
                           << name);
    for (auto [given, wanted] :
         llvm::zip(body.getResultTypes(), getResultTypes()))
      if (!fits(given, wanted, getSymbols()))
        return LogicalResult(emitOpError("(C2) ")
                             << name << " gives " << shapeText(given)
                             << " where the result is " << shapeText(wanted));
    return success();
  };
  if (failed(check(getThenBodyAttr(), getThenInputs())))
    return failure();
  return check(getElseBodyAttr(), getElseInputs());
}

LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection &table) {
  auto body = table.lookupNearestSymbolFrom<func::FuncOp>(*this, getBodyAttr());
  if (!body || body.isDeclaration())
    return emitOpError("has no body ") << getBodyAttr();
  size_t carried = getCarried().size(), scans = numScans();
  size_t first = getCondition() ? 1 : 0;
  if (getNumResults() != carried + scans ||
      body.getNumArguments() != carried + getCaptures().size() ||
      body.getNumResults() != first + carried + scans)
    return emitOpError("(C1) other arguments or results than its body");
  if (getCondition() && body.getResultTypes()[0] != getCondition().getType())
    return emitOpError("(C2) the body's first result is no condition");
  for (size_t i = 0; i < carried; ++i) {
    Type inside = body.getArgumentTypes()[i];
    if (inside != getResult(i).getType())
      return emitOpError("(C3) carried value ") << i << " is another type";
    if (!fits(getCarried()[i].getType(), inside, getSymbols()))
      return emitOpError("(C1) carried value ")
             << i << " begins as " << shapeText(getCarried()[i].getType())
             << ", the body takes " << shapeText(inside);
    if (!fits(body.getResultTypes()[first + i], inside, getSymbols()))
      return emitOpError("(C2) carried value ")
             << i << " becomes " << shapeText(body.getResultTypes()[first + i])
             << ", the body takes " << shapeText(inside);
  }
  for (auto [given, wanted] :
       llvm::zip(getCaptures(), body.getArgumentTypes().drop_front(carried)))
    if (given.getType() != wanted)
      return emitOpError("(C1) a capture is ")
             << shapeText(given.getType()) << ", the body takes "
             << shapeText(wanted);
  if (scans && (getCondition() ? !getCount() : !getTrips()))
    return emitOpError("(C4) scans need a number of iterations");
  for (size_t i = 0; i < scans; ++i) {
    if (getReversed()[i] && getCondition())
      return emitOpError("(C4) a reversed scan needs a known end");
    Dim rows = getCondition() ? Dim::symbol(getContext(), *getCount())
                              : Dim(*getTrips());
    SmallVector<Dim> dims{rows};
    Type row = body.getResultTypes()[first + carried + i];
    llvm::append_range(dims, dimsOf(row));
    if (getResult(carried + i).getType() !=
        tensorType(getContext(), dims,
                   cast<RankedTensorType>(row).getElementType()))
      return emitOpError("(C3) scan ")
             << i << " of " << shapeText(row) << " is not its result's type";
  }
  return success();
}
