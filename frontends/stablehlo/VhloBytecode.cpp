// The types and attributes that StableHLO keeps in bytecode.
#include "frontends/stablehlo/VhloBytecode.h"
#include "frontends/stablehlo/Vhlo.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace knapper {
namespace {

class VhloBytecode : public BytecodeDialectInterface {
public:
  VhloBytecode(Dialect *dialect, const char *const *begin)
      : BytecodeDialectInterface(dialect), begin(begin) {}

  Type readType(DialectBytecodeReader &reader) const override;
  Attribute readAttribute(DialectBytecodeReader &reader) const override;

private:
  Type readTensor(DialectBytecodeReader &reader) const;
  Type readFunction(DialectBytecodeReader &reader) const;
  Type readQuantised(DialectBytecodeReader &reader, bool perAxis) const;
  Attribute readData(DialectBytecodeReader &reader) const;
  Attribute readNumber(DialectBytecodeReader &reader, bool isFloat) const;
  Attribute readDictionary(DialectBytecodeReader &reader) const;

  const char *const *begin; ///< of the buffer that is read
};

class SdyBytecode : public BytecodeDialectInterface {
public:
  explicit SdyBytecode(Dialect *dialect) : BytecodeDialectInterface(dialect) {}

  Attribute readAttribute(DialectBytecodeReader &reader) const override;
  std::unique_ptr<DialectVersion>
  readVersion(DialectBytecodeReader &reader) const override;
};

/// A count, then as many values. MLIR's own lists reserve what the count says.
template <typename T, typename Read>
LogicalResult readList(DialectBytecodeReader &reader, SmallVectorImpl<T> &list,
                       Read read) {
  uint64_t count = 0;
  if (failed(reader.readVarInt(count)))
    return failure();
  for (uint64_t i = 0; i < count; ++i) {
    T value{};
    if (failed(read(value)))
      return failure();
    list.push_back(std::move(value));
  }
  return mlir::success();
}

LogicalResult readTypes(DialectBytecodeReader &reader,
                        SmallVector<Type> &types) {
  return readList(reader, types,
                  [&](Type &type) { return reader.readType(type); });
}

LogicalResult readAttributes(DialectBytecodeReader &reader,
                             SmallVector<Attribute> &attributes) {
  return readList(reader, attributes, [&](Attribute &attribute) {
    return reader.readAttribute(attribute);
  });
}

LogicalResult readIntegers(DialectBytecodeReader &reader,
                           SmallVector<int64_t> &numbers) {
  return readList(reader, numbers, [&](int64_t &number) {
    return reader.readSignedVarInt(number);
  });
}

/// Reads values of the kinds that `format` lists: a attribute, A list of them,
/// s signed, S list of them, t text, o attribute or none, b byte, f varint with
/// a flag, v varint, w varint and an attribute where it is not 0, d double.
/// Appends them to `fields`: numbers that are dropped by all who ask, and what
/// is absent, as units.
LogicalResult readFields(DialectBytecodeReader &reader, StringRef format,
                         SmallVectorImpl<Attribute> &fields) {
  Builder b(reader.getContext());
  for (char kind : format) {
    Attribute attribute;
    SmallVector<Attribute> attributes;
    int64_t number = 0;
    uint64_t count = 0;
    SmallVector<int64_t> numbers;
    StringRef text;
    bool flag = false;
    LogicalResult read = failure();
    switch (kind) {
    case 'a':
      read = reader.readAttribute(attribute);
      break;
    case 'A':
      read = readAttributes(reader, attributes);
      attribute = b.getArrayAttr(attributes);
      break;
    case 's':
      read = reader.readSignedVarInt(number);
      attribute = b.getI64IntegerAttr(number);
      break;
    case 'S':
      read = readIntegers(reader, numbers);
      attribute = b.getDenseI64ArrayAttr(numbers);
      break;
    case 't':
      read = reader.readString(text);
      attribute = b.getStringAttr(text);
      break;
    case 'o':
      read = reader.readOptionalAttribute(attribute);
      break;
    case 'b':
      read = reader.readBool(flag);
      attribute = b.getBoolAttr(flag);
      break;
    case 'f':
      read = reader.readVarIntWithFlag(count, flag);
      break;
    case 'v':
      read = reader.readVarInt(count);
      break;
    case 'w':
      read = reader.readVarInt(count);
      if (succeeded(read) && count != 0)
        read = reader.readAttribute(attribute);
      break;
    case 'd':
      read = reader.readAPFloatWithKnownSemantics(APFloat::IEEEdouble());
      break;
    default:
      break;
    }
    if (failed(read))
      return failure();
    fields.push_back(attribute ? attribute : b.getUnitAttr());
  }
  return mlir::success();
}

LogicalResult skip(DialectBytecodeReader &reader, StringRef format) {
  SmallVector<Attribute> fields;
  return readFields(reader, format, fields);
}

bool isElement(Type type) {
  if (auto complex = dyn_cast_if_present<ComplexType>(type))
    type = complex.getElementType();
  return isa_and_present<IntegerType, FloatType, IndexType,
                         quant::QuantizedType>(type);
}

Type VhloBytecode::readTensor(DialectBytecodeReader &reader) const {
  SmallVector<int64_t> shape;
  Type element;
  if (failed(readIntegers(reader, shape)) || failed(reader.readType(element)))
    return {};
  // What has no counterpart is refused where it is used.
  if (!isElement(element))
    return NoneType::get(getContext());
  double count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 && !ShapedType::isDynamic(dim))
      return reader.emitError("a dim of a tensor type is negative"), Type();
    count *= ShapedType::isDynamic(dim) ? 1 : std::max<double>(1, dim);
  }
  if (shape.size() > 32 || count > 1e14)
    return reader.emitError("a tensor type is too large"), Type();
  return RankedTensorType::get(shape, element);
}

