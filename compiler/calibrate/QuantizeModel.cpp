#include "compiler/calibrate/QuantizeModel.h"
#include "compiler/calibrate/QuantisedModel.h"
#include "compiler/pipeline/TensorText.h"
#include "runtime/base/Json.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/STLExtras.h"

#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <map>
#include <unistd.h>

namespace knapper {
namespace {

using Tensors = QuantizeHost::Tensors;

/// A model that was made here, loaded, and where its outputs are.
struct Loaded {
  QuantizeHost::Run run;
  std::map<std::string, size_t> index;
  std::vector<std::string> outputs;

  const ts::HostTensor &of(const Tensors &results,
                           const std::string &name) const {
    return results[index.at(name)];
  }
};

class Quantizer {
public:
  Quantizer(const CompileInput &input, const Options &compile,
            const QuantizeOptions &options, QuantizeHost &host,
            QuantizeReport &report, const ProgressFn &progress)
      : input(input), compile(compile), options(options), host(host),
        report(report), progress(progress) {}

  Expected<int> run(const std::string &output);

private:
  bool isStatic() const { return options.weightsOnly.empty(); }
  Options floatOptions() const;
  BlockFormat blockFormat() const;

  Status openFile();
  Error noLayers() const;
  Expected<Loaded> load(const CompileInput &model, const Options &settings,
                        uint64_t *bytes = nullptr);
  CompileInput madeFrom(const std::string &model) const;
  Expected<Loaded> loadBytes(const std::string &model);
  Status eachSample(const char *what,
                    llvm::function_ref<Status(int, const Tensors &)> visit);
  Expected<Tensors> results(const Loaded &model, int sample,
                            const Tensors &inputs);

  Expected<std::string> probe();
  Status calibrate(const Loaded &exact);
  Expected<std::string> operandFor(const LayerReport &layer,
                                   QuantisedOperands &operands, int side);
  Expected<std::string> quantised(bool showResults, bool isFile);
  Expected<std::string> oneByOne();
  Status compareLayers(const Loaded &exact);
  Status compareOutputs(const Loaded &exact, const Loaded &made);
  Expected<int> weightsOnlyArtefact(const std::string &output);
  Expected<int> compileTo(const std::string &output, const CompileInput &model,
                          const Options &settings, const Loaded *exact);

