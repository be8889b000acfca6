#include "ir/tensor/Dialect.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/Heroes.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/Recurrence.h"
#include "ir/tensor/ScaledDot.h"
#include "ir/tensor/DataSelection.h"
#include "ir/tensor/Fourier.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#include "ir/tensor/Dialect.cpp.inc"
#include "ir/tensor/Enums.cpp.inc"
#include "ir/tensor/Interfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/tensor/Attributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tensor/Types.cpp.inc"

void TsDialect::initialize() {
  registerTsDialectOperations(this);
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/ScaledDot.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/PackedDot.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/PagedAttention.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/GroupedMatmul.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/Recurrence.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/DataSelection.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tensor/Fourier.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/tensor/Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/tensor/Types.cpp.inc"
      >();
  attachHeroes(getContext());
}

Operation *TsDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location location) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, location, elements);
}

//===----------------------------------------------------------------------===//
// Attributes in text
//===----------------------------------------------------------------------===//

/// A size inside an attribute: a number, or an expression in quotes.
static FailureOr<DimAttr> parseSize(AsmParser &parser) {
  SMLoc location = parser.getCurrentLocation();
  int64_t number;
  OptionalParseResult result = parser.parseOptionalInteger(number);
  if (result.has_value()) {
    if (failed(*result))
      return failure();
    return Dim::constant(parser.getContext(), number).attr();
  }
  std::string text;
  if (failed(parser.parseString(&text)))
    return failure();
  std::optional<Dim> dim = parseDim(parser.getContext(), text);
  if (!dim) {
    parser.emitError(location, "'" + text + "' is not a size expression");
    return failure();
  }
  return dim->attr();
}

static void printSize(AsmPrinter &printer, Dim dim) {
  if (std::optional<int64_t> number = dim.asConstant())
    printer << *number;
  else
    printer.printString(dim.str());
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (failed(parser.parseLess()))
    return {};
  FailureOr<DimAttr> dim = parseSize(parser);
  if (failed(dim) || failed(parser.parseGreater()))
    return {};
  return *dim;
}
void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSize(printer, Dim(*this));
  printer << ">";
}

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  if (failed(parser.parseCommaSeparatedList(
          AsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
            FailureOr<DimAttr> dim = parseSize(parser);
            if (failed(dim))
              return failure();
            dims.push_back(*dim);
            return success();
          })))
    return {};
  return DimsAttr::get(parser.getContext(), dims);
}
void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getDims(), printer,
                        [&](DimAttr dim) { printSize(printer, Dim(dim)); });
  printer << ">";
}

LogicalResult
DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                         function_ref<InFlightDiagnostic()> emitError) const {
  if (getDims().size() != shape.size())
    return emitError() << "(C1) " << getDims().size() << " sizes for rank "
                       << shape.size();
  bool symbolic = false;
  for (auto [size, dim] : llvm::zip(shape, getDims())) {
    std::optional<int64_t> number = Dim(dim).asConstant();
    symbolic |= !number;
    if (number ? *number != size : !ShapedType::isDynamic(size))
      return emitError() << "(C1) size " << Dim(dim).str()
                         << " does not agree with the shape";
  }
  if (!symbolic)
    return emitError() << "(C1) a static tensor carries no sizes";
  return success();
}
