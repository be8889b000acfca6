#include "frontends/stablehlo/HloWriter.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {

std::string hloList(ArrayRef<int64_t> values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string hloArray(ArrayRef<int64_t> values) {
  std::string text = "array<i64";
  for (auto [i, value] : llvm::enumerate(values))
    text += (i ? ", " : ": ") + std::to_string(value);
  return text + ">";
}

SmallVector<int64_t> hloNumbers(ArrayAttr dims) {
  SmallVector<int64_t> numbers;
  for (ts::Dim dim : ts::dimsOf(dims))
    numbers.push_back(dim.asConstant().value_or(0));
  return numbers;
}

static std::string asText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Between quotes: StableHLO's reader takes MLIR's escapes.
static std::string quoted(StringRef text) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << '"';
  llvm::printEscapedString(text, stream);
  stream << '"';
  return out;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void HloWriter::line(const std::string &content) {
  text.append(2 * depth, ' ');
  text += content + "\n";
}

HloText HloWriter::of(Value value) {
  auto found = values.find(value);
  if (found != values.end())
    return found->second;
  return {"%missing", cast<RankedTensorType>(value.getType())};
}

void HloWriter::out(Operation *op, HloText value, unsigned result) {
  values[op->getResult(result)] = std::move(value);
}

void HloWriter::refuse(Operation *op, const Twine &reason) {
  std::string said = op->getName().getStringRef().str();
  if (auto name = dyn_cast<NameLoc>(op->getLoc()))
    said += " of '" + name.getName().str() + "'";
  missing.push_back(said + ": " + reason.str());
}

SmallVector<HloText> HloWriter::makeSeveral(StringRef op,
                                            ArrayRef<HloText> operands,
                                            ArrayRef<Type> types,
                                            const std::string &attributes,
                                            const std::string &region) {
  std::string name = fresh(), given, of, made;
  for (const HloText &operand : operands) {
    given += (given.empty() ? "" : ", ") + operand.name;
    of += (of.empty() ? "" : ", ") + asText(operand.type);
  }
  SmallVector<HloText> results;
  for (auto [i, type] : llvm::enumerate(types)) {
    made += (made.empty() ? "" : ", ") + asText(type);
    results.push_back(
        {types.size() == 1 ? name : name + "#" + std::to_string(i),
         cast<RankedTensorType>(type)});
  }
  line(name + (types.size() == 1 ? "" : ":" + std::to_string(types.size())) +
       " = \"stablehlo." + op.str() + "\"(" + given + ")" +
       (attributes.empty() ? "" : " <{" + attributes + "}>") +
       (region.empty() ? "" : " " + region) + " : (" + of + ") -> " +
       (types.size() == 1 ? made : "(" + made + ")"));
  return results;
}

HloText HloWriter::make(StringRef op, ArrayRef<HloText> operands, Type type,
                        const std::string &attributes,
                        const std::string &region) {
  return makeSeveral(op, operands, type, attributes, region)[0];
}

std::string
HloWriter::region(ArrayRef<Type> elements,
                  function_ref<SmallVector<HloText>(ArrayRef<HloText>)> build) {
  std::string outer;
  std::swap(outer, text);
  SmallVector<HloText> arguments;
  std::string head;
  for (Type element : elements) {
    arguments.push_back({fresh(), RankedTensorType::get({}, element)});
    head += (head.empty() ? "" : ", ") + arguments.back().name + ": " +
            asText(arguments.back().type);
  }
  ++depth;
  std::string given, types;
  for (const HloText &each : build(arguments)) {
    given += (given.empty() ? "" : ", ") + each.name;
    types += (types.empty() ? "" : ", ") + asText(each.type);
  }
  line("\"stablehlo.return\"(" + given + ") : (" + types + ") -> ()");
  --depth;
  std::swap(outer, text);
  return "({\n" + std::string(2 * depth, ' ') + "^bb0(" + head + "):\n" +
         outer + std::string(2 * depth, ' ') + "})";
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

HloText HloWriter::constant(RankedTensorType type, StringRef bytes) {
  std::string data;
  if (type.getNumElements() == 0) {
    data = "dense<>";
  } else if (type.getElementType().isInteger(1)) { // packed by some versions
    std::string list;
    for (char byte : bytes)
      list += (list.empty() ? "" : ", ") + std::string(byte ? "true" : "false");
    HloText flat = {fresh(), RankedTensorType::get({type.getNumElements()},
                                                   type.getElementType())};
    line(flat.name + " = \"stablehlo.constant\"() <{value = dense<[" + list +
         "]> : " + asText(flat.type) + "}> : () -> " + asText(flat.type));
    return reshape(flat, type.getShape());
  } else {
    data = "dense<\"0x" + llvm::toHex(bytes) + "\">";
  }
  std::string of = asText(type), name = fresh();
  line(name + " = \"stablehlo.constant\"() <{value = " + data + " : " + of +
       "}> : () -> " + of);
  return {name, type};
}

HloText HloWriter::constant(DenseElementsAttr data) {
  auto type = cast<RankedTensorType>(data.getType());
  if (data.isSplat() || type.getNumElements() <= 16 ||
      type.getElementType().isInteger(1)) {
    if (!data.isSplat() && type.getElementType().isInteger(1)) {
      std::string bytes;
      for (bool each : data.getValues<bool>())
        bytes.push_back(each ? 1 : 0);
      return constant(type, bytes);
    }
    std::string value, name = fresh();
    llvm::raw_string_ostream(value) << Attribute(data);
    line(name + " = \"stablehlo.constant\"() <{value = " + value +
         "}> : () -> " + asText(type));
    return {name, type};
  }
  ArrayRef<char> raw = data.getRawData();
  return constant(type, StringRef(raw.data(), raw.size()));
}

HloText HloWriter::splat(double number, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  Attribute value;
  if (isa<FloatType>(element))
    value = FloatAttr::get(element, number);
  else
    value = IntegerAttr::get(
        element, APInt(element.getIntOrFloatBitWidth(),
                       static_cast<uint64_t>(static_cast<int64_t>(number)),
                       /*isSigned=*/false, /*implicitTrunc=*/true));
  return constant(DenseElementsAttr::get(tensor, value));
}

StringRef HloWriter::bytesOf(ts::WeightOp op) {
  ts::WeightAttr at = op.getReference();
  StringRef whole;
  if (at.getFile() < buffers.files.size())
    whole = buffers.files[at.getFile()].data;
  if (whole.empty() && at.getFile() < files.size()) {
    opened.resize(std::max(opened.size(), files.size()));
    std::unique_ptr<llvm::MemoryBuffer> &file = opened[at.getFile()];
    if (!file)
      if (auto read =
              llvm::MemoryBuffer::getFile(files[at.getFile()], /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false))
        file = std::move(*read);
    if (file)
      whole = file->getBuffer();
  }
  if (at.getOffset() > whole.size() ||
      at.getBytes() > whole.size() - at.getOffset()) {
    refuse(op, "its data cannot be read");
    return {};
  }
  return whole.substr(at.getOffset(), at.getBytes());
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

HloText HloWriter::convert(HloText x, Type element) {
  return x.type.getElementType() == element
             ? x
             : make("convert", {x}, x.type.clone(element));
}

HloText HloWriter::compare(StringRef direction, HloText x, HloText y) {
  Type element = x.type.getElementType();
  StringRef kind = isa<FloatType>(element) ? "FLOAT"
                   : element.isUnsignedInteger() || element.isInteger(1)
                       ? "UNSIGNED"
                       : "SIGNED";
  return make("compare", {x, y},
              x.type.clone(IntegerType::get(element.getContext(), 1)),
              ("comparison_direction = #stablehlo<comparison_direction " +
               direction + ">, compare_type = #stablehlo<comparison_type " +
               kind + ">")
                  .str());
}

HloText HloWriter::select(HloText condition, HloText x, HloText y) {
  return make("select", {condition, x, y}, x.type);
}

HloText HloWriter::reshape(HloText x, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, x.type.getElementType());
  return type == x.type ? x : make("reshape", {x}, type);
}

HloText HloWriter::broadcast(HloText x, ArrayRef<int64_t> dims,
                             ArrayRef<int64_t> shape) {
  return make("broadcast_in_dim", {x},
              RankedTensorType::get(shape, x.type.getElementType()),
              "broadcast_dimensions = " + hloArray(dims));
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

const HloWriterRow *findHloWriterRow(StringRef name) {
  for (ArrayRef<HloWriterRow> rows :
       {hloElementWriters(), hloShapeWriters(), hloReductionWriters()})
    for (const HloWriterRow &row : rows)
      if (name == row.name)
        return &row;
  return nullptr;
}

static bool isWritable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         tensor.getElementType().isIntOrFloat();
}

Expected<std::string> HloWriter::write(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !main.getBody().hasOneBlock())
    return userError("there is no function main", "the model");
  for (Type type : main.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && !tensor.hasStaticShape())
      return userError("input " + ts::shapeText(type) +
                           " has a size that only a run knows",
                       "the model", "give every size a number: --dim batch=1");
  if (auto named = module->getAttrOfType<ArrayAttr>("ts.files"))
    for (Attribute each : named)
      files.push_back(cast<StringAttr>(each).str());
  ts::decomposeAll(main.getBody(), [](Operation *) { return true; });
  Block &block = main.getBody().front();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(block.getOperations())))
    if (isOpTriviallyDead(&op))
      op.erase();
  std::string head, results;
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    if (!isWritable(argument.getType()))
      return userError("input " + std::to_string(i) +
                           " is no tensor of numbers",
                       "the model");
    std::string name = "%arg" + std::to_string(i);
    values[argument] = {name, cast<RankedTensorType>(argument.getType())};
    auto called = main.getArgAttrOfType<StringAttr>(i, "ts.name");
    head += (head.empty() ? "" : ", ") + name + ": " +
            asText(argument.getType()) +
            (called ? " loc(" + quoted(called.getValue()) + ")" : "");
  }
  for (Operation &op : block.without_terminator()) {
    const HloWriterRow *row =
        op.getDialect() == nullptr
            ? nullptr
            : findHloWriterRow(op.getName().stripDialect());
    bool numbers = llvm::all_of(op.getResultTypes(), isWritable);
    size_t before = missing.size();
    if (!row)
      refuse(&op, "StableHLO has no spelling for it here");
    else if (!numbers)
      refuse(&op, "a size that only a run knows, or elements that are no "
                  "numbers");
    else
      row->write(*this, &op);
    if (missing.size() != before)
      for (Value result : op.getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()))
          values.try_emplace(result, HloText{"%missing", type});
  }
  if (!missing.empty()) {
    std::string all = "the model cannot be written as StableHLO:";
    for (const std::string &each : missing)
      all += "\n  " + each;
    return userError(all, "the model", "docs/jax.md says what can be written");
  }
  std::string given, types;
  for (auto [i, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    HloText result = of(value);
    auto called = main.getResultAttrOfType<StringAttr>(i, "ts.name");
    given += (given.empty() ? "" : ", ") + result.name;
    types += (types.empty() ? "" : ", ") + asText(result.type);
    results +=
        (results.empty() ? "" : ", ") + asText(result.type) +
        (called ? " {jax.result_info = " + quoted(called.getValue()) + "}"
                : "");
  }
  line("return" + (given.empty() ? "" : " " + given + " : " + types));
  return "module {\n  func.func public @main(" + head + ") -> (" + results +
         ") {\n" + text + "  }\n}\n";
}

} // namespace knapper
