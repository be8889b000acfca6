#include "serving/models/CheckpointBuilder.h"

#include "ir/tensor/PackedDot.h"
#include "ir/tensor/TensorType.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper::serving {

static Type elementType(OpBuilder &b, DType dtype) {
  switch (dtype) {
  case DType::f32:
    return b.getF32Type();
  case DType::bf16:
    return b.getBF16Type();
  case DType::f16:
    return b.getF16Type();
  case DType::f64:
    return b.getF64Type();
  default:
    return {};
  }
}

std::string CheckpointBuilder::stored(const std::string &name) const {
  llvm::StringRef inner(name);
  if (!checkpoint.find(name) && inner.consume_front(base) &&
      checkpoint.find(inner.str()))
    return inner.str();
  return name;
}

const Checkpoint::Tensor *CheckpointBuilder::checked(const std::string &name,
                                                     ArrayRef<int64_t> shape) {
  const Checkpoint::Tensor *tensor = checkpoint.find(name);
  std::string wanted;
  for (int64_t size : shape)
    wanted += (wanted.empty() ? "" : "x") + std::to_string(size);
  if (!tensor) {
    (void)fail("the tensor '" + name + "' is missing; it would be " + wanted,
               "a folder with all weights of the model");
    return nullptr;
  }
  if (!elementType(b, tensor->dtype) ||
      ArrayRef<int64_t>(tensor->shape) != shape) {
    std::string has;
    for (int64_t size : tensor->shape)
      has += (has.empty() ? "" : "x") + std::to_string(size);
    (void)fail("the tensor '" + name + "' is " + has + " " +
                   std::string(knapper::name(tensor->dtype)) + ", and " +
                   wanted + " is what config.json says",
               "the config.json that belongs to these weights");
    return nullptr;
  }
  read.insert(name);
  return tensor;
}

Value CheckpointBuilder::weight(const std::string &given,
                                ArrayRef<int64_t> shape) {
  if (inputType)
    return weights(given, SmallVector<int64_t>(shape));
  std::string name = stored(given);
  const Checkpoint::Tensor *tensor = checked(name, shape);
  if (!tensor)
    return {};
  auto reference =
      ts::WeightAttr::get(shared.context, tensor->file, tensor->offset,
                          tensor->bytes, b.getStringAttr(name));
  Value value = makeAs<ts::WeightOp>(
      RankedTensorType::get(shape, elementType(b, tensor->dtype)), reference);
  return convert(value, f32);
}

Value CheckpointBuilder::weights(ArrayRef<std::string> given,
                                 ArrayRef<SmallVector<int64_t>> shapes) {
  WeightInput input;
  input.dtype = inputType.isBF16() ? DType::bf16 : DType::f32;
  input.shape.assign(shapes[0].begin(), shapes[0].end());
  input.shape[0] = 0;
  for (auto [name, shape] : llvm::zip(given, shapes)) {
    input.tensors.push_back(stored(name));
    if (!checked(input.tensors.back(), shape))
      return {};
    input.shape[0] += shape[0];
  }
  std::string name = llvm::join(input.tensors, "+");
  Value &value = inputValues[name];
  if (!value) {
    value = b.getInsertionBlock()->addArgument(
        RankedTensorType::get(input.shape, inputType), loc);
    inputs.push_back(std::move(input));
  }
  return convert(value, f32);
}

Value CheckpointBuilder::packedMatmul(Value x, ArrayRef<std::string> given,
                                      int64_t in, ArrayRef<int64_t> outs,
                                      int64_t bits, bool transposed) {
  WeightInput integers;
  integers.dtype = DType::i8;
  integers.form = WeightInput::Form::integers;
  integers.bits = bits;
  integers.depth = in;
  integers.group = weightGroup(bits, in);
  integers.transposed = transposed;
  integers.shape = {0, (in * bits + 7) / 8};
  for (auto [name, out] : llvm::zip(given, outs)) {
    integers.tensors.push_back(stored(name));
    SmallVector<int64_t> shape{out, in};
    if (transposed)
      std::swap(shape[0], shape[1]);
    if (!checked(integers.tensors.back(), shape))
      return {};
    integers.shape[0] += out;
  }
  WeightInput scales = integers;
  scales.dtype = DType::f32;
  scales.form = WeightInput::Form::scales;
  scales.shape[1] = (in + integers.group - 1) / integers.group;
  std::string name = llvm::join(integers.tensors, "+");
  if (!inputValues.contains(name + " integers")) {
    auto add = [&](WeightInput &&input, Type element) {
      Value value = b.getInsertionBlock()->addArgument(
          RankedTensorType::get(input.shape, element), loc);
      inputs.push_back(std::move(input));
      return value;
    };
    inputValues[name + " integers"] = add(std::move(integers), b.getI8Type());
    inputValues[name + " scales"] = add(std::move(scales), f32);
  }
  if (failed() || !x)
    return {};
  return make<ts::PackedDotOp>(x, inputValues[name + " integers"],
                               inputValues[name + " scales"], Optional{Value()},
                               static_cast<uint64_t>(bits),
                               static_cast<uint64_t>(weightGroup(bits, in)));
}

Value CheckpointBuilder::matmul(Value x, Value matrix, bool transposed) {
  if (failed() || !x)
    return {};
  return make<ts::DotOp>(x, matrix, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                         ArrayRef<int64_t>{ts::rankOf(x) - 1},
                         ArrayRef<int64_t>{transposed ? 0 : 1}, TypeAttr());
}

Status CheckpointBuilder::checkAllRead(const std::string &family) const {
  // Buffers that old exports kept.
  auto isBuffer = [](llvm::StringRef name) {
    return name.ends_with("rotary_emb.inv_freq") ||
           name.ends_with("attn.masked_bias") || name.ends_with(".attn.bias");
  };
  for (const auto &[name, tensor] : checkpoint.tensors())
    if (!read.contains(name) && !isBuffer(name))
      return userError(
          cat("the tensor '", name, "' is read by nothing in a ", family),
          checkpoint.files()[tensor.file],
          "the config.json that belongs to these weights");
  return success();
}

void CheckpointBuilder::setFiles(ModuleOp module) const {
  SmallVector<StringRef> paths(checkpoint.files().begin(),
                               checkpoint.files().end());
  module->setAttr("ts.files", OpBuilder(module).getStrArrayAttr(paths));
}

} // namespace knapper::serving