  const CompileInput &input;
  const Options &compile;
  const QuantizeOptions &options;
  QuantizeHost &host;
  QuantizeReport &report;
  const ProgressFn &progress;
  std::unique_ptr<OnnxFile> file;
  std::vector<std::string> names; ///< of the model's outputs
};

Error cancelled() {
  return userError("the quantisation was cancelled", "quantize");
}

/// The results of one layer when only it is quantised.
std::string aloneName(const Layer &layer) { return layer.output + "/alone"; }

Options Quantizer::floatOptions() const {
  Options settings = compile;
  settings.dtype.clear();
  settings.weights.clear();
  settings.cache = false;
  return settings;
}

BlockFormat Quantizer::blockFormat() const {
  return {options.weightsOnly == "int4" ? 4 : 8, compile.weightGroup,
          compile.weightZeroPoints};
}

Status Quantizer::openFile() {
  ASSIGN_OR_RETURN(const FrontEnd *frontEnd, frontEndOf(input, compile));
  if (frontEnd->name() != "onnx")
    return userError("is no ONNX model, and only these are quantised",
                     input.name(), "export the model to ONNX");
  OnnxSource source;
  source.path = input.path;
  source.bytes = input.bytes;
  ASSIGN_OR_RETURN(OnnxFile opened, OnnxFile::open(source));
  file = std::make_unique<OnnxFile>(std::move(opened));
  for (const onnx::ValueInfoProto &value : file->model().graph().output())
    names.push_back(value.name());
  ASSIGN_OR_RETURN(Layers found, findLayers(*file, isStatic(), options.keep));
  for (Layer &layer : found.layers)
    report.layers.push_back({std::move(layer), {}, {}, {}, {}});
  report.kept = std::move(found.kept);
  return success();
}

Expected<Loaded> Quantizer::load(const CompileInput &model,
                                 const Options &settings, uint64_t *bytes) {
  CompileStats stats;
  ASSIGN_OR_RETURN(int fd, compileModel(model, settings, "", &stats, progress));
  if (bytes)
    *bytes = stats.artefactBytes;
  Loaded loaded;
  ASSIGN_OR_RETURN(QuantizeHost::Run run, host.load(fd, &loaded.outputs));
  loaded.run = std::move(run);
  for (auto [i, name] : llvm::enumerate(loaded.outputs))
    loaded.index.try_emplace(name, i);
  return loaded;
}

CompileInput Quantizer::madeFrom(const std::string &model) const {
  return {.bytes = model, .cancel = input.cancel, .givenName = input.name()};
}

Expected<Loaded> Quantizer::loadBytes(const std::string &model) {
  return load(madeFrom(model), floatOptions());
}

Expected<Tensors> Quantizer::results(const Loaded &model, int sample,
                                     const Tensors &inputs) {
  Expected<Tensors> made = model.run(inputs);
  if (made)
    return made;
  Error error = made.takeError();
  if (error.kind == ErrorKind::user)
    error.where = host.sampleName(sample) +
                  (error.where.empty() ? "" : ", " + error.where);
  return error;
}

Status
Quantizer::eachSample(const char *what,
                      llvm::function_ref<Status(int, const Tensors &)> visit) {
  for (int i = 0; i < options.samples; ++i) {
    if (input.cancel.isWished())
      return cancelled();
    if (progress)
      progress(what, i, options.samples);
    ASSIGN_OR_RETURN(Tensors inputs, host.sample(i));
    TRY(visit(i, inputs));
  }
  return success();
}

/// The float model, with what layers read and give among its outputs.
Expected<std::string> Quantizer::probe() {
  OnnxEdit edit(*file);
  for (const LayerReport &layer : report.layers) {
    if (isStatic())
      edit.addOutput(layer.layer.input);
    edit.addOutput(layer.layer.output);
  }
  return edit.write();
}

/// Ranges in two passes: histograms need to know where the numbers end.
Status Quantizer::calibrate(const Loaded &exact) {
  std::map<std::string, TensorStatistics> statistics;
  for (const LayerReport &layer : report.layers)
    statistics[layer.layer.input];
  auto spanOf = [](const ts::HostTensor &tensor) {
    return std::span(reinterpret_cast<const float *>(tensor.data()),
                     static_cast<size_t>(tensor.elements()));
  };
  Status status =
      eachSample("calibrate", [&](int i, const Tensors &inputs) -> Status {
        for (const ts::HostTensor &tensor : inputs)
          if (tensor.isFloat() &&
              llvm::any_of(tensor.load<double>(),
                           [](double x) { return std::isnan(x); }))
            return userError("holds NaN, which no integer stands for",
                             host.sampleName(i), "leave this sample out");
        ASSIGN_OR_RETURN(Tensors made, results(exact, i, inputs));
        // In the order of the model: what is reported is where it begins.
        for (const LayerReport &layer : report.layers) {
          const std::string &name = layer.layer.input;
          if (!statistics[name].addExtent(spanOf(exact.of(made, name))))
            return userError(
                "makes '" + name + "' infinite or NaN", host.sampleName(i),
                "leave this sample out, or keep what reads the value "
                "in float (keep)");
        }
        return success();
      });
  if (!status)
    return status;
  if (options.range != RangeChoice::minmax) {
    status = eachSample("count", [&](int i, const Tensors &inputs) -> Status {
      ASSIGN_OR_RETURN(Tensors made, results(exact, i, inputs));
      for (auto &[name, own] : statistics)
        own.addCounts(spanOf(exact.of(made, name)));
      return success();
    });
    if (!status)
      return status;
  }
  std::map<std::string, Range> ranges;
  for (auto &[name, own] : statistics)
    ranges[name] = own.choose(options.range, options.percentile,
                              options.signedActivations);
  std::vector<LayerReport> layers;
  for (LayerReport &layer : report.layers) {
    layer.range = ranges[layer.layer.input];
    layer.steps = stepsOf(layer.range, options.signedActivations);
    if (layer.steps.scale < 1e-37f)
      report.kept.push_back({layer.layer.name, layer.layer.op,
                             "its input was 0 in all of the calibration data"});
    else
      layers.push_back(std::move(layer));
  }
  report.layers = std::move(layers);
  return success();
}

/// What the layer is to read on its left (0) and on its right (1).
Expected<std::string> Quantizer::operandFor(const LayerReport &layer,
                                            QuantisedOperands &operands,
                                            int side) {
  if (side == 0)
    return isStatic() ? operands.activation(layer.layer, layer.steps,
                                            options.signedActivations)
                      : layer.layer.input;
  return isStatic() ? operands.columns(layer.layer)
                    : operands.blocks(layer.layer, blockFormat());
}

Expected<std::string> Quantizer::quantised(bool showResults, bool isFile) {
  OnnxEdit edit(*file);
  QuantisedOperands operands(*file, edit);
  TRY(raiseOpset(*file, edit, !isStatic()));
  for (const LayerReport &layer : report.layers) {
    for (int side : {0, 1}) {
      ASSIGN_OR_RETURN(std::string name, operandFor(layer, operands, side));
      edit.setInput(layer.layer.node, side, name);
    }
    if (showResults)
      edit.addOutput(layer.layer.output);
  }
  for (const LayerReport &layer : report.layers)
    edit.removeUnread(layer.layer.weightName);
  Expected<std::string> bytes = edit.write();
  constexpr size_t largest = 0x7fffffff;
  if (bytes && isFile && bytes->size() > largest)
    return userError("is larger than the 2 GB that one ONNX file may have",
                     "the quantised model", "write a .knap");
  return bytes;
}

/// The float model, and beside each layer the same with quantised operands.
Expected<std::string> Quantizer::oneByOne() {
  OnnxEdit edit(*file);
  QuantisedOperands operands(*file, edit);
  TRY(raiseOpset(*file, edit, !isStatic()));
  for (const LayerReport &layer : report.layers) {
    onnx::NodeProto copy = file->model().graph().node(layer.layer.node);
    for (int side : {0, 1}) {
      ASSIGN_OR_RETURN(std::string name, operandFor(layer, operands, side));
      *copy.mutable_input(side) = name;
    }
    *copy.mutable_output(0) = edit.freshName(aloneName(layer.layer));
    edit.addOutput(copy.output(0));
    edit.addBefore(layer.layer.node, std::move(copy));
  }
  return edit.write();
}

Status Quantizer::compareLayers(const Loaded &exact) {
  if (report.layers.empty())
    return success();
  Expected<std::string> model = quantised(/*showResults=*/true, false);
  if (!model)
    return model.takeError();
  ASSIGN_OR_RETURN(Loaded together, loadBytes(*model));
  model = oneByOne();
  if (!model)
    return model.takeError();
  ASSIGN_OR_RETURN(Loaded alone, loadBytes(*model));
  size_t own = names.size(); // the copies' results are the added outputs
  return eachSample("compare", [&](int i, const Tensors &inputs) -> Status {
    ASSIGN_OR_RETURN(Tensors wanted, results(exact, i, inputs));
    ASSIGN_OR_RETURN(Tensors all, results(together, i, inputs));
    ASSIGN_OR_RETURN(Tensors single, results(alone, i, inputs));
    for (auto [k, layer] : llvm::enumerate(report.layers)) {
      const ts::HostTensor &right = exact.of(wanted, layer.layer.output);
      const ts::HostTensor &made = together.of(all, layer.layer.output);
      layer.alone.add((single)[own + k], right);
      if (made.dims() == right.dims()) // else what is before it changed a size
        layer.together.add(made, right);
    }
    return success();
  });
}

Status Quantizer::compareOutputs(const Loaded &exact, const Loaded &made) {
  for (size_t k = 0; k < made.outputs.size(); ++k)
    report.outputs.push_back({made.outputs[k], {}});
  return eachSample("compare", [&](int i, const Tensors &inputs) -> Status {
    ASSIGN_OR_RETURN(Tensors wanted, results(exact, i, inputs));
    ASSIGN_OR_RETURN(Tensors got, results(made, i, inputs));
    for (size_t k = 0; k < report.outputs.size(); ++k) {
      // Sizes that data decides may differ.
      if ((wanted)[k].dims() != (got)[k].dims())
        return userError("output '" + made.outputs[k] +
                             "' has another size after quantisation",
                         host.sampleName(i),
                         "leave this output out of the model");
      report.outputs[k].second.add((got)[k], (wanted)[k]);
    }
    return success();
  });
}

/// Compiles the quantised model into `output` ("": a descriptor) and, where
/// there is data, measures it.
Expected<int> Quantizer::compileTo(const std::string &output,
                                   const CompileInput &model,
                                   const Options &settings,
                                   const Loaded *exact) {
  CompileStats stats;
  Expected<int> fd = compileModel(model, settings, output, &stats, progress);
  if (!fd)
    return fd;
  report.bytes = stats.artefactBytes;
  if (!exact)
    return fd;
  int own = *fd < 0 ? open(output.c_str(), O_RDONLY | O_CLOEXEC) : dup(*fd);
  if (own < 0)
    return OutputFile::writeError(output, errno);
  Loaded made;
  ASSIGN_OR_RETURN(QuantizeHost::Run run, host.load(own, &made.outputs));
  made.run = std::move(run);
  TRY(compareOutputs(*exact, made));
  return fd;
}

/// The compiler's own pass, which also sees matmuls that other operators
/// become.
Expected<int> Quantizer::weightsOnlyArtefact(const std::string &output) {
  if (!options.keep.empty())
    return userError("an artefact with integer weights alone keeps no node",
                     "option keep", "write an .onnx file and compile that");
  std::optional<Loaded> exact;
  if (options.samples) {
    ASSIGN_OR_RETURN(Loaded loaded,
                     load(input, floatOptions(), &report.floatBytes));
    exact = std::move(loaded);
  }
  Options settings = compile;
  settings.weights = options.weightsOnly;
  return compileTo(output, input, settings, exact ? &*exact : nullptr);
}

Status writeFile(const std::string &path, const std::string &bytes) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count =
        write(file.descriptor(), bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno != EINTR)
      return OutputFile::writeError(path, errno);
    at += count < 0 ? 0 : static_cast<size_t>(count);
  }
  return file.commit();
}

