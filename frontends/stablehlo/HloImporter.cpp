#include "frontends/stablehlo/HloImporter.h"

#include "frontends/common/SourceLocation.h"
#include "frontends/stablehlo/HloCollectives.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloNarrow.h"
#include "frontends/stablehlo/HloQuantised.h"
#include "frontends/stablehlo/HloTokens.h"
#include "ir/tensor/SignatureMarks.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

constexpr size_t maxOps = 1 << 18;
constexpr unsigned maxDepth = 100;

static Error damagedFile(const Twine &what, const std::string &where = "") {
  return userError(what.str(), where.empty() ? "the StableHLO program" : where,
                   "the file is damaged: export it again");
}

//===----------------------------------------------------------------------===//
// Types and locations
//===----------------------------------------------------------------------===//

RankedTensorType hloType(Type type, std::string &problem) {
  if (isHloToken(type))
    return RankedTensorType::get({0}, IntegerType::get(type.getContext(), 1));
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    problem = "a value that is no tensor of numbers (a tuple)";
    return {};
  }
  Type element = tensor.getElementType();
  if (isHloQuantised(element)) {
    element = hloStorage(element);
    if (!element) {
      llvm::raw_string_ostream(problem)
          << "element type " << tensor.getElementType();
      return {};
    }
    tensor = tensor.clone(element);
  }
  if (auto complex = dyn_cast<ComplexType>(element)) {
    element = complex.getElementType();
    if ((element.isF32() || element.isF64()) && tensor.hasStaticShape()) {
      SmallVector<int64_t> shape{2};
      llvm::append_range(shape, tensor.getShape());
      return RankedTensorType::get(shape, element);
    }
  }
  if (isa<IntegerType, Float64Type, Float32Type, Float16Type, BFloat16Type,
          Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType,
          Float8E5M2FNUZType, Float8E4M3Type, Float8E3M4Type,
          Float8E4M3B11FNUZType, Float8E8M0FNUType, Float6E2M3FNType,
          Float6E3M2FNType, Float4E2M1FNType>(element)) {
    return RankedTensorType::get(tensor.getShape(), element);
  }
  llvm::raw_string_ostream(problem) << "element type " << element;
  return {};
}

std::string hloSourceLine(Location loc) {
  LocationAttr at = loc;
  for (unsigned i = 0; i < 100 && at; ++i) {
    if (auto line = dyn_cast<FileLineColLoc>(at))
      return (line.getFilename().getValue() + ":" + Twine(line.getLine()))
          .str();
    if (auto range = dyn_cast<FileLineColRange>(at))
      return (range.getFilename().getValue() + ":" +
              Twine(range.getStartLine()))
          .str();
    if (auto name = dyn_cast<NameLoc>(at))
      at = name.getChildLoc();
    else if (auto site = dyn_cast<CallSiteLoc>(at))
      at = site.getCallee();
    else if (auto fused = dyn_cast<FusedLoc>(at);
             fused && !fused.getLocations().empty())
      at = fused.getLocations().front();
    else
      break;
  }
  return "";
}

std::string hloSourceLine(Operation *op, const HloFrame &frame) {
  std::string line = hloSourceLine(op->getLoc());
  for (const HloFrame *at = &frame; at && line.empty(); at = at->parent)
    line = at->line;
  return line;
}

Block *hloBlock(Operation *op, unsigned region, size_t arguments) {
  if (region >= op->getNumRegions() || !op->getRegion(region).hasOneBlock())
    return nullptr;
  Block &block = op->getRegion(region).front();
  if (block.getNumArguments() != arguments || block.empty() ||
      hloName(&block.back()) != "return" || block.back().getNumResults() != 0)
    return nullptr;
  return &block;
}

DictionaryAttr hloAttributesAt(Operation *function, StringRef list,
                               size_t index) {
  auto all = function->getAttrOfType<ArrayAttr>(list);
  return all && index < all.size() ? dyn_cast<DictionaryAttr>(all[index])
                                   : DictionaryAttr();
}

bool isHloDonated(Operation *main, size_t argument) {
  DictionaryAttr given = hloAttributesAt(main, "arg_attrs", argument);
  return given && (given.contains("tf.aliasing_output") ||
                   given.contains("jax.buffer_donor"));
}

