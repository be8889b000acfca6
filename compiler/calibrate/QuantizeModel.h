//===- QuantizeModel.h - A model with integers in place of floats --------===//
//
// Two kinds. Weights only: matmuls keep their matrices as integers of 8 or 4
// bits. Static: matmuls whose weights are constant multiply bytes (u8 or i8
// activations by i8 weights, sums in i32); the ranges of the activations are
// those that the float model has on calibration data. Which matmuls, and what
// stays float, says Layers.h; what is written, QuantisedModel.h.
//
// Accuracy is measured on the same data, against the float32 model: of every
// output, and of the result of every layer twice: when only this layer is
// quantised (`alone`: who is to blame) and when all are (`together`).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/calibrate/Distance.h"
#include "compiler/calibrate/Layers.h"
#include "compiler/calibrate/Ranges.h"
#include "compiler/pipeline/Compile.h"

#include <functional>

namespace knapper {

struct QuantizeOptions {
  std::string weightsOnly; ///< "int8", "int4"; empty: static
  RangeChoice range = RangeChoice::minmax;
  double percentile = 99.99;      ///< of RangeChoice::percentile, in (0, 100]
  bool signedActivations = false; ///< i8 around 0 instead of u8
  std::vector<std::string> keep;  ///< nodes that stay float
  int samples = 0;                ///< calibration inputs that the host has
};

struct LayerReport {
  Layer layer;
  Range range; ///< static: of its input
  StepChoice steps;
  Distance alone, together;
};

struct QuantizeReport {
  std::vector<LayerReport> layers;
  std::vector<KeptNode> kept;
  std::vector<std::pair<std::string, Distance>> outputs;
  uint64_t bytes = 0, floatBytes = 0; ///< of the files; 0: not made
  int samples = 0;

  std::string json() const;
};

/// What the caller of a quantisation provides: inputs, and a runtime.
class QuantizeHost {
public:
  using Tensors = std::vector<ts::HostTensor>;
  /// Runs a loaded artefact.
  using Run = std::function<Expected<Tensors>(const Tensors &inputs)>;

  virtual ~QuantizeHost() = default;
  /// Loads the artefact behind a descriptor, which it takes over. `outputs`:
  /// the names of its outputs. The first that is loaded has the signature of
  /// the model.
  virtual Expected<Run> load(int fd, std::vector<std::string> *outputs) = 0;
  /// Inputs of one run, in the order of the signature; after the first `load`,
  /// and more than once for each index. Valid until the next call.
  virtual Expected<Tensors> sample(int index) = 0;
  /// "sample 3" in messages.
  virtual std::string sampleName(int index) const = 0;
};

/// Quantises `input` (an .onnx file or its bytes). `output`: a file to write,
/// of .knap an artefact, of .onnx a model with QuantizeLinear and
/// DequantizeLinear; empty: the artefact's descriptor, the caller's, comes back
/// (else -1). `compile` are the settings of the artefact. Errors: UserError
/// for settings that do not fit, for data that the model does not take or that
/// is not finite, and those of compiling and running. `input.cancel` ends it, a
/// run of the host's too where the host looks; what was written by then stays.
Expected<int> quantizeModel(const CompileInput &input, const Options &compile,
                            const QuantizeOptions &options,
                            const std::string &output, QuantizeHost &host,
                            QuantizeReport &report,
                            const ProgressFn &progress = {});

} // namespace knapper