Expected<int> Quantizer::run(const std::string &output) {
  report.samples = options.samples;
  bool isFile = llvm::StringRef(output).ends_with(".onnx");
  if (!isFile && !output.empty() && !llvm::StringRef(output).ends_with(".knap"))
    return userError("is neither an artefact nor a model", output,
                     "-o FILE.knap, or -o FILE.onnx");
  if (!isStatic() && !isFile)
    return weightsOnlyArtefact(output);
  if (isStatic() && options.samples < 1)
    return userError("there is no calibration data", "option calibrate",
                     "give inputs that the model will meet in use");
  TRY(openFile());
  if (report.layers.empty())
    return noLayers();
  std::optional<Loaded> exact;
  if (options.samples) {
    ASSIGN_OR_RETURN(std::string model, probe());
    ASSIGN_OR_RETURN(Loaded loaded,
                     load(madeFrom(model), floatOptions(), &report.floatBytes));
    exact = std::move(loaded);
  }
  if (isStatic())
    TRY(calibrate(*exact));
  if (report.layers.empty())
    return noLayers();
  ASSIGN_OR_RETURN(std::string model, quantised(/*showResults=*/false, isFile));
  if (isFile)
    TRY(writeFile(output, model));
  CompileInput made = madeFrom(model);
  int fd = -1;
  if (!isFile || exact) {
    ASSIGN_OR_RETURN(int compiled,
                     compileTo(isFile ? "" : output, made, compile,
                               exact ? &*exact : nullptr));
    fd = compiled;
  }
  if (isFile) {
    report.bytes = model.size();
    report.floatBytes = file->size();
    if (fd >= 0)
      close(fd);
    fd = -1;
  }
  model = std::string();
  if (exact)
    TRY(compareLayers(*exact));
  return fd;
}

