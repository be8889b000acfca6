#include "frontends/common/FrontEnd.h"
#include "frontends/onnx/ExternalFiles.h"
#include "frontends/onnx/ImportOnnx.h"
#include "frontends/onnx/InspectOnnx.h"

using namespace mlir;

namespace knapper {
namespace {

OnnxSource sourceOf(const ModelInput &input) {
  OnnxSource source;
  source.path = input.path;
  source.bytes = input.bytes;
  return source;
}

class OnnxFrontEnd final : public FrontEnd {
public:
  std::string_view name() const override { return "onnx"; }
  bool accepts(const ModelInput &) const override { return true; }

  Expected<OwningOpRef<ModuleOp>>
  importModel(MLIRContext &context, const ModelInput &input,
              const DimNumbers &dims, ModelBuffers &buffers) const override {
    OnnxImportOptions options;
    options.dims = dims;
    return importOnnx(context, sourceOf(input), options, &buffers);
  }

  Expected<std::vector<std::string>>
  otherFiles(const ModelInput &input) const override {
    return onnxExternalFiles(sourceOf(input));
  }

  Expected<std::string> inspect(const ModelInput &input) const override {
    return inspectOnnx(sourceOf(input));
  }
};

} // namespace

const FrontEnd &onnxFrontEnd() {
  static const OnnxFrontEnd frontEnd;
  return frontEnd;
}

} // namespace knapper
