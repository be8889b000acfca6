#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

struct Arguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  std::vector<std::string> outputs;
  bool verify = false;
};

double floatOfHalf(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -value : value;
}

template <typename T> T at(const knapper_tensor &tensor, int64_t i) {
  T value;
  memcpy(&value, static_cast<const char *>(tensor.data) + i * sizeof(T),
         sizeof(T));
  return value;
}

/// A float of sign, exponent and `mantissa` bits; `bits` without those above.
double smallFloat(int bits, int sign, int mantissa, int bias) {
  int magnitude = bits & (sign - 1), exponent = magnitude >> mantissa;
  int fraction = magnitude & ((1 << mantissa) - 1);
  double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                               : std::ldexp(fraction + (1 << mantissa),
                                            exponent - bias - mantissa);
  return bits & sign ? -value : value;
}

double storageElement(knapper_dtype dtype, uint8_t byte) {
  int width = dtype == KNAPPER_I2 || dtype == KNAPPER_U2 ? 2 : 4;
  int low = byte & ((1 << width) - 1);
  switch (dtype) {
  case KNAPPER_F8E4M3FN:
    return (byte & 0x7f) == 0x7f ? NAN : smallFloat(byte, 0x80, 3, 7);
  case KNAPPER_F8E4M3FNUZ:
    return byte == 0x80 ? NAN : smallFloat(byte, 0x80, 3, 8);
  case KNAPPER_F8E5M2:
    if ((byte & 0x7f) >= 0x7c)
      return (byte & 0x7f) > 0x7c ? NAN : byte & 0x80 ? -INFINITY : INFINITY;
    return smallFloat(byte, 0x80, 2, 15);
  case KNAPPER_F8E5M2FNUZ:
    return byte == 0x80 ? NAN : smallFloat(byte, 0x80, 2, 16);
  case KNAPPER_F8E8M0:
    return byte == 0xff ? NAN : std::ldexp(1, byte - 127);
  case KNAPPER_F4E2M1:
    return smallFloat(low, 0x8, 1, 1);
  case KNAPPER_I4:
  case KNAPPER_I2:
    return low >> (width - 1) ? low - (1 << width) : low;
  default:
    return low;
  }
}

double element(const knapper_tensor &t, int64_t i) {
  switch (t.dtype) {
  case KNAPPER_F32:
    return at<float>(t, i);
  case KNAPPER_F64:
    return at<double>(t, i);
  case KNAPPER_F16:
    return floatOfHalf(at<uint16_t>(t, i));
  case KNAPPER_BF16:
    return std::bit_cast<float>(uint32_t(at<uint16_t>(t, i)) << 16);
  case KNAPPER_I8:
    return at<int8_t>(t, i);
  case KNAPPER_I1:
  case KNAPPER_U8:
    return at<uint8_t>(t, i);
  case KNAPPER_I16:
    return at<int16_t>(t, i);
  case KNAPPER_I32:
    return at<int32_t>(t, i);
  case KNAPPER_I64:
    return double(at<int64_t>(t, i));
  case KNAPPER_U16:
    return at<uint16_t>(t, i);
  case KNAPPER_U32:
    return at<uint32_t>(t, i);
  case KNAPPER_U64:
    return double(at<uint64_t>(t, i));
  default:
    return storageElement(t.dtype, at<uint8_t>(t, i));
  }
}

