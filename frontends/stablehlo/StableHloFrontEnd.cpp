#include "frontends/common/FrontEnd.h"
#include "frontends/stablehlo/HloText.h"
#include "frontends/stablehlo/ImportStableHlo.h"
#include "frontends/stablehlo/InspectStableHlo.h"
#include "frontends/stablehlo/Vhlo.h"

using namespace mlir;

namespace knapper {
namespace {

class StableHloFrontEnd final : public FrontEnd {
public:
  std::string_view name() const override { return "stablehlo"; }
  bool accepts(const ModelInput &input) const override {
    std::string begin = input.begin(hloTextBegin);
    return isHloBytecode(begin) || isHloText(begin);
  }

  Expected<OwningOpRef<ModuleOp>>
  importModel(MLIRContext &context, const ModelInput &input,
              const DimNumbers &dims, ModelBuffers &buffers) const override {
    if (!dims.empty())
      return userError("the sizes of a StableHLO program are numbers",
                       "option dim", "leave it out");
    std::string read;
    ASSIGN_OR_RETURN(std::string_view bytes, input.content(read));
    ASSIGN_OR_RETURN(HloModule program,
                     importStableHlo(context, bytes, std::string(input.path)));
    // A file with a path is read where it lies.
    buffers.files.push_back(
        {input.path.empty() ? bytes : std::string_view(), {}});
    for (std::shared_ptr<const std::string> &data : program.buffers)
      buffers.files.push_back({*data, data});
    return std::move(program.module);
  }

  Expected<std::string> inspect(const ModelInput &input) const override {
    std::string read;
    ASSIGN_OR_RETURN(std::string_view bytes, input.content(read));
    return inspectStableHlo(bytes, std::string(input.path));
  }
};

} // namespace

const FrontEnd &stableHloFrontEnd() {
  static const StableHloFrontEnd frontEnd;
  return frontEnd;
}

} // namespace knapper
