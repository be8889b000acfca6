// Attributes of StableHLO in text, and how bytecode spells them.
#include "frontends/stablehlo/HloTextForms.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace knapper {

Attribute hloIntegers(Builder &b, ArrayRef<int64_t> values) {
  return DenseElementsAttr::get(
      RankedTensorType::get({static_cast<int64_t>(values.size())},
                            b.getI64Type()),
      values);
}

static Attribute flagsOf(Builder &b, ArrayRef<bool> values) {
  return DenseElementsAttr::get(
      RankedTensorType::get({static_cast<int64_t>(values.size())},
                            b.getI1Type()),
      values);
}

/// An integer, a list of them, a word, a type, another attribute.
static FailureOr<Attribute> parseValue(AsmParser &parser) {
  Builder &b = parser.getBuilder();
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<int64_t> values;
    SmallVector<Attribute> others;
    if (succeeded(parser.parseOptionalRSquare()))
      return hloIntegers(b, {});
    do {
      int64_t number = 0;
      OptionalParseResult integer = parser.parseOptionalInteger(number);
      if (integer.has_value()) {
        if (failed(*integer))
          return failure();
        values.push_back(number);
        continue;
      }
      FailureOr<Attribute> other = parseValue(parser);
      if (failed(other))
        return failure();
      others.push_back(*other);
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRSquare())
      return failure();
    return others.empty() ? hloIntegers(b, values)
                          : Attribute(b.getArrayAttr(others));
  }
  int64_t number = 0;
  OptionalParseResult integer = parser.parseOptionalInteger(number);
  if (integer.has_value())
    return failed(*integer) ? FailureOr<Attribute>()
                            : FailureOr<Attribute>(b.getI64IntegerAttr(number));
  for (StringRef flag : {"true", "false"})
    if (succeeded(parser.parseOptionalKeyword(flag)))
      return Attribute(b.getBoolAttr(flag == "true"));
  Type type;
  OptionalParseResult isType = parser.parseOptionalType(type);
  if (isType.has_value())
    return failed(*isType) ? FailureOr<Attribute>()
                           : FailureOr<Attribute>(TypeAttr::get(type));
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word)))
    return Attribute(b.getStringAttr(word));
  Attribute other;
  if (parser.parseAttribute(other))
    return failure();
  return other;
}

FailureOr<DictionaryAttr> parseHloStruct(AsmParser &parser) {
  NamedAttrList fields;
  if (succeeded(parser.parseOptionalGreater()))
    return fields.getDictionary(parser.getContext());
  do {
    StringRef key;
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return failure();
    FailureOr<Attribute> value = parseValue(parser);
    if (failed(value))
      return failure();
    fields.set(key, *value);
  } while (succeeded(parser.parseOptionalComma()));
  if (parser.parseGreater())
    return failure();
  return fields.getDictionary(parser.getContext());
}

ParseResult parseHloConvolutionDims(AsmParser &parser,
                                    NamedAttrList &attributes) {
  Builder &b = parser.getBuilder();
  struct Side {
    StringRef first, second, spatial;
    StringRef firstName, secondName;
  };
  constexpr Side sides[] = {
      {"b", "f", "input_spatial_dimensions", "input_batch_dimension",
       "input_feature_dimension"},
      {"i", "o", "kernel_spatial_dimensions", "kernel_input_feature_dimension",
       "kernel_output_feature_dimension"},
      {"b", "f", "output_spatial_dimensions", "output_batch_dimension",
       "output_feature_dimension"}};
  for (const Side &side : sides) {
    if (&side == &sides[1] && parser.parseKeyword("x"))
      return failure();
    if (&side == &sides[2] && parser.parseArrow())
      return failure();
    SmallVector<std::pair<int64_t, int64_t>> spatial; // number, place
    int64_t at = 0, first = -1, second = -1;
    auto entry = [&]() -> ParseResult {
      int64_t number = 0;
      OptionalParseResult integer = parser.parseOptionalInteger(number);
      if (integer.has_value()) {
        spatial.emplace_back(number, at++);
        return *integer;
      }
      if (succeeded(parser.parseOptionalQuestion())) { // a dim of no meaning
        ++at;
        return mlir::success();
      }
      StringRef word;
      if (parser.parseKeyword(&word))
        return failure();
      if (word != side.first && word != side.second)
        return parser.emitError(parser.getCurrentLocation(),
                                "'" + word + "' is no dim of a convolution");
      (word == side.first ? first : second) = at++;
      return mlir::success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, entry))
      return failure();
    llvm::sort(spatial);
    SmallVector<int64_t> places;
    for (auto [number, place] : spatial)
      places.push_back(place);
    attributes.set(side.firstName, b.getI64IntegerAttr(first));
    attributes.set(side.secondName, b.getI64IntegerAttr(second));
    attributes.set(side.spatial, hloIntegers(b, places));
  }
  return mlir::success();
}

