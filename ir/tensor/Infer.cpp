// Shape inference: the result types that follow from operands and attributes.
// Operands here may violate an op's constraints; then a message names it.
#include "ir/tensor/Dialect.h"
#include "ir/tensor/Multiples.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {
using Types = SmallVectorImpl<Type>;
using Loc = std::optional<Location>;

LogicalResult fail(Loc location, const Twine &text) {
  return emitOptionalError(location, text);
}

LogicalResult checkDim(Loc location, int64_t dim, int64_t rank) {
  if (dim < 0 || dim >= rank)
    return fail(location,
                "dim " + Twine(dim) + " is outside rank " + Twine(rank));
  return success();
}

} // namespace

/// An attribute of the op: when text is parsed, types are inferred before what
/// stood in the attribute dictionary has become a property.
template <typename Attr>
static Attr attributeOf(Attr property, DictionaryAttr dictionary,
                        StringRef name) {
  if (property || !dictionary)
    return property;
  return dictionary.getAs<Attr>(name);
}
static bool flagOf(BoolAttr property, DictionaryAttr dictionary,
                   StringRef name) {
  BoolAttr flag = attributeOf(property, dictionary, name);
  return flag && flag.getValue();
}

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, Loc, Adaptor op,
                                          Types &types) {
  types.push_back(
      withElement(op.getLhs().getType(), IntegerType::get(context, 1)));
  return success();
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, Loc, Adaptor op,
                                         Types &types) {
  types.push_back(op.getOnTrue().getType());
  return success();
}

