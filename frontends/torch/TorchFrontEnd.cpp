#include "frontends/common/FrontEnd.h"
#include "frontends/torch/ImportTorch.h"

using namespace mlir;

namespace knapper {
namespace {

class TorchFrontEnd final : public FrontEnd {
public:
  std::string_view name() const override { return "torch"; }
  /// Only knapper.torch writes such graphs, and says so.
  bool accepts(const ModelInput &) const override { return false; }
  /// The description has the shape of every result.
  bool givesExternalTypes() const override { return true; }

  Expected<OwningOpRef<ModuleOp>>
  importModel(MLIRContext &context, const ModelInput &input,
              const DimNumbers &dims, ModelBuffers &buffers) const override {
    if (!dims.empty())
      return userError("the sizes of a torch graph are its own", "option dim",
                       "export the model with these sizes");
    std::string read;
    ASSIGN_OR_RETURN(std::string_view bytes, input.content(read));
    // A file with a path is read where it lies.
    buffers.files.push_back(
        {input.path.empty() ? bytes : std::string_view(), {}});
    return importTorch(context, bytes, std::string(input.path));
  }
};

} // namespace

const FrontEnd &torchFrontEnd() {
  static const TorchFrontEnd frontEnd;
  return frontEnd;
}

} // namespace knapper