Attribute parseHloAttribute(DialectAsmParser &parser) {
  Builder &b = parser.getBuilder();
  StringRef kind, word;
  if (parser.parseKeyword(&kind))
    return {};
  // #stablehlo<precision DEFAULT>
  if (succeeded(parser.parseOptionalKeyword(&word)))
    return b.getStringAttr(word);
  if (parser.parseOptionalLess())
    return b.getUnitAttr();
  if (kind == "conv") {
    NamedAttrList dims;
    if (succeeded(parser.parseOptionalKeyword("raw"))) {
      FailureOr<DictionaryAttr> raw = parseHloStruct(parser);
      return failed(raw) ? Attribute() : Attribute(*raw);
    }
    return parseHloConvolutionDims(parser, dims)
               ? Attribute()
               : Attribute(dims.getDictionary(parser.getContext()));
  }
  for (StringRef known : {"dot", "gather", "scatter"})
    if (kind == known) {
      FailureOr<DictionaryAttr> fields = parseHloStruct(parser);
      return failed(fields) ? Attribute() : Attribute(*fields);
    }
  return b.getUnitAttr();
}

//===----------------------------------------------------------------------===//
// Flattening
//===----------------------------------------------------------------------===//

/// Of a convolution or windows: what the project leaves out where it is usual.
static void giveDefaults(Operation *op, StringRef kind) {
  Builder b(op->getContext());
  auto set = [&](StringRef name, Attribute value) {
    if (!op->hasAttr(name))
      op->setAttr(name, value);
  };
  auto count = [&](StringRef name) {
    auto dims = op->getAttrOfType<DenseElementsAttr>(name);
    return dims ? dims.getNumElements() : 0;
  };
  bool convolves = kind == "convolution" || kind == "dynamic_conv",
       reduces = kind == "reduce_window";
  if (convolves || reduces || kind == "select_and_scatter") {
    int64_t n =
        count(convolves ? "kernel_spatial_dimensions" : "window_dimensions");
    SmallVector<int64_t> ones(n, 1), zeros(2 * n, 0);
    set("window_strides", hloIntegers(b, ones));
    if (kind != "dynamic_conv")
      set("padding", hloIntegers(b, zeros));
    if (convolves) {
      set("lhs_dilation", hloIntegers(b, ones));
      set("rhs_dilation", hloIntegers(b, ones));
    } else if (reduces) {
      set("base_dilations", hloIntegers(b, ones));
      set("window_dilations", hloIntegers(b, ones));
    }
  }
  if (kind == "sort") // the last
    set("dimension", b.getI64IntegerAttr(-1));
  if (kind == "compare")
    set("compare_type", b.getStringAttr(""));
}

static Attribute asBytecodeHasIt(Builder &b, Attribute value) {
  if (auto list = dyn_cast<DenseI64ArrayAttr>(value))
    return hloIntegers(b, list.asArrayRef());
  if (auto list = dyn_cast<DenseBoolArrayAttr>(value))
    return flagsOf(b, list.asArrayRef());
  if (auto symbol = dyn_cast<FlatSymbolRefAttr>(value))
    return b.getStringAttr(symbol.getValue());
  return value;
}

void flattenHlo(Operation *op) {
  Builder b(op->getContext());
  StringRef kind = op->getName().stripDialect();
  NamedAttrList all(op->getDiscardableAttrDictionary());
  if (auto own =
          dyn_cast_if_present<DictionaryAttr>(op->getPropertiesAsAttribute()))
    for (NamedAttribute each : own)
      all.set(each.getName(), each.getValue());
  NamedAttrList flat;
  for (NamedAttribute each : all) {
    StringRef name = each.getName();
    auto fields = dyn_cast<DictionaryAttr>(each.getValue());
    if (fields &&
        (name == "dimension_numbers" || name == "dot_dimension_numbers" ||
         name == "scatter_dimension_numbers"))
      for (NamedAttribute field : fields)
        flat.set(field.getName(), field.getValue());
    else
      flat.set(name, asBytecodeHasIt(b, each.getValue()));
  }
  // Of gather and scatter, zero is left out.
  if ((kind == "gather" || kind == "scatter" || kind == "dynamic_gather") &&
      !flat.get("index_vector_dim"))
    flat.set("index_vector_dim", b.getI64IntegerAttr(0));
  op->setDiscardableAttrs(flat.getDictionary(op->getContext()));
  giveDefaults(op, kind);
}

} // namespace knapper
