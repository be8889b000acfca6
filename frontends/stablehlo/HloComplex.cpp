// Ops of complex numbers: each plane by itself where the op is linear or moves
// elements, else by its own formula.
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloComplexMath.h"
#include "frontends/stablehlo/HloHostCall.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

bool isHloComplex(Type type) {
  return isa<ComplexType>(getElementTypeOrSelf(type));
}

bool isHloComplex(Operation *op) {
  auto complex = [](Type type) { return isHloComplex(type); };
  return llvm::any_of(op->getOperandTypes(), complex) ||
         llvm::any_of(op->getResultTypes(), complex);
}

//===----------------------------------------------------------------------===//
// Planes
//===----------------------------------------------------------------------===//

SmallVector<int64_t> hloOwnShape(HloNode &n, size_t index) {
  SmallVector<int64_t> shape = n.shape(n[index]);
  if (!n.onPlanes && isHloComplex(n.op->getOperand(index).getType()) &&
      !shape.empty())
    shape.erase(shape.begin());
  return shape;
}

static Value planeAt(NodeBuilder &n, Value value, int64_t dim, int64_t index) {
  if (!value)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(value);
  dims.erase(dims.begin() + dim);
  return n.reshape(n.sliceDim(value, dim, n.dim(index), n.dim(1)), dims);
}

static Value joinAt(NodeBuilder &n, HloComplex planes, int64_t dim) {
  if (!planes.re || !planes.im)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(planes.re);
  dims.insert(dims.begin() + dim, n.dim(1));
  SmallVector<Value> parts{n.reshape(planes.re, dims),
                           n.reshape(planes.im, dims)};
  if (!parts[0] || !parts[1])
    return {};
  return n.make<ts::ConcatOp>(ValueRange(parts), uint64_t(dim));
}

HloComplex hloPlanes(HloNode &n, Value joined) {
  if (!joined)
    return {};
  auto known = n.importer.planes.find(joined);
  if (known != n.importer.planes.end())
    return {known->second.first, known->second.second};
  return {planeAt(n, joined, 0, 0), planeAt(n, joined, 0, 1)};
}

Value hloJoin(HloNode &n, HloComplex planes) {
  Value joined = joinAt(n, planes, 0);
  if (joined)
    n.importer.planes[joined] = {planes.re, planes.im};
  return joined;
}

Value hloLifted(HloNode &n, Value value, Type type, ArrayRef<Dim> dims) {
  int64_t own = isHloComplex(type) ? 1 : 0;
  if (!value || ts::rankOf(value) != own)
    return value;
  if (!own)
    return n.broadcastTo(value, dims);
  HloComplex planes = hloPlanes(n, value);
  return hloJoin(
      n, {n.broadcastTo(planes.re, dims), n.broadcastTo(planes.im, dims)});
}

RankedTensorType hloLiftedType(HloNode &n, Type type, RankedTensorType plain,
                               ArrayRef<Dim> dims) {
  SmallVector<Dim> all(dims);
  if (isHloComplex(type))
    all.insert(all.begin(), n.dim(2));
  return n.type(all, plain.getElementType());
}

RankedTensorType hloBorderType(Type type, std::string &problem) {
  RankedTensorType planes = hloType(type, problem);
  if (!planes || !isHloComplex(type))
    return planes;
  SmallVector<int64_t> shape(planes.getShape().drop_front());
  shape.push_back(2);
  return RankedTensorType::get(shape, planes.getElementType());
}

Value hloFromBorder(HloNode &n, Value value) {
  int64_t last = ts::rankOf(value) - 1;
  return hloJoin(n, {planeAt(n, value, last, 0), planeAt(n, value, last, 1)});
}

Value hloToBorder(HloNode &n, Value joined) {
  return joined ? joinAt(n, hloPlanes(n, joined), ts::rankOf(joined) - 1)
                : Value();
}

//===----------------------------------------------------------------------===//
// By planes
//===----------------------------------------------------------------------===//

/// What `row` makes of these operands, as if the op were of real numbers.
static SmallVector<Value> ofPlanes(HloNode &n, const HloRow &row,
                                   ArrayRef<Value> operands) {
  HloNode plane(n.importer, n.frame, n.op, n.kind, n.loc);
  plane.onPlanes = true;
  plane.operands.assign(operands.begin(), operands.end());
  return succeeded(n.importAs(row, plane))
             ? plane.results
             : SmallVector<Value>(plane.results.size());
}

static LogicalResult importByPlanes(HloNode &n, const HloRow &row) {
  SmallVector<Value> parts[2];
  for (int plane : {0, 1}) {
    SmallVector<Value> operands;
    for (auto [value, type] : llvm::zip(n.operands, n.op->getOperandTypes())) {
      HloComplex planes =
          isHloComplex(type) ? hloPlanes(n, value) : HloComplex{value, value};
      operands.push_back(plane ? planes.im : planes.re);
    }
    parts[plane] = ofPlanes(n, row, operands);
    if (n.failed())
      return failure();
  }
  for (size_t i = 0; i < n.results.size(); ++i) {
    Value result = isHloComplex(n.op->getResult(i).getType())
                       ? hloJoin(n, {parts[0][i], parts[1][i]})
                       : parts[0][i];
    if (failed(n.out(result, i)))
      return failure();
  }
  return mlir::success();
}