Type VhloBytecode::readFunction(DialectBytecodeReader &reader) const {
  SmallVector<Type> inputs, results;
  if (failed(readTypes(reader, inputs)) || failed(readTypes(reader, results)))
    return {};
  return FunctionType::get(getContext(), inputs, results);
}

Type VhloBytecode::readQuantised(DialectBytecodeReader &reader,
                                 bool perAxis) const {
  Type storage, expressed;
  uint64_t flags = 0, axis = 0;
  int64_t zero = 0, least = 0, most = 0;
  auto readReal = [&](double &value) -> LogicalResult {
    FailureOr<APFloat> read =
        reader.readAPFloatWithKnownSemantics(APFloat::IEEEdouble());
    if (failed(read))
      return failure();
    value = read->convertToDouble();
    return mlir::success();
  };
  double scale = 0;
  SmallVector<double> scales;
  SmallVector<int64_t> zeros;
  if (failed(reader.readVarInt(flags)) || failed(reader.readType(storage)) ||
      failed(reader.readType(expressed)))
    return {};
  bool read = perAxis ? succeeded(reader.readVarInt(axis)) &&
                            succeeded(reader.readSignedVarInt(least)) &&
                            succeeded(reader.readSignedVarInt(most)) &&
                            succeeded(readList(reader, scales, readReal)) &&
                            succeeded(readIntegers(reader, zeros))
                      : succeeded(readReal(scale)) &&
                            succeeded(reader.readSignedVarInt(zero)) &&
                            succeeded(reader.readSignedVarInt(least)) &&
                            succeeded(reader.readSignedVarInt(most));
  if (!read)
    return {};
  auto wrong = [&] { return reader.emitError("a quantised type: "); };
  if (flags > quant::QuantizationFlags::Signed || axis > 32 ||
      (perAxis && scales.size() != zeros.size()))
    return wrong() << "its parameters do not fit", Type();
  if (perAxis)
    return quant::UniformQuantizedPerAxisType::getChecked(
        wrong, flags, storage, expressed, scales, zeros,
        static_cast<int32_t>(axis), least, most);
  return quant::UniformQuantizedType::getChecked(
      wrong, flags, storage, expressed, scale, zero, least, most);
}