/// "y: f32 [2, 3]  min -1 max 2 mean 0.1  0.5 0.25 ..."
void summarise(const std::string &name, const knapper_tensor &tensor) {
  std::string line = printable(name) + ": " + typeText(tensor);
  int64_t count = elementCount(tensor.shape, size_t(tensor.rank));
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t undefined = 0;
  for (int64_t i = 0; i < count; ++i) {
    double value = element(tensor, i);
    if (std::isnan(value)) {
      ++undefined;
      continue;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  if (count > undefined)
    line += format("  min %.6g max %.6g mean %.6g ", low, high,
                   sum / double(count - undefined));
  if (undefined)
    line += format("  %lld not a number ", static_cast<long long>(undefined));
  for (int64_t i = 0; i < std::min<int64_t>(count, 6); ++i)
    line += format(" %.6g", element(tensor, i));
  print(line + (count > 6 ? " ...\n" : "\n"));
}

Status write(const std::vector<std::string> &wanted,
             const std::vector<NamedTensor> &outputs) {
  for (const std::string &text : wanted) {
    if (text.ends_with(".npz")) {
      if (Status status = writeNpz(text, outputs); !status)
        return status;
      continue;
    }
    const NamedTensor *chosen = nullptr;
    std::string path = text, names;
    for (const NamedTensor &output : outputs) {
      names += (names.empty() ? "" : ", ") + output.first;
      if (text.starts_with(output.first + "=")) {
        chosen = &output;
        path = text.substr(output.first.size() + 1);
      }
    }
    if (!chosen && outputs.size() == 1 && text.find('=') == std::string::npos)
      chosen = &outputs[0];
    if (!chosen)
      return userError("says not which output it is for", "--output " + text,
                       "FILE.npz for all, or NAME=FILE.npy with a name of: " +
                           names);
    if (Status status = writeNpy(path, chosen->second); !status)
      return status;
  }
  return success();
}

/// Every kernel against the reference; a divergence is a defect of ours.
Status verify(const ModelArgument &model,
              const std::vector<knapper_tensor> &inputs) {
  Expected<std::string> text = model.verify(inputs);
  if (!text)
    return text.takeError();
  auto report = nlohmann::json::parse(*text, nullptr, false);
  if (!report.is_object())
    return internalError("the report of the verification cannot be read");
  auto describe = [](const nlohmann::json &kernel) {
    return kernel["hero"].get<std::string>() + " " +
           printable(kernel["origin"].get<std::string>());
  };
  auto number = [](const nlohmann::json &value) { // infinite: null
    return value.is_number() ? value.get<double>() : INFINITY;
  };
  const nlohmann::json &kernels = report["kernels"];
  size_t diverging = 0, worst = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const nlohmann::json &kernel = kernels[i];
    if (number(kernel["error"]) > number(kernels[worst]["error"]))
      worst = i;
    if (kernel["passed"].get<bool>())
      continue;
    ++diverging;
    print(format("kernel %zu diverges: ", i) + describe(kernel) + ": " +
          printable(kernel["worst"].get<std::string>()) +
          format("; error %.3g, bound %.3g\n", number(kernel["error"]),
                 number(kernel["bound"])));
  }
  if (diverging == 0) {
    std::string line =
        format("verified: %zu kernels agree with the float64 reference",
               kernels.size());
    if (!kernels.empty())
      line += format("; largest error %.3g of %.3g, kernel %zu (",
                     number(kernels[worst]["error"]),
                     number(kernels[worst]["bound"]), worst) +
              describe(kernels[worst]) + ")";
    print(line + "\n");
    return success();
  }
  auto first = report["first_divergent"].get<size_t>();
  return internalError(format("%zu of %zu kernels diverge from the float64 "
                              "reference, first kernel %zu",
                              diverging, kernels.size(), first),
                       describe(kernels[first]));
}

Status run(Session &session, Arguments &arguments) {
  if (Status status = arguments.dims.parse(); !status)
    return status;
  if (arguments.verify)
    if (Status status = arguments.model.canVerify(); !status)
      return status;
  Expected<ModulePtr> module = arguments.model.open(session);
  if (!module)
    return module.takeError();
  Expected<std::vector<Array>> inputs =
      arguments.inputs.make(module->get(), arguments.dims.values());
  if (!inputs)
    return inputs.takeError();
  std::vector<knapper_tensor> tensors = tensorsOf(*inputs);
  knapper_result *made = nullptr;
  if (Status status = toStatus(knapper_run(module->get(), tensors.data(),
                                           static_cast<int32_t>(tensors.size()),
                                           nullptr, 0, &made));
      !status)
    return status;
  ResultPtr result(made);
  std::vector<NamedTensor> outputs;
  for (int32_t i = 0; i < knapper_result_num_outputs(result.get()); ++i) {
    knapper_tensor tensor = {};
    if (Status status =
            toStatus(knapper_result_output(result.get(), i, &tensor));
        !status)
      return status;
    Expected<knapper_tensor_info> info = outputInfo(module->get(), i);
    if (!info)
      return info.takeError();
    outputs.emplace_back(info->name, tensor);
  }
  if (Status status = write(arguments.outputs, outputs); !status)
    return status;
  for (const auto &[name, tensor] : outputs)
    summarise(name, tensor);
  return arguments.verify ? verify(arguments.model, tensors) : success();
}

} // namespace

void addRun(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command =
      app.add_subcommand("run", "Runs a model once on files or random inputs");
  arguments->model.addTo(*command);
  arguments->inputs.addTo(*command);
  arguments->dims.addTo(*command,
                        "A size of the random inputs; may be repeated");
  command
      ->add_option("-o,--output", arguments->outputs,
                   "FILE.npz for all outputs, NAME=FILE.npy for one, or "
                   "FILE.npy if there is only one; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--verify", arguments->verify,
                    "Check every kernel of an .onnx model against a slow "
                    "float64 evaluation; the first that diverges is named");
  command->footer("For example:\n"
                  "  knapper run model.knap --dim batch=2 --dim seq=16\n"
                  "  knapper run --verify model.onnx --dim batch=1\n"
                  "  knapper run model.knap -i x=x.npy -o results.npz\n"
                  "bfloat16 arrays are NumPy's two-byte void: "
                  "numpy.load(f).view(ml_dtypes.bfloat16)");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] { return run(session, *arguments); };
  });
}

} // namespace knapper::cli