/// (a + bi) (c + di) of an op that is linear in both operands.
static LogicalResult importComplexMatmul(HloNode &n, const HloRow &row) {
  auto planes = [&](unsigned i) {
    return isHloComplex(n.op->getOperand(i).getType())
               ? hloPlanes(n, n[i])
               : HloComplex{n[i], Value()};
  };
  HloComplex x = planes(0), y = planes(1);
  auto of = [&](Value a, Value b) -> Value {
    if (!a || !b || n.failed())
      return {};
    return ofPlanes(n, row, {a, b})[0];
  };
  if (!x.im || !y.im)
    return n.unsupported("of real and complex operands");
  Value re = n.sub(of(x.re, y.re), of(x.im, y.im));
  Value im = n.add(of(x.re, y.im), of(x.im, y.re));
  return n.out(hloJoin(n, {re, im}));
}

/// Whether each region is one add, or of a scatter a subtraction or nothing:
/// then planes do not meet, and no row puts the region's ops in place.
static bool addsOnly(Operation *op) {
  bool scatters = hloName(op) == "scatter";
  for (unsigned i = 0; i < op->getNumRegions(); ++i)
    if (!op->getRegion(i).empty() &&
        hloCombiner(op, i) != ts::ReduceKind::add &&
        !(scatters && (hloReplaces(op, i) || hloSubtracts(op, i))))
      return false;
  return true;
}

static LogicalResult importConvert(HloNode &n) {
  Type element = n.element();
  if (!element)
    return failure();
  Value re = n[0], im;
  if (isHloComplex(n.op->getOperand(0).getType())) {
    HloComplex planes = hloPlanes(n, n[0]);
    re = planes.re;
    im = planes.im;
  }
  re = n.convert(re, element);
  if (!isHloComplex(n.op->getResult(0).getType()))
    return n.out(re);
  im = im ? n.convert(im, element) : n.splatLike(0, re);
  return n.out(hloJoin(n, {re, im}));
}

static LogicalResult importConstant(HloNode &n) {
  std::string problem;
  RankedTensorType type = hloBorderType(n.op->getResult(0).getType(), problem);
  if (!type)
    return n.unsupported(problem);
  int64_t last = type.getRank() - 1;
  auto out = [&](Value value) {
    return n.out(
        hloJoin(n, {planeAt(n, value, last, 0), planeAt(n, value, last, 1)}));
  };
  Attribute value = n.op->getAttr("value");
  if (auto data = dyn_cast_if_present<DenseElementsAttr>(value)) {
    if (data.getType() != n.op->getResult(0).getType())
      return n.damaged("has data of another type");
    ArrayRef<char> raw = data.getRawData();
    if (!data.isSplat())
      return out(n.constant(DenseElementsAttr::getFromRawBuffer(type, raw)));
    auto part = [&](size_t i) {
      auto scalar = RankedTensorType::get({}, type.getElementType());
      size_t half = raw.size() / 2;
      Value each = n.constant(DenseElementsAttr::getFromRawBuffer(
          scalar, raw.slice(i * half, half)));
      SmallVector<Dim> dims = ts::dimsOf(Type(type));
      dims.pop_back();
      return n.broadcastTo(each, dims);
    };
    return n.out(hloJoin(n, {part(0), part(1)}));
  }
  return out(hloLargeConstant(n, n.op->getResult(0).getType(), type));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

LogicalResult importHloComplex(HloNode &n, const HloRow *row) {
  StringRef kind = n.kind;
  // Rows are null there where an op is not element by element.
  if (n.frame.lift && !row && kind != "real" && kind != "imag" &&
      kind != "complex")
    return n.unsupported("complex numbers in a function of elements");
  for (StringRef each : {"while", "case", "if", "call", "composite",
                         "optimization_barrier", "unrealized_conversion_cast"})
    if (kind == each && row)
      return row->import(n);
  if (isHloHostCall(n))
    return importHloHostCall(n);
  if (kind == "custom_call" && row) {
    const HloTarget *target = findHloTarget(n.text("call_target_name"));
    if (n.failed())
      return failure();
    if (target && target->givesComplex)
      return row->import(n);
  }
  if (kind == "constant")
    return importConstant(n);
  if (kind == "convert")
    return importConvert(n);
  for (ArrayRef<HloRow> rows : {hloComplexRows(), hloComplexMatrixRows()})
    for (const HloRow &own : rows)
      if (kind == own.name)
        return n.operands.size() < own.operands
                   ? n.damaged("has too few operands")
                   : own.import(n);
  if (!row)
    return n.unsupported("of complex numbers");
  if (kind == "sort" || ((kind == "reduce" || kind == "reduce_window") &&
                         hloCombiner(n.op, 0) != ts::ReduceKind::add))
    return row->import(n);
  if (kind == "map" || (kind == "scatter" && !addsOnly(n.op)))
    return row->import(n);
  if (kind == "dot_general" || kind == "convolution")
    return importComplexMatmul(n, *row);
  for (StringRef each : {"add",
                         "subtract",
                         "negate",
                         "select",
                         "broadcast_in_dim",
                         "reshape",
                         "transpose",
                         "slice",
                         "concatenate",
                         "pad",
                         "reverse",
                         "dynamic_slice",
                         "dynamic_update_slice",
                         "gather",
                         "reduce",
                         "reduce_window",
                         "scatter",
                         "all_gather",
                         "all_reduce",
                         "all_to_all",
                         "collective_broadcast",
                         "collective_permute",
                         "part",
                         "reduce_scatter"})
    if (kind == each)
      return addsOnly(n.op)
                 ? importByPlanes(n, *row)
                 : n.unsupported("complex numbers, of a function that does "
                                 "more than add");
  return n.unsupported("of complex numbers");
}

} // namespace knapper