Error Quantizer::noLayers() const {
  std::string text = "has no matmul that integers can compute";
  for (const KeptNode &node : llvm::ArrayRef(report.kept).take_front(5))
    text += cat("\n  ", node.name, ": ", node.why);
  return userError(text, input.path.empty() ? "the model" : input.path,
                   "quantise models with MatMul, Gemm or Conv by constants");
}

} // namespace

std::string QuantizeReport::json() const {
  JsonWriter writer;
  writer.beginObject()
      .field("artefact_bytes", bytes)
      .field("float_bytes", floatBytes)
      .field("samples", samples)
      .key("outputs")
      .beginArray();
  for (const auto &[name, distance] : outputs) {
    writer.beginObject().field("name", name);
    distance.writeTo(writer);
    writer.endObject();
  }
  writer.endArray().key("layers").beginArray();
  for (const LayerReport &own : layers) {
    const Layer &layer = own.layer;
    writer.beginObject()
        .field("name", layer.name)
        .field("operator", layer.op)
        .field("input", layer.input)
        .field("result", layer.output)
        .field("rows", layer.rows)
        .field("columns", layer.columns);
    if (own.range.low != own.range.high)
      writer.field("low", own.range.low)
          .field("high", own.range.high)
          .field("scale", double(own.steps.scale))
          .field("zero_point", own.steps.zero);
    for (auto [name, distance] :
         {std::pair("alone", &own.alone), std::pair("together", &own.together)})
      if (distance->elements) {
        writer.key(name).beginObject();
        distance->writeTo(writer);
        writer.endObject();
      }
    writer.endObject();
  }
  writer.endArray().key("kept").beginArray();
  for (const KeptNode &node : kept)
    writer.beginObject()
        .field("name", node.name)
        .field("operator", node.op)
        .field("why", node.why)
        .endObject();
  return writer.endArray().endObject().take();
}

Expected<int> quantizeModel(const CompileInput &input, const Options &compile,
                            const QuantizeOptions &options,
                            const std::string &output, QuantizeHost &host,
                            QuantizeReport &report,
                            const ProgressFn &progress) {
  if (input.cancel.isWished())
    return cancelled();
  Expected<int> made =
      Quantizer(input, compile, options, host, report, progress).run(output);
  // A compile or a run that was ended says what it was.
  if (!made && input.cancel.isWished())
    return cancelled();
  return made;
}

} // namespace knapper
