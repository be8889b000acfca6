#include "runtime/base/Text.h"
#include "tools/knapper/Element.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Texts.h"

#include "llvm/Support/Base64.h"
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

struct RunArguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  std::vector<std::string> outputs;
  bool verify = false;
};

/// "y: f32 [2, 3]  min -1 max 2 mean 0.1  0.5 0.25 ..."
void summarise(const std::string &name, const knapper_tensor &tensor) {
  std::string line = printable(name) + ": " + typeText(tensor);
  int64_t count = elementCount(tensor.shape, size_t(tensor.rank));
  constexpr int64_t shown = 6;
  if (tensor.dtype == KNAPPER_STRING) {
    line += " ";
    for (int64_t i = 0; i < std::min(count, shown); ++i)
      line += cat(" ", quoted(textAt(tensor, i)));
    print(line + (count > shown ? " ...\n" : "\n"));
    return;
  }
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
  for (int64_t i = 0; i < std::min(count, shown); ++i)
    line += format(" %.6g", element(tensor, i));
  print(line + (count > shown ? " ...\n" : "\n"));
}

Status write(const std::vector<std::string> &wanted,
             const std::vector<NamedTensor> &outputs) {
  for (const std::string &text : wanted) {
    if (text.ends_with(".npz")) {
      TRY(writeNpz(text, outputs));
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
    TRY(writeNpy(path, chosen->second));
  }
  return success();
}

/// The kernel alone, as `MODEL.kernel.mlir`, with what it read beside it. The
/// command that repeats the divergence, or why there is none.
Expected<std::string> writeReproducer(const std::string &model,
                                      const nlohmann::json &made) {
  if (made.is_null())
    return std::string("report this with the model and the inputs");
  std::vector<std::vector<char>> bytes;
  std::vector<std::vector<int64_t>> shapes;
  for (const nlohmann::json &input : made["inputs"]) {
    std::vector<char> &data = bytes.emplace_back();
    if (llvm::decodeBase64(input["base64"].get_ref<const std::string &>(),
                           data))
      return internalError("the reproducer cannot be read");
    shapes.push_back(input["shape"].get<std::vector<int64_t>>());
  }
  std::vector<NamedTensor> arrays;
  for (size_t i = 0; i < bytes.size(); ++i)
    arrays.emplace_back("input" + std::to_string(i),
                        knapper_tensor{bytes[i].data(), bytes[i].size(),
                                       made["inputs"][i]["dtype"],
                                       int32_t(shapes[i].size()),
                                       shapes[i].data()});
  std::string program =
      std::filesystem::path(model).stem().string() + ".kernel.mlir";
  std::string data = program.substr(0, program.size() - 4) + "npz";
  if (Status status =
          writeFile(program, made["program"].get_ref<const std::string &>());
      !status)
    return status.takeError();
  TRY(writeNpz(data, arrays));
  return "report this with " + program + " and " + data +
         ", which repeat it: knapper run --verify " + program + " -i " + data;
}

/// NAME of a choice "KIND{NAME}" of the launch at `origin`: the kernel of
/// --kernels ("user"), the library ("vendor"); "" if none.
Expected<std::string> foreignCodeAt(knapper_module *module,
                                    const std::string &origin,
                                    const char *kind) {
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module, &text)));
  auto about = nlohmann::json::parse(text, nullptr, false);
  const std::string mark = cat(kind, "{");
  for (const nlohmann::json &launch :
       about.value("launches", nlohmann::json::array()))
    for (const nlohmann::json &choice :
         launch.value("choices", nlohmann::json::array()))
      if (std::string schedule = choice.value("schedule", "");
          launch.value("origin", "") == origin && schedule.starts_with(mark))
        return schedule.substr(mark.size(), schedule.size() - mark.size() - 1);
  return std::string();
}

/// Every kernel against the reference; a divergence is a defect of ours, unless
/// a user brought the kernel or a library has computed it.
Status verify(const ModelArgument &model, knapper_module *module,
              const std::vector<knapper_tensor> &inputs) {
  ASSIGN_OR_RETURN(std::string text, model.verify(inputs));
  auto report = nlohmann::json::parse(text, nullptr, false);
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
  std::string what = format("%zu of %zu kernels diverge from the float64 "
                            "reference, first kernel %zu",
                            diverging, kernels.size(), first);
  ASSIGN_OR_RETURN(std::string user,
                   foreignCodeAt(module,
                                 kernels[first]["origin"].get<std::string>(),
                                 "user"));
  ASSIGN_OR_RETURN(std::string library,
                   foreignCodeAt(module,
                                 kernels[first]["origin"].get<std::string>(),
                                 "vendor"));
  if (kernels[first]["hero"] == "plan")
    return userError("results differ where they lie over operands",
                     describe(kernels[first]),
                     "leave \"in_place\" out of the file of --kernels where a "
                     "kernel writes before it reads");
  if (!user.empty())
    return userError(what, describe(kernels[first]),
                     "mend the user kernel '" + user + "', which computes it");
  if (!library.empty())
    return deviceError(
        what, describe(kernels[first]),
        "run it without --vendor: if it agrees, the matmul of '" + library +
            "' is what diverges");
  ASSIGN_OR_RETURN(std::string hint,
                   writeReproducer(model.path(), report["reproducer"]));
  Error error = internalError(what, describe(kernels[first]));
  error.hint = hint;
  return error;
}

Status run(Session &session, RunArguments &arguments) {
  TRY(arguments.dims.parse());
  if (arguments.verify)
    TRY(arguments.model.canVerify());
  ASSIGN_OR_RETURN(ModulePtr module, arguments.model.open(session));
  ASSIGN_OR_RETURN(std::vector<Array> inputs,
                   arguments.inputs.make(module.get(), arguments.dims));
  std::vector<knapper_tensor> tensors = tensorsOf(inputs);
  ASSIGN_OR_RETURN(ResultPtr made, cli::run(module.get(), tensors));
  ResultPtr result = std::move(made);
  std::vector<NamedTensor> outputs;
  for (int32_t i = 0; i < knapper_result_num_outputs(result.get()); ++i) {
    knapper_tensor tensor = {};
    if (Status status =
            toStatus(knapper_result_output(result.get(), i, &tensor));
        !status)
      return status;
    ASSIGN_OR_RETURN(knapper_tensor_info info, outputInfo(module.get(), i));
    outputs.emplace_back(info.name, tensor);
  }
  TRY(write(arguments.outputs, outputs));
  print(arguments.dims.chosenText());
  for (const auto &[name, tensor] : outputs)
    summarise(name, tensor);
  return arguments.verify ? verify(arguments.model, module.get(), tensors)
                          : success();
}

} // namespace

void addRun(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App *command =
      app.add_subcommand("run", "Runs a model once on files or random inputs");
  arguments->model.addTo(*command);
  arguments->inputs.addTo(*command);
  arguments->dims.addWithAutoTo(*command);
  command
      ->add_option("-o,--output", arguments->outputs,
                   "FILE.npz for all outputs, NAME=FILE.npy for one, or "
                   "FILE.npy if there is only one; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--verify", arguments->verify,
                    "Check every kernel of an .onnx model against a slow "
                    "float64 evaluation; the first that diverges is named and "
                    "written as a program of its own");
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