Type VhloBytecode::readType(DialectBytecodeReader &reader) const {
  Builder b(getContext());
  MLIRContext *context = getContext();
  uint64_t code = 0;
  if (failed(reader.readVarInt(code)))
    return {};
  constexpr unsigned widths[] = {4, 8, 16, 32, 64};
  if (code >= 10 && code <= 14)
    return b.getIntegerType(widths[code - 10]);
  if (code >= 15 && code <= 19)
    return b.getIntegerType(widths[code - 15], /*isSigned=*/false);
  switch (code) {
  case 0:
    return b.getI1Type();
  case 1: {
    Type element;
    if (failed(reader.readType(element)))
      return {};
    if (!isa_and_present<FloatType>(element))
      return reader.emitError("a complex type is not of floats"), Type();
    return ComplexType::get(element);
  }
  case 2:
    return b.getBF16Type();
  case 3:
    return b.getF16Type();
  case 4:
    return b.getF32Type();
  case 5:
    return b.getF64Type();
  case 6:
    return Float8E4M3FNType::get(context);
  case 7:
    return Float8E5M2Type::get(context);
  case 8:
    return readFunction(reader);
  case 9:
    return b.getIndexType();
  case 20:
    return readTensor(reader);
  case 21: {
    Attribute encoding;
    return failed(reader.readAttribute(encoding)) ? Type() : readTensor(reader);
  }
  case 23: {
    SmallVector<Type> types;
    return failed(readTypes(reader, types)) ? Type()
                                            : TupleType::get(context, types);
  }
  case 24:
    return readQuantised(reader, /*perAxis=*/false);
  case 25: {
    Type element;
    return failed(reader.readType(element)) ? Type() : NoneType::get(context);
  }
  case 22: // isHloToken
    return TupleType::get(context);
  case 26:
  case 33:
    return NoneType::get(context);
  case 27:
    return Float8E4M3FNUZType::get(context);
  case 28:
    return Float8E5M2FNUZType::get(context);
  case 29:
    return Float8E4M3B11FNUZType::get(context);
  case 30:
    return readQuantised(reader, /*perAxis=*/true);
  case 31:
    return b.getIntegerType(2);
  case 32:
    return b.getIntegerType(2, /*isSigned=*/false);
  case 34:
    return FloatTF32Type::get(context);
  case 35:
    return Float8E4M3Type::get(context);
  case 36:
    return Float8E3M4Type::get(context);
  case 37:
    return Float4E2M1FNType::get(context);
  case 38:
    return Float6E2M3FNType::get(context);
  case 39:
    return Float6E3M2FNType::get(context);
  case 40:
    return Float8E8M0FNUType::get(context);
  default:
    reader.emitError("type ") << code << " of vhlo is not known";
    return {};
  }
}

Attribute VhloBytecode::readNumber(DialectBytecodeReader &reader,
                                   bool isFloat) const {
  Type type;
  if (failed(reader.readType(type)))
    return {};
  if (isFloat) {
    auto floating = dyn_cast<FloatType>(type);
    if (!floating)
      return reader.emitError("a float has a type that is none"), Attribute();
    FailureOr<APFloat> value =
        reader.readAPFloatWithKnownSemantics(floating.getFloatSemantics());
    return failed(value) ? Attribute() : FloatAttr::get(type, *value);
  }
  if (!isa<IntegerType, IndexType>(type))
    return reader.emitError("an integer has a type that is none"), Attribute();
  FailureOr<APInt> value = reader.readAPIntWithKnownWidth(
      type.isIndex() ? 64 : type.getIntOrFloatBitWidth());
  return failed(value) ? Attribute() : IntegerAttr::get(type, *value);
}

Attribute VhloBytecode::readDictionary(DialectBytecodeReader &reader) const {
  using Entry = std::pair<Attribute, Attribute>;
  SmallVector<Entry> entries;
  if (failed(readList(reader, entries, [&](Entry &entry) {
        return mlir::success(succeeded(reader.readAttribute(entry.first)) &&
                             succeeded(reader.readAttribute(entry.second)));
      })))
    return {};
  NamedAttrList list;
  for (auto [name, value] : entries) {
    auto text = dyn_cast<StringAttr>(name);
    if (!text || text.empty())
      return reader.emitError("a dictionary's name is no text"), Attribute();
    list.set(text, value);
  }
  return list.getDictionary(getContext());
}

Attribute VhloBytecode::readData(DialectBytecodeReader &reader) const {
  Type type;
  ArrayRef<char> blob;
  if (failed(reader.readType(type)) || failed(reader.readBlob(blob)))
    return {};
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return reader.emitError("the type of a constant is no tensor of numbers"),
           Attribute();
  bool splat = false;
  if (!DenseElementsAttr::isValidRawBuffer(tensor, blob, splat))
    return reader.emitError("a constant has not as many bytes as its type"),
           Attribute();
  // Booleans are packed, eight to a byte; they take a byte each later.
  size_t each = tensor.getElementType().isInteger(1) ? 8 : 1;
  if (splat || blob.size() * each <= hloLargestConstant)
    return DenseElementsAttr::getFromRawBuffer(tensor, blob);
  Builder b(getContext());
  return b.getDictionaryAttr(
      {b.getNamedAttr("type", TypeAttr::get(tensor)),
       b.getNamedAttr("offset", b.getI64IntegerAttr(blob.data() - *begin)),
       b.getNamedAttr("bytes",
                      b.getI64IntegerAttr(static_cast<int64_t>(blob.size())))});
}

