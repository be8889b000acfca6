// Nodes of operators that the runtime finds by domain and name.
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"
#include "ir/tensor/reference/ExternalAttributes.h"
#include "ir/tensor/reference/HostTensor.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

DictionaryAttr Node::parameters() {
  llvm::StringMap<Attribute> values; // a name twice: the first, as elsewhere
  for (const onnx::AttributeProto &written : proto.attribute()) {
    const onnx::AttributeProto *found =
        attribute(written.name(), onnx::AttributeProto::UNDEFINED);
    if (!found || values.contains(written.name()))
      continue; // bound by nobody
    Attribute value;
    switch (found->type()) {
    case onnx::AttributeProto::INT:
      value = b.getI64IntegerAttr(found->i());
      break;
    case onnx::AttributeProto::FLOAT:
      value = b.getF32FloatAttr(found->f());
      break;
    case onnx::AttributeProto::STRING:
      value = b.getStringAttr(found->s());
      break;
    case onnx::AttributeProto::INTS:
      value = b.getDenseI64ArrayAttr(integers(written.name()));
      break;
    case onnx::AttributeProto::FLOATS: {
      SmallVector<float> list;
      for (double number : reals(written.name()))
        list.push_back(static_cast<float>(number));
      value = b.getDenseF32ArrayAttr(list);
      break;
    }
    case onnx::AttributeProto::STRINGS: {
      SmallVector<Attribute> list;
      for (const std::string &text : texts(written.name()))
        list.push_back(b.getStringAttr(text));
      value = b.getArrayAttr(list);
      break;
    }
    case onnx::AttributeProto::TENSOR: {
      Type element = onnxElementType(importer.context, found->t().data_type());
      if (!element || isa<ts::StringType>(element)) {
        (void)unsupported("attribute '" + written.name() +
                          "' is a tensor of element type " +
                          onnxTypeName(found->t().data_type()));
        return {};
      }
      Expected<OnnxTensor> tensor =
          readTensor(importer.context, importer.file, found->t());
      if (!tensor) {
        if (!error)
          error = tensor.takeError();
        return {};
      }
      value = tensor->constant;
      if (!value) {
        (void)fail("attribute '" + written.name() +
                       "' is a tensor above 64 KiB",
                   "give it as an input of the node");
        return {};
      }
      break;
    }
    default:
      (void)unsupported("attribute '" + written.name() +
                        "' is a graph, a type or a list of tensors, which "
                        "registered operators do not take");
      return {};
    }
    values[written.name()] = value;
  }
  SmallVector<NamedAttribute> list;
  for (auto &entry : values)
    list.push_back(b.getNamedAttr(entry.first(), entry.second));
  return b.getDictionaryAttr(list);
}

namespace {

/// Sizes as numbers for shape functions: a symbolic one is negative, the same
/// for equal sizes. Far from what arithmetic on small numbers gives.
class SizeNumbers {
public:
  int64_t numberOf(Dim dim) {
    if (std::optional<int64_t> number = dim.asConstant())
      return *number;
    auto *known = llvm::find(sizes, dim);
    if (known == sizes.end()) {
      sizes.push_back(dim);
      known = sizes.end() - 1;
    }
    return first - (known - sizes.begin());
  }
  /// Of a number that `numberOf` gave.
  Dim sizeOf(int64_t number) const { return sizes[first - number]; }

private:
  static constexpr int64_t first = -(int64_t(1) << 40);
  SmallVector<Dim> sizes;
};

} // namespace

LogicalResult importExternal(Node &n, const Operator &op) {
  DictionaryAttr parameters = n.parameters();
  if (!parameters)
    return failure();
  OperatorNode node{n.where(), n.opset,
                    std::make_shared<const OperatorAttributes>(
                        ts::operatorAttributes(parameters))};
  SizeNumbers numbers;
  SmallVector<SmallVector<int64_t>> shapes;
  SmallVector<bool> present;
  SmallVector<Value> given;
  std::vector<knapper_tensor> inputs;
  for (Value value : n.all()) {
    present.push_back(bool(value));
    shapes.emplace_back();
    if (!value)
      continue;
    given.push_back(value);
    for (Dim dim : ts::dimsOf(value))
      shapes.back().push_back(numbers.numberOf(dim));
  }
  for (auto [value, shape] : llvm::zip(n.all(), shapes)) {
    std::optional<DType> dtype =
        value ? ts::dtypeOf(ts::elementTypeOf(value)) : DType::f32;
    inputs.push_back({nullptr, 0, static_cast<knapper_dtype>(*dtype),
                      value ? static_cast<int32_t>(shape.size()) : -1,
                      shape.data()});
  }
  std::vector<knapper_result_shape> results(n.resultCount());
  if (Status status = op.shapes(node, inputs, /*running=*/false, results);
      !status) {
    n.error = status.takeError();
    return failure();
  }
  SmallVector<Type> types;
  SmallVector<StringRef> symbols;
  for (auto [i, result] : llvm::enumerate(results)) {
    SmallVector<Dim> dims;
    for (int32_t d = 0; d < result.rank; ++d) {
      int64_t size = result.shape[d];
      if (size == -1) {
        dims.push_back(n.importer.freshSymbol(n.resultName(i) + "_dim" +
                                              std::to_string(d)));
        symbols.push_back(*dims.back().asSymbol());
      } else {
        dims.push_back(size < 0 ? numbers.sizeOf(size) : n.dim(size));
      }
    }
    Type type =
        n.type(dims, ts::elementTypeOf(n.importer.context,
                                       static_cast<DType>(result.dtype)));
    if (!type)
      return failure();
    types.push_back(type);
  }
  Operation *made = n.external(op.domain(), op.name(), parameters, present,
                               given, symbols, types);
  if (!made)
    return failure();
  for (size_t i = 0; i < results.size(); ++i)
    if (failed(n.out(made->getResult(i), i)))
      return failure();
  return mlir::success();
}

} // namespace knapper