/// The op's name in the user's program, what it is, and its line.
static Location locationOf(Operation &op, StringRef kind,
                           const std::string &line) {
  StringRef name = kind;
  if (auto named = dyn_cast<NameLoc>(op.getLoc()))
    name = named.getName();
  return sourceLocation(op.getContext(), name, kind, line);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

std::optional<Value> HloImporter::lookup(Value value, HloFrame &frame) {
  for (HloFrame *at = &frame; at; at = at->parent) {
    auto found = at->values.find(value);
    if (found == at->values.end())
      continue;
    // From the outermost body inwards.
    SmallVector<GraphBody *> inner;
    for (GraphBody *body = frame.body; body && body != at->body;
         body = body->parent)
      inner.push_back(body);
    Value result = found->second;
    for (GraphBody *body : llvm::reverse(inner))
      result = capture(*body, result);
    return result;
  }
  return std::nullopt;
}

/// Ops of a scalar region that mean the same for every element of tensors.
static bool isLiftable(StringRef kind) {
  for (ArrayRef<HloRow> rows : {hloUnaryRows(), hloBinaryRows()})
    for (const HloRow &row : rows)
      if (kind == row.name)
        return true;
  return kind == "constant" || kind == "call";
}

Status HloImporter::importOp(Operation &op, HloFrame &frame) {
  std::string kind = hloName(&op).str();
  if (++imported > maxOps)
    return userError("the program has more than " + std::to_string(maxOps) +
                         " ops after its functions are put in",
                     "the StableHLO program", "compile parts of the model");
  std::string line = hloSourceLine(&op, frame);
  HloNode n(*this, frame, &op, kind, locationOf(op, kind, line));
  bool known = true;
  for (Value operand : op.getOperands()) {
    std::optional<Value> value = lookup(operand, frame);
    if (!value)
      return damagedFile("an operand is read before it is made", n.where());
    known &= bool(*value);
    n.operands.push_back(
        frame.lift ? hloLifted(n, *value, operand.getType(), *frame.lift)
                   : *value);
  }
  auto finish = [&](bool given) {
    for (auto [i, result] : llvm::enumerate(op.getResults()))
      frame.values[result] = given ? n.results[i] : Value();
  };
  // What hangs on something missing is skipped: the cause is reported.
  if (!known) {
    finish(false);
    return success();
  }
  const HloRow *row = findHloRow(kind);
  std::string problem;
  bool complex = isHloComplex(&op), elastic = isHloElastic(&op);
  if (elastic && row && !complex) {
    row = findHloElasticRow(n, row);
    problem =
        row ? "" : "sizes that only a call knows (export with fixed ones)";
    alignHloOperands(n);
  }
  if (elastic && complex)
    problem = "complex numbers of sizes that only a call knows (export with "
              "fixed ones)";
  if (frame.lift && row && !isLiftable(kind))
    row = nullptr;
  LogicalResult built = failure();
  // So rows find results of types that there are. What is missing in functions
  // and regions is said there.
  bool nests = op.getNumRegions() > 0 || kind == "call" || kind == "composite";
  for (Value result : op.getResults())
    if ((row || complex) && !nests && !hloType(result.getType(), problem))
      break;
  if ((!row && !complex) || !problem.empty())
    (void)n.unsupported(problem);
  else if (complex)
    built = importHloComplex(n, row);
  else if (n.operands.size() < row->operands)
    (void)n.damaged("has " + Twine(n.operands.size()) + " operands");
  else if (isHloQuantised(&op))
    built = importHloQuantised(n, *row);
  else if (isHloNarrow(&op) && computesHloWide(kind))
    built = importHloNarrow(n, *row);
  else
    built = row->import(n);
  if (n.error) {
    if (n.error->where.empty())
      n.error->where = n.where();
    return *n.error;
  }
  // Of an op with regions, what is missing in them or in what they read says
  // it.
  if (n.missing || mlir::failed(built)) {
    if (!n.missing && missing.empty())
      return internalError("the row gives no result and no reason", n.where());
    std::string shapes;
    for (Value value : n.operands)
      shapes += (shapes.empty() ? "" : ", ") + ts::shapeText(value.getType());
    if (n.missing)
      missing.push_back({kind, shapes, line, *n.missing});
    finish(false);
    return success();
  }
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    RankedTensorType declared = hloType(result.getType(), problem);
    if (!n.results[i])
      return internalError("the row gives no result " + std::to_string(i),
                           n.where());
    if (declared && frame.lift && kind != "constant")
      declared = n.resultType(i);
    if (!hloFits(declared, n.results[i].getType()))
      return damagedFile("gives " + ts::shapeText(n.results[i].getType()) +
                             " where the program has another type",
                         n.where());
    n.results[i] = hloDeclared(n, n.results[i], declared);
    if (n.error)
      return *n.error;
  }
  finish(true);
  return success();
}

