// Imports models and evaluates them with the reference evaluator; for tests.
//
// Reads folders from stdin, a line each. A folder holds `model.onnx` and
// `inputs` (in the order of the signature); `outputs` is written beside them.
// Both are a sequence of tensors: a line "dtype dim dim ...", then the raw
// elements. For each folder one line goes to stdout: "ok", "import KIND
// MESSAGE" or "run KIND MESSAGE" (line breaks as \n).
#include "ir/tensor/reference/Evaluate.h"
#include "frontends/onnx/ImportOnnx.h"
#include "ir/tensor/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <fstream>
#include <iostream>
#include <sstream>

using namespace mlir;
using namespace knapper;

static std::string describe(const char *phase, const Error &error) {
  const char *kinds[] = {"user", "device", "internal"};
  std::string text = error.message(), line;
  for (char c : text)
    line += c == '\n' ? "\\n" : std::string(1, c);
  return std::string(phase) + " " + kinds[static_cast<int>(error.kind)] + " " +
         line;
}

static std::string run(const std::string &folder) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ModelBuffers buffers;
  OnnxSource source;
  source.path = folder + "/model.onnx";
  auto module = importOnnx(context, source, {}, &buffers);
  if (!module)
    return describe("import", module.error());
  std::ifstream given(folder + "/inputs", std::ios::binary);
  llvm::SmallVector<ts::HostTensor> inputs;
  for (std::string header; std::getline(given, header);) {
    std::istringstream fields(header);
    std::string name;
    fields >> name;
    std::vector<int64_t> dims;
    for (int64_t dim; fields >> dim;)
      dims.push_back(dim);
    std::optional<DType> dtype = parseDType(name);
    if (!dtype)
      return "run user input of type " + name;
    ts::HostTensor tensor = ts::HostTensor::allocate(*dtype, dims);
    given.read(reinterpret_cast<char *>(tensor.mutableData()),
               static_cast<std::streamsize>(tensor.bytes()));
    inputs.push_back(tensor);
  }
  ts::EvaluateContext evaluation;
  auto files = (*module)->getOperation()->getAttrOfType<ArrayAttr>("ts.files");
  evaluation.weights = [&](ts::WeightOp op) -> Expected<ts::HostTensor> {
    ts::WeightAttr place = op.getReference();
    auto type = cast<RankedTensorType>(op.getType());
    ts::HostTensor tensor = ts::HostTensor::allocate(
        *ts::dtypeOf(type.getElementType()), type.getShape());
    std::string path = cast<StringAttr>(files[place.getFile()]).str();
    if (path.empty()) {
      std::memcpy(tensor.mutableData(),
                  buffers.files[place.getFile()].data.data() +
                      place.getOffset(),
                  place.getBytes());
      return tensor;
    }
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(place.getOffset()));
    file.read(reinterpret_cast<char *>(tensor.mutableData()),
              static_cast<std::streamsize>(place.getBytes()));
    return tensor;
  };
  auto main = (*module)->lookupSymbol<func::FuncOp>("main");
  auto results = ts::evaluateFunction(main, inputs, evaluation);
  if (!results)
    return describe("run", results.error());
  std::ofstream out(folder + "/outputs", std::ios::binary);
  for (const ts::HostTensor &tensor : *results) {
    out << name(tensor.dtype());
    for (int64_t dim : tensor.dims())
      out << ' ' << dim;
    out << '\n';
    out.write(reinterpret_cast<const char *>(tensor.data()),
              static_cast<std::streamsize>(tensor.bytes()));
  }
  return "ok";
}

int main() {
  for (std::string folder; std::getline(std::cin, folder);)
    std::cout << run(folder) << std::endl;
  return 0;
}
