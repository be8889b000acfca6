#include "frontends/onnx/Standard.h"

using namespace mlir;

namespace knapper {

Standard::Standard(Node &n, StringRef op, int64_t opset) : n(n), opset(opset) {
  proto.set_op_type(op.str());
  proto.set_name(n.name);
}

Standard &Standard::keep(ArrayRef<StringRef> names) {
  for (const onnx::AttributeProto &given : n.proto.attribute())
    if (llvm::is_contained(names, StringRef(given.name())))
      *proto.add_attribute() = given;
  return *this;
}

onnx::AttributeProto &Standard::attribute(StringRef name) {
  for (int i = 0; i < proto.attribute_size(); ++i)
    if (proto.attribute(i).name() == name) {
      *proto.mutable_attribute(i) = onnx::AttributeProto();
      proto.mutable_attribute(i)->set_name(name.str());
      return *proto.mutable_attribute(i);
    }
  onnx::AttributeProto &made = *proto.add_attribute();
  made.set_name(name.str());
  return made;
}

Standard &Standard::set(StringRef name, int64_t value) {
  onnx::AttributeProto &made = attribute(name);
  made.set_type(onnx::AttributeProto::INT);
  made.set_i(value);
  return *this;
}

Standard &Standard::set(StringRef name, double value) {
  onnx::AttributeProto &made = attribute(name);
  made.set_type(onnx::AttributeProto::FLOAT);
  made.set_f(static_cast<float>(value));
  return *this;
}

Standard &Standard::set(StringRef name, StringRef value) {
  onnx::AttributeProto &made = attribute(name);
  made.set_type(onnx::AttributeProto::STRING);
  made.set_s(value.str());
  return *this;
}

Standard &Standard::set(StringRef name, ArrayRef<int64_t> values) {
  onnx::AttributeProto &made = attribute(name);
  made.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    made.add_ints(value);
  return *this;
}

SmallVector<Value> Standard::results(ArrayRef<Value> operands, size_t count) {
  SmallVector<Value> none(count);
  if (n.failed())
    return none;
  const OpRow *row = findRow("", proto.op_type(), opset);
  if (!row) {
    n.error = internalError("no operator " + proto.op_type() + " in opset " +
                                std::to_string(opset),
                            n.where());
    return none;
  }
  for (size_t i = 0; i < count; ++i)
    proto.add_output("result" + std::to_string(i));
  Node inner(n.importer, n.scope, proto, n.name, "", opset);
  inner.operands.assign(operands.begin(), operands.end());
  while (!inner.operands.empty() && !inner.operands.back())
    inner.operands.pop_back();
  bool complete = static_cast<int>(inner.size()) >= row->minInputs;
  for (int i = 0; complete && i < row->minInputs; ++i)
    complete = inner.has(i);
  if (!complete) {
    n.error = internalError(proto.op_type() + " lacks an input", n.where());
    return none;
  }
  bool built = succeeded(row->import(inner)) && !inner.failed();
  if (inner.error) {
    n.error = inner.error;
    n.error->where = n.where();
  } else if (!built) {
    (void)n.unsupported(inner.missing.value_or("cannot be imported"));
  }
  return built ? inner.results : none;
}

Value Standard::operator()(ArrayRef<Value> operands) {
  return results(operands, 1)[0];
}

LogicalResult require(Node &n, ArrayRef<size_t> inputs) {
  for (size_t input : inputs)
    if (!n.has(input))
      return n.fail("lacks input " + Twine(input),
                    "check the model with onnx.checker.check_model");
  return mlir::success();
}

Value fusedActivation(Node &n, Value x, StringRef name,
                      ArrayRef<double> parameters) {
  struct Known {
    StringRef name;
    SmallVector<StringRef, 2> parameters;
    int64_t opset;
  };
  static const Known known[] = {
      {"Clip", {"min", "max"}, 6},
      {"Elu", {"alpha"}, 24},
      {"Gelu", {}, 24},
      {"HardSigmoid", {"alpha", "beta"}, 24},
      {"HardSwish", {}, 24},
      {"LeakyRelu", {"alpha"}, 24},
      {"Relu", {}, 24},
      {"Selu", {"alpha", "gamma"}, 24},
      {"Sigmoid", {}, 24},
      {"Softplus", {}, 24},
      {"Softsign", {}, 24},
      {"Tanh", {}, 24},
      {"ThresholdedRelu", {"alpha"}, 24},
  };
  if (name.empty())
    return x;
  const Known *row =
      llvm::find_if(known, [&](const Known &k) { return k.name == name; });
  if (row == std::end(known)) {
    (void)n.unsupported("the activation '" + name + "'");
    return {};
  }
  Standard activation(n, name, row->opset);
  for (auto [parameter, value] : llvm::zip(row->parameters, parameters))
    activation.set(parameter, value);
  return x ? activation({x}) : x;
}

} // namespace knapper