LogicalResult IsNanOp::inferReturnTypes(MLIRContext *context, Loc, Adaptor op,
                                        Types &types) {
  types.push_back(
      withElement(op.getInput().getType(), IntegerType::get(context, 1)));
  return success();
}
LogicalResult IsInfOp::inferReturnTypes(MLIRContext *context, Loc, Adaptor op,
                                        Types &types) {
  types.push_back(
      withElement(op.getInput().getType(), IntegerType::get(context, 1)));
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *context, Loc location,
                                            Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput()), result;
  SmallVector<bool> seen(dims.size(), false);
  if (op.getPermutation().size() != dims.size())
    return fail(location, "(C1) permutation has " +
                              Twine(op.getPermutation().size()) +
                              " entries for rank " + Twine(dims.size()));
  for (int64_t dim : op.getPermutation()) {
    if (dim < 0 || dim >= static_cast<int64_t>(dims.size()) || seen[dim])
      return fail(location, "(C1) not a permutation");
    seen[dim] = true;
    result.push_back(dims[dim]);
  }
  types.push_back(tensorType(context, result, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *context, Loc location,
                                      Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  if (op.getLow().size() != dims.size() || op.getHigh().size() != dims.size())
    return fail(location, "(C1) low and high need an entry a dim");
  for (auto [dim, low, high] :
       llvm::zip(dims, dimsOf(op.getLow()), dimsOf(op.getHigh())))
    dim = multiplesAsProducts(dim + low + high);
  types.push_back(tensorType(context, dims, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *context, Loc location,
                                         Adaptor op, Types &types) {
  if (op.getInputs().empty())
    return fail(location, "(C1) needs an operand");
  SmallVector<Dim> dims = dimsOf(op.getInputs()[0]);
  int64_t axis = op.getDim();
  if (failed(checkDim(location, axis, dims.size())))
    return failure();
  for (Value input : op.getInputs().drop_front()) {
    SmallVector<Dim> other = dimsOf(input);
    if (other.size() != dims.size() ||
        elementTypeOf(input) != elementTypeOf(op.getInputs()[0]))
      return fail(location, "(C1) operands differ in rank or element type");
    for (size_t i = 0; i < dims.size(); ++i)
      if (static_cast<int64_t>(i) != axis && !(dims[i] == other[i]))
        return fail(location, "(C1) dim " + Twine(i) + " is " + dims[i].str() +
                                  " and " + other[i].str());
    dims[axis] = dims[axis] + other[axis];
  }
  types.push_back(tensorType(context, dims, elementTypeOf(op.getInputs()[0])));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *context, Loc location,
                                         Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput()), result;
  int64_t axis = op.getDim();
  if (failed(checkDim(location, axis, dims.size())))
    return failure();
  ArrayRef<Dim> all = dims;
  llvm::append_range(result, all.take_front(axis));
  llvm::append_range(result, dimsOf(op.getIndices()));
  llvm::append_range(result, all.drop_front(axis + 1));
  types.push_back(tensorType(context, result, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *context,
                                                 Loc location, Adaptor op,
                                                 Types &types) {
  if (rankOf(op.getInput()) != rankOf(op.getIndices()))
    return fail(location, "(C1) ranks differ");
  if (failed(checkDim(location, op.getDim(), rankOf(op.getInput()))))
    return failure();
  types.push_back(
      withElement(op.getIndices().getType(), elementTypeOf(op.getInput())));
  return success();
}

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *context, Loc location,
                                           Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput()),
                   indices = dimsOf(op.getIndices());
  int64_t batch = op.getBatchDims();
  std::optional<int64_t> depth;
  if (!indices.empty())
    depth = indices.back().asConstant();
  if (!depth || *depth < 0 || batch < 0 ||
      batch >= static_cast<int64_t>(indices.size()) ||
      batch + *depth > static_cast<int64_t>(dims.size()))
    return fail(location, "(C1) the last dim of the indices must be a number "
                          "that fits the input's rank");
  for (int64_t i = 0; i < batch; ++i)
    if (!(dims[i] == indices[i]))
      return fail(location, "(C2) batch dim " + Twine(i) + " is " +
                                dims[i].str() + " and " + indices[i].str());
  SmallVector<Dim> result(indices.begin(), indices.end() - 1);
  result.append(dims.begin() + batch + *depth, dims.end());
  types.push_back(tensorType(context, result, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult ScatterElementsOp::inferReturnTypes(MLIRContext *, Loc location,
                                                  Adaptor op, Types &types) {
  if (rankOf(op.getInput()) != rankOf(op.getIndices()) ||
      dimsOf(op.getIndices()) != dimsOf(op.getUpdates()))
    return fail(location,
                "(C1) indices and updates need one shape of the input's rank");
  if (failed(checkDim(location, op.getDim(), rankOf(op.getInput()))))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}

LogicalResult ScatterNdOp::inferReturnTypes(MLIRContext *, Loc, Adaptor op,
                                            Types &types) {
  types.push_back(op.getInput().getType());
  return success();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *context, Loc location,
                                         Adaptor op, Types &types) {
  SmallVector<Dim> result;
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t last = -1;
  for (int64_t dim : op.getDims()) {
    if (dim <= last || dim >= static_cast<int64_t>(dims.size()))
      return fail(location,
                  "(C1) dims must be in range and strictly increasing");
    last = dim;
  }
  for (auto [i, dim] : llvm::enumerate(dims))
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(i)))
      result.push_back(dim);
  types.push_back(tensorType(context, result, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult ArgReduceOp::inferReturnTypes(MLIRContext *context, Loc location,
                                            Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  if (failed(checkDim(location, op.getDim(), dims.size())))
    return failure();
  dims.erase(dims.begin() + op.getDim());
  types.push_back(tensorType(context, dims, IntegerType::get(context, 64)));
  return success();
}

LogicalResult DotOp::inferReturnTypes(MLIRContext *context, Loc location,
                                      Adaptor op, Types &types) {
  SmallVector<Dim> lhs = dimsOf(op.getLhs()), rhs = dimsOf(op.getRhs()), result;
  auto pairUp = [&](ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                    StringRef what) -> LogicalResult {
    if (a.size() != b.size())
      return fail(location, "(C1) " + what + " dims do not pair up");
    for (auto [i, j] : llvm::zip(a, b)) {
      if (failed(checkDim(location, i, lhs.size())) ||
          failed(checkDim(location, j, rhs.size())))
        return failure();
      if (!(lhs[i] == rhs[j]))
        return fail(location, "(C1) " + what + " dims are " + lhs[i].str() +
                                  " and " + rhs[j].str());
    }
    return success();
  };
  if (failed(pairUp(op.getLhsBatch(), op.getRhsBatch(), "batch")) ||
      failed(pairUp(op.getLhsContract(), op.getRhsContract(), "contracting")))
    return failure();
  for (int64_t dim : op.getLhsBatch())
    result.push_back(lhs[dim]);
  auto addFree = [&](ArrayRef<Dim> dims, ArrayRef<int64_t> batch,
                     ArrayRef<int64_t> contract) {
    for (auto [i, dim] : llvm::enumerate(dims))
      if (!llvm::is_contained(batch, static_cast<int64_t>(i)) &&
          !llvm::is_contained(contract, static_cast<int64_t>(i)))
        result.push_back(dim);
  };
  addFree(lhs, op.getLhsBatch(), op.getLhsContract());
  addFree(rhs, op.getRhsBatch(), op.getRhsContract());
  Type element = elementTypeOf(op.getLhs());
  if (TypeAttr type = attributeOf(op.getResultTypeAttr(), op.getAttributes(),
                                  "result_type"))
    element = type.getValue();
  types.push_back(tensorType(context, result, element));
  return success();
}

/// Size of a windowed dim: floor((in + low + high - ((w - 1) * d + 1)) / s)
/// + 1.
static Dim windowCount(Dim input, int64_t inputDilation, Dim low, Dim high,
                       Dim window, int64_t dilation, int64_t stride) {
  Dim spread = (input - 1) * inputDilation + 1;
  Dim extent = (window - 1) * dilation + 1;
  return (spread + low + high - extent).floorDiv(input.like(stride)) + 1;
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *context, Loc location,
                                       Adaptor op, Types &types) {
  SmallVector<Dim> input = dimsOf(op.getInput()),
                   filter = dimsOf(op.getFilter());
  size_t spatial = op.getStrides().size();
  if (input.size() != spatial + 2 || filter.size() != spatial + 2 ||
      op.getDilations().size() != spatial ||
      op.getInputDilations().size() != spatial ||
      op.getLow().size() != spatial || op.getHigh().size() != spatial)
    return fail(location, "(C1) one stride, dilation, input dilation and pad "
                          "pair a spatial dim");
  for (size_t i = 0; i < spatial; ++i)
    if (op.getStrides()[i] < 1 || op.getDilations()[i] < 1 ||
        op.getInputDilations()[i] < 1)
      return fail(location, "(C1) strides and dilations are positive");
  bool last =
      flagOf(op.getChannelsLastAttr(), op.getAttributes(), "channels_last");
  Dim channels = last ? input.back() : input[1];
  Dim features = last ? filter.back() : filter[0];
  Dim filterChannels = last ? filter[spatial] : filter[1];
  IntegerAttr groupsAttr =
      attributeOf(op.getGroupsAttr(), op.getAttributes(), "groups");
  int64_t groups = groupsAttr ? groupsAttr.getInt() : 1;
  if (groups < 1 || !features.exactDiv(features.like(groups)))
    return fail(location, "(C2) " + features.str() +
                              " output channels do not divide into " +
                              Twine(groups) + " groups");
  if (!(filterChannels * groups == channels))
    return fail(location, "(C3) the filter has " + filterChannels.str() +
                              " channels a group, the input " + channels.str() +
                              " in " + Twine(groups) + " groups");
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  SmallVector<Dim> result{input[0]};
  if (!last)
    result.push_back(features);
  for (size_t i = 0; i < spatial; ++i) {
    Dim size = windowCount(input[i + (last ? 1 : 2)], op.getInputDilations()[i],
                           low[i], high[i], filter[i + (last ? 0 : 2)],
                           op.getDilations()[i], op.getStrides()[i]);
    if (std::optional<int64_t> number = size.asConstant();
        number && *number < 0)
      return fail(location,
                  "(C4) the window does not fit into spatial dim " + Twine(i));
    result.push_back(size);
  }
  if (last)
    result.push_back(features);
  // Sums of bytes would not fit into bytes.
  Type element = elementTypeOf(op.getInput());
  if (element.isInteger(8))
    element = IntegerType::get(context, 32);
  types.push_back(tensorType(context, result, element));
  return success();
}

LogicalResult PoolOp::inferReturnTypes(MLIRContext *context, Loc location,
                                       Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  size_t spatial = op.getWindow().size();
  if (dims.size() != spatial + 2 || op.getStrides().size() != spatial ||
      op.getDilations().size() != spatial || op.getLow().size() != spatial ||
      op.getHigh().size() != spatial)
    return fail(location,
                "(C1) one window, stride, dilation and pad pair a spatial dim");
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  bool last =
      flagOf(op.getChannelsLastAttr(), op.getAttributes(), "channels_last");
  for (size_t i = 0; i < spatial; ++i) {
    if (op.getWindow()[i] < 1 || op.getStrides()[i] < 1 ||
        op.getDilations()[i] < 1)
      return fail(location, "(C1) windows, strides and dilations are positive");
    Dim &dim = dims[i + (last ? 1 : 2)];
    dim = windowCount(dim, 1, low[i], high[i], dim.like(op.getWindow()[i]),
                      op.getDilations()[i], op.getStrides()[i]);
  }
  types.push_back(tensorType(context, dims, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult ScanOp::inferReturnTypes(MLIRContext *, Loc location, Adaptor op,
                                       Types &types) {
  if (failed(checkDim(location, op.getDim(), rankOf(op.getInput()))))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, Loc location,
                                       Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  if (failed(checkDim(location, op.getDim(), dims.size())))
    return failure();
  dims[op.getDim()] = op.getK();
  types.push_back(tensorType(context, dims, elementTypeOf(op.getInput())));
  types.push_back(tensorType(context, dims, IntegerType::get(context, 64)));
  return success();
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, Loc location,
                                            Adaptor op, Types &types) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  if (failed(checkDim(location, op.getDim(), dims.size())))
    return failure();
  for (Value operand : {op.getScale(), op.getBias()})
    if (operand && ArrayRef<Dim>(dims).drop_front(op.getDim()) !=
                       ArrayRef<Dim>(dimsOf(operand)))
      return fail(location, "(C2) scale and bias need the normalised dims");
  types.push_back(op.getInput().getType());
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *context, Loc location,
                                            Adaptor op, Types &types) {
  SmallVector<Dim> q = dimsOf(op.getQuery()), k = dimsOf(op.getKey()),
                   v = dimsOf(op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || !(q[0] == k[0]) ||
      !(q[0] == v[0]) || !(k[1] == v[1]) || !(k[2] == v[2]) || !(q[3] == k[3]))
    return fail(location, "(C1) query, key and value do not fit together: " +
                              shapeText(op.getQuery().getType()) + ", " +
                              shapeText(op.getKey().getType()) + ", " +
                              shapeText(op.getValue().getType()));
  if (!q[1].exactDiv(k[1]))
    return fail(location, "(C2) " + q[1].str() + " query heads do not share " +
                              k[1].str() + " key heads evenly");
  if (Value mask = op.getMask()) {
    SmallVector<Dim> m = dimsOf(mask), scores{q[0], q[1], q[2], k[2]};
    bool fits = m.size() == 4;
    for (size_t i = 0; fits && i < 4; ++i)
      fits = m[i].isConstant(1) || m[i] == scores[i];
    if (!fits)
      return fail(location, "(C3) mask " + shapeText(mask.getType()) +
                                " does not broadcast to the scores");
  }
  types.push_back(tensorType(context, {q[0], q[1], q[2], v[3]},
                             elementTypeOf(op.getQuery())));
  return success();
}

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, Loc location, Adaptor op,
                                       Types &types) {
  SmallVector<Dim> x = dimsOf(op.getInput()), c = dimsOf(op.getCos());
  if (x.size() != 4 || c.size() != 3)
    return fail(location, "(C1) needs rank 4 and cos, sin of rank 3");
  std::optional<int64_t> depth = x[3].asConstant(), half = c[2].asConstant();
  if (!(c[0].isConstant(1) || c[0] == x[0]) || !(c[1] == x[2]) || !depth ||
      !half || *half * 2 > *depth)
    return fail(location,
                "(C2) cos and sin " + shapeText(op.getCos().getType()) +
                    " do not fit " + shapeText(op.getInput().getType()));
  types.push_back(op.getInput().getType());
  return success();
}