Expected<SmallVector<Value>> HloImporter::importBlock(Block &block,
                                                      HloFrame &frame) {
  if (frame.depth > maxDepth)
    return damagedFile("functions and regions are nested more than " +
                       Twine(maxDepth) + " deep");
  for (Operation &op : block) {
    if (&op == &block.back() && hloName(&op) == "return") {
      SmallVector<Value> results;
      for (Value operand : op.getOperands()) {
        std::optional<Value> value = lookup(operand, frame);
        if (!value)
          return damagedFile("a result is read before it is made");
        results.push_back(*value);
      }
      return results;
    }
    TRY(importOp(op, frame));
  }
  return damagedFile("a block does not end with a return");
}

Expected<SmallVector<Value>> HloImporter::call(StringRef callee,
                                               ArrayRef<Value> arguments,
                                               HloNode &caller) {
  std::string where = caller.where();
  Operation *function = functions.lookup(callee);
  Block *block = function ? hloBlock(function, 0, arguments.size()) : nullptr;
  if (!block)
    return damagedFile("calls '" + callee + "', which is no function of " +
                           Twine(arguments.size()) + " arguments",
                       where);
  HloFrame frame;
  frame.body = caller.frame.body;
  frame.depth = caller.frame.depth + 1;
  frame.line = hloSourceLine(caller.op, caller.frame);
  frame.lift = caller.frame.lift;
  for (auto [inner, outer] : llvm::zip(block->getArguments(), arguments)) {
    std::string problem;
    RankedTensorType declared = hloType(inner.getType(), problem);
    if (declared && frame.lift)
      declared = hloLiftedType(caller, inner.getType(), declared, *frame.lift);
    if (!hloFits(declared, outer.getType()))
      return damagedFile("calls '" + callee + "' with other types", where);
    frame.values[inner] = hloDeclared(caller, outer, declared);
  }
  Expected<SmallVector<Value>> values = importBlock(*block, frame);
  if (values && frame.lift)
    for (auto [value, given] :
         llvm::zip(*values, block->back().getOperandTypes()))
      value = hloLifted(caller, value, given, *frame.lift);
  return values;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Error HloImporter::missingError() const {
  std::string text = "the program needs what is not supported yet:";
  for (const Missing &each : missing) {
    text += "\n  " + each.op + "(" + each.shapes + ")";
    if (!each.reason.empty())
      text += ": " + each.reason;
    if (!each.line.empty())
      text += "\n    " + each.line;
  }
  return userError(text, "the StableHLO program",
                   "docs/jax.md says what there is");
}

Status HloImporter::checkModule(ModuleOp program) {
  devices = hloDevices(program);
  if (devices > 1 && !hasHloDevices())
    return userError("the program is cut for several devices: "
                     "mhlo.num_partitions is " +
                         std::to_string(devices),
                     "the StableHLO program",
                     "run it by JAX on as many (knapper.jax.install("
                     "num_devices=...)), or export it for one device, without "
                     "shardings");
  if (Expected<HloPartition> parts = partitionHlo(program); !parts)
    return parts.takeError();
  for (Operation &op : program.getBody()->getOperations()) {
    auto name = op.getAttrOfType<StringAttr>("sym_name");
    if (hloName(&op) == "func" && name)
      functions[name.getValue()] = &op;
  }
  return success();
}

/// A name that no other has.
static std::string distinct(StringRef wanted, llvm::StringSet<> &taken) {
  std::string name = wanted.str();
  for (unsigned i = 1; !taken.insert(name).second; ++i)
    name = (wanted + "_" + Twine(i)).str();
  return name;
}

RankedTensorType HloImporter::argumentType(
    RankedTensorType type, unsigned argument,
    const llvm::DenseMap<std::pair<unsigned, unsigned>, std::string> &names) {
  SmallVector<Dim> dims;
  for (auto [i, size] : llvm::enumerate(type.getShape())) {
    auto named = names.find({argument, static_cast<unsigned>(i)});
    if (!ShapedType::isDynamic(size)) {
      dims.push_back(Dim::constant(context, size));
    } else if (named != names.end()) {
      symbols.insert({StringAttr::get(context, named->second), 0});
      dims.push_back(Dim::symbol(context, named->second));
    } else {
      dims.push_back(
          freshSymbol(("size" + Twine(argument) + "_" + Twine(i)).str()));
    }
  }
  return ts::tensorType(context, dims, type.getElementType());
}

Expected<OwningOpRef<ModuleOp>> HloImporter::importMain(Operation *function,
                                                        ModuleOp program) {
  Block &block = function->getRegion(0).front();
  OwningOpRef<ModuleOp> result(
      ModuleOp::create(FileLineColLoc::get(context, "stablehlo", 0, 0)));
  module = *result;
  b.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types;
  HloSizeNames names = hloSizeNames(
      block, [&](StringRef name) { return functions.lookup(name); });
  for (const auto &[place, name] : names)
    reservedNames.insert(name);
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    std::string problem;
    RankedTensorType type = hloBorderType(argument.getType(), problem);
    if (!type)
      missing.push_back({"argument " + std::to_string(i), "",
                         hloSourceLine(argument.getLoc()), problem});
    else if (!type.hasStaticShape())
      type = argumentType(type, static_cast<unsigned>(i), names);
    types.push_back(type);
  }
  if (!missing.empty())
    return missingError();
  auto main = func::FuncOp::create(b, module->getLoc(), "main",
                                   b.getFunctionType(types, {}));
  Block *body = main.addEntryBlock();
  HloFrame frame;
  llvm::StringSet<> taken;
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    std::string name = "arg" + std::to_string(i);
    if (auto named = dyn_cast<NameLoc>(argument.getLoc()))
      name = named.getName().str();
    main.setArgAttr(i, "ts.name", b.getStringAttr(distinct(name, taken)));
    if (isHloDonated(function, i))
      main.setArgAttr(i, ts::kDonated, b.getUnitAttr());
    frame.values[argument] = body->getArgument(i);
  }
  b.setInsertionPointToEnd(body);
  HloNode border(*this, frame, function, "func", main.getLoc());
  for (auto [i, argument] : llvm::enumerate(block.getArguments()))
    if (isHloComplex(argument.getType())) {
      main.setArgAttr(i, ts::kComplex, b.getUnitAttr());
      frame.values[argument] = hloFromBorder(border, body->getArgument(i));
    }
  ASSIGN_OR_RETURN(SmallVector<Value> made, importBlock(block, frame));
  if (!missing.empty())
    return missingError();
  SmallVector<bool> isComplex;
  for (auto [value, type] : llvm::zip(made, block.back().getOperandTypes())) {
    isComplex.push_back(isHloComplex(type));
    if (isComplex.back())
      value = hloToBorder(border, value);
  }
  if (border.error)
    return *border.error;
  func::ReturnOp::create(b, main.getLoc(), made);
  main.setType(
      b.getFunctionType(types, ValueRange(ArrayRef<Value>(made)).getTypes()));
  taken.clear();
  for (size_t i = 0; i < made.size(); ++i) {
    std::string name = "result" + std::to_string(i);
    if (DictionaryAttr given = hloAttributesAt(function, "res_attrs", i))
      if (auto info = given.getAs<StringAttr>("jax.result_info");
          info && !info.empty())
        name = info.str();
    main.setResultAttr(i, "ts.name", b.getStringAttr(distinct(name, taken)));
    if (isComplex[i])
      main.setResultAttr(i, ts::kComplex, b.getUnitAttr());
  }
  return result;
}

Expected<OwningOpRef<ModuleOp>> HloImporter::run(ModuleOp program) {
  TRY(checkModule(program));
  Operation *main = functions.lookup("main");
  if (!main || main->getNumRegions() != 1 || !main->getRegion(0).hasOneBlock())
    return damagedFile("there is no function main");
  ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> result, importMain(main, program));
  valueCache.clear();
  for (auto function : (result)->getOps<func::FuncOp>())
    for (Operation &op : llvm::make_early_inc_range(
             llvm::reverse(function.getBody().front().getOperations())))
      if (isOpTriviallyDead(&op))
        op.erase();
  (result)->getOperation()->setAttr("ts.symbols", symbolsAttr());
  if (devices > 1)
    (result)->getOperation()->setAttr("ts.devices",
                                      b.getI64IntegerAttr(devices));
  diagnostic.clear();
  if (mlir::failed(verify(*result)))
    return internalError("the imported program is not valid: " + diagnostic,
                         "StableHLO front end");
  return result;
}

} // namespace knapper