Attribute VhloBytecode::readAttribute(DialectBytecodeReader &reader) const {
  Builder b(getContext());
  uint64_t code = 0;
  if (failed(reader.readVarInt(code)))
    return {};
  auto enumeration = [&](ArrayRef<StringRef> names) -> Attribute {
    uint64_t value = 0;
    if (failed(reader.readVarInt(value)))
      return {};
    if (value >= names.size())
      return reader.emitError("an enumeration has no value ") << value,
             Attribute();
    return b.getStringAttr(names[value]);
  };
  auto dropped = [&](StringRef format) -> Attribute {
    return failed(skip(reader, format)) ? Attribute() : b.getUnitAttr();
  };
  auto kept = [&](StringRef format) -> Attribute {
    SmallVector<Attribute> fields{
        b.getI64IntegerAttr(static_cast<int64_t>(code))};
    return failed(readFields(reader, format, fields)) ? Attribute()
                                                      : b.getArrayAttr(fields);
  };
  switch (code) {
  case 1: {
    SmallVector<Attribute> values;
    return failed(readAttributes(reader, values)) ? Attribute()
                                                  : b.getArrayAttr(values);
  }
  case 2: {
    uint64_t value = 0;
    return failed(reader.readVarInt(value)) ? Attribute()
                                            : b.getBoolAttr(value != 0);
  }
  case 3:
    return enumeration({"EQ", "NE", "GE", "GT", "LE", "LT"});
  case 4:
    return enumeration({"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"});
  case 6:
    return readDictionary(reader);
  case 7:
    return enumeration({"FFT", "IFFT", "RFFT", "IRFFT"});
  case 8:
    return readNumber(reader, /*isFloat=*/true);
  case 9:
    return readNumber(reader, /*isFloat=*/false);
  case 10:
    return dropped("SsS");
  case 14: {
    StringRef text;
    return failed(reader.readString(text)) ? Attribute()
                                           : b.getStringAttr(text);
  }
  case 15:
    return readData(reader);
  case 16:
    return enumeration({"", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"});
  case 17: {
    Type type;
    return failed(reader.readType(type)) ? Attribute() : TypeAttr::get(type);
  }
  case 18:
    return dropped("S");
  case 20:
    return dropped("ddsa");
  case 21:
    return kept("ss");
  case 22:
    return kept("aw");
  case 23:
    return kept("aa");
  case 24:
    return kept("as");
  case 12:
    return enumeration({"DEFAULT", "THREE_FRY", "PHILOX"});
  case 13:
    return enumeration({"", "UNIFORM", "NORMAL"});
  case 5:
  case 11:
  case 19: {
    uint64_t value = 0;
    if (failed(reader.readVarInt(value)))
      return {};
    return b.getI64IntegerAttr(static_cast<int64_t>(value));
  }
  default:
    reader.emitError("attribute ") << code << " of vhlo is not known";
    return {};
  }
}

//===----------------------------------------------------------------------===//
// sdy
//===----------------------------------------------------------------------===//

Attribute SdyBytecode::readAttribute(DialectBytecodeReader &reader) const {
  static constexpr StringRef formats[] = {
      "A", "ts",       "AS", "ss", "to",  "Abf", "aAA",  "A", "S",
      "A", "SAASSSSb", "A",  "A",  "Ass", "A",   "aAAA", "A", "aAAAs"};
  uint64_t code = 0;
  if (failed(reader.readVarInt(code)))
    return {};
  if (code >= std::size(formats)) {
    reader.emitError("attribute ") << code << " of sdy is not known";
    return {};
  }
  Builder b(getContext());
  SmallVector<Attribute> fields{
      b.getI64IntegerAttr(static_cast<int64_t>(code))};
  if (failed(readFields(reader, formats[code], fields)))
    return {};
  return b.getArrayAttr(fields);
}

struct SdyVersion : DialectVersion {};

std::unique_ptr<DialectVersion>
SdyBytecode::readVersion(DialectBytecodeReader &reader) const {
  if (failed(skip(reader, "vvv")))
    return nullptr;
  return std::make_unique<SdyVersion>();
}

} // namespace

std::unique_ptr<BytecodeDialectInterface>
makeVhloBytecode(Dialect *dialect, const char *const *begin) {
  return std::make_unique<VhloBytecode>(dialect, begin);
}

std::unique_ptr<BytecodeDialectInterface> makeSdyBytecode(Dialect *dialect) {
  return std::make_unique<SdyBytecode>(dialect);
}

} // namespace knapper
