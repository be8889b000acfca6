#include "tools/knapper/Element.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/KernelDiff.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Texts.h"
#include "tools/knapper/Timing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::pair<std::string, int64_t>>;

constexpr int kOutputsDiffer = 4;        // exit code
constexpr int64_t kSizes[] = {1, 3, 32}; // of what --dim does not give
constexpr double kKernelSeconds = 0.3;   // for the times of single kernels

struct CompareArguments {
  std::string paths[2];
  Dims dims;
  Inputs inputs;
  int threads = 0;
  std::string isa, device;
  int64_t rounds = 20;
  bool json = false;
};

Expected<ModulePtr> load(const CompareArguments &arguments, int which) {
  knapper_load_options load = KNAPPER_LOAD_OPTIONS_INIT;
  load.threads = arguments.threads;
  load.isa = arguments.isa.empty() ? nullptr : arguments.isa.c_str();
  load.device = arguments.device.empty() ? nullptr : arguments.device.c_str();
  knapper_module *module = nullptr;
  TRY(toStatus(knapper_load(arguments.paths[which].c_str(), &load, &module)));
  return ModulePtr(module);
}

using CountFunction = int32_t (*)(const knapper_module *);
using InfoFunction = Expected<knapper_tensor_info> (*)(const knapper_module *,
                                                       int32_t);

/// "x: f32 [n, 4]; ..."
Expected<std::string> signatureText(const knapper_module *module,
                                    CountFunction count, InfoFunction read) {
  std::string text;
  for (int32_t i = 0; i < count(module); ++i) {
    ASSIGN_OR_RETURN(knapper_tensor_info info, read(module, i));
    text += format("%s%s: %s [", i ? "; " : "", info.name,
                   knapper_dtype_name(info.dtype));
    for (int32_t d = 0; d < info.rank; ++d)
      text += format("%s%s", d ? ", " : "", info.dim_text[d]);
    text += "]";
  }
  return text;
}

/// UserError unless both take and give the same.
Status sameSignature(const CompareArguments &arguments,
                     const knapper_module *first,
                     const knapper_module *second) {
  struct Part {
    const char *what;
    CountFunction count;
    InfoFunction read;
  };
  for (Part part : {Part{"inputs", knapper_module_num_inputs, inputInfo},
                    Part{"outputs", knapper_module_num_outputs, outputInfo}}) {
    Expected<std::string> a = signatureText(first, part.count, part.read);
    if (!a)
      return a.takeError();
    ASSIGN_OR_RETURN(std::string b,
                     signatureText(second, part.count, part.read));
    if (*a != b)
      return userError(
          std::string("the models have other ") + part.what + ": " + *a +
              " and " + b,
          arguments.paths[0] + ", " + arguments.paths[1],
          "compare artefacts of one model; times of a file with fixed "
          "sizes: knapper explain FILE --profile --compare FILE");
  }
  return success();
}

/// What a model is run at: the k-th value of each size, the last one again
/// where there are fewer; sizes that are not given are those of the files, or
/// small, middling, large.
Expected<std::vector<Sizes>> sizesOf(const knapper_module *module,
                                     const Sizes &given, const Inputs &inputs) {
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module, &text)));
  std::map<std::string, std::vector<int64_t>> values;
  for (const auto &[name, value] : given)
    values[name].push_back(value);
  ASSIGN_OR_RETURN(Sizes inFiles, inputs.sizesInFiles(module));
  const std::map<std::string, int64_t> found(inFiles.begin(), inFiles.end());
  const Json description = Json::parse(text);
  for (const Json &symbol : description.at("symbols")) {
    std::string name = symbol.at("name").get<std::string>();
    if (symbol.value("from_buffer", false) || values.contains(name))
      continue;
    if (auto size = found.find(name); size != found.end()) {
      values[name].push_back(size->second);
      continue;
    }
    int64_t divisor = std::max<int64_t>(symbol.value("divisor", int64_t(1)), 1);
    int64_t least = symbol.value("min", int64_t(0));
    int64_t most = symbol.value("max", INT64_MAX);
    for (int64_t size : kSizes) {
      size =
          std::max(size * divisor, (least + divisor - 1) / divisor * divisor);
      values[name].push_back(std::min(size, most / divisor * divisor));
    }
  }
  size_t count = 1;
  for (const auto &[name, list] : values)
    count = std::max(count, list.size());
  std::vector<Sizes> sets(count);
  for (size_t k = 0; k < count; ++k)
    for (const auto &[name, list] : values)
      sets[k].emplace_back(name, list[std::min(k, list.size() - 1)]);
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

/// The outputs of two runs: {"same": bool, "outputs": [those that differ]}.
Expected<Json> compareResults(const knapper_module *module,
                              const knapper_result *first,
                              const knapper_result *second) {
  Json differing = Json::array();
  for (int32_t i = 0; i < knapper_result_num_outputs(first); ++i) {
    knapper_tensor a = {}, b = {};
    TRY(toStatus(knapper_result_output(first, i, &a)));
    TRY(toStatus(knapper_result_output(second, i, &b)));
    ASSIGN_OR_RETURN(knapper_tensor_info info, outputInfo(module, i));
    Json entry = {{"name", info.name}, {"type", typeText(a)}};
    if (typeText(a) != typeText(b)) {
      entry["other_type"] = typeText(b);
      differing.push_back(entry);
      continue;
    }
    int64_t elements = elementCount(a.shape, size_t(a.rank)), unequal = 0;
    if (a.dtype == KNAPPER_STRING) {
      for (int64_t k = 0; k < elements; ++k)
        unequal += textAt(a, k) != textAt(b, k);
      if (unequal == 0)
        continue;
      entry["elements"] = elements;
      entry["differing"] = unequal;
      differing.push_back(entry);
      continue;
    }
    if (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0)
      continue;
    size_t width = knapper_dtype_size(a.dtype);
    double largest = 0, magnitude = 0;
    for (int64_t k = 0; k < elements; ++k) {
      auto at = static_cast<size_t>(k) * width;
      double x = element(a, k), y = element(b, k);
      if (std::isfinite(x))
        magnitude = std::max(magnitude, std::fabs(x));
      if (memcmp(static_cast<char *>(a.data) + at,
                 static_cast<char *>(b.data) + at, width) == 0)
        continue;
      ++unequal;
      double difference = std::isnan(x) && std::isnan(y) ? 0 : std::fabs(x - y);
      largest =
          std::max(largest, std::isnan(difference) ? INFINITY : difference);
    }
    entry["elements"] = elements;
    entry["differing"] = unequal;
    entry["largest_difference"] = largest; // infinite: null
    entry["largest_value"] = magnitude;
    differing.push_back(entry);
  }
  return Json{{"same", differing.empty()}, {"outputs", differing}};
}

Json spreadOf(const std::vector<double> &values, double scale) {
  return {{"median", quantile(values, 0.5) * scale},
          {"p25", quantile(values, 0.25) * scale},
          {"p75", quantile(values, 0.75) * scale}};
}

/// Bits and speed at one set of sizes.
Expected<Json> compareAt(const CompareArguments &arguments,
                         knapper_module *first, knapper_module *second,
                         const Sizes &sizes) {
  Json json = {{"sizes", Json::object()}};
  for (const auto &[name, value] : sizes)
    json["sizes"][name] = value;
  ASSIGN_OR_RETURN(std::vector<Array> inputs,
                   arguments.inputs.make(first, sizes));
  std::vector<knapper_tensor> tensors = tensorsOf(inputs);
  Expected<ResultPtr> a = run(first, tensors);
  Expected<ResultPtr> b = run(second, tensors);
  if (!a || !b) {
    for (const Expected<ResultPtr> *each : {&a, &b})
      if (!*each && each->error().kind != ErrorKind::user)
        return Error(each->error());
    json["refused"] = Json::array();
    for (const Expected<ResultPtr> *each : {&a, &b})
      json["refused"].push_back(*each ? Json() : Json(each->error().message()));
    json["same"] = !a && !b;
    return json;
  }
  ASSIGN_OR_RETURN(Json outputs, compareResults(first, a->get(), b->get()));
  json.update(outputs);
  a->reset();
  b->reset();
  ASSIGN_OR_RETURN(std::vector<RunPair> pairs,
                   timeRounds(first, second, tensors, arguments.rounds));
  std::vector<double> ones, others, ratios;
  for (const RunPair &pair : pairs) {
    ones.push_back(pair.first);
    others.push_back(pair.second);
    ratios.push_back(pair.first / pair.second);
  }
  json["rounds"] = arguments.rounds;
  json["first_ms"] = spreadOf(ones, 1e3);
  json["second_ms"] = spreadOf(others, 1e3);
  json["ratio"] = spreadOf(ratios, 1);
  return json;
}

Json sideJson(const KernelDiff::Side &side) {
  return {{"names", side.names},
          {"schedules", side.schedules},
          {"code_bytes", side.codeBytes}};
}

Json kernelsJson(const ArtefactDiff &diff) {
  Json json = {{"same", 0}, {"differing", Json::array()}};
  size_t same = 0;
  for (const KernelDiff &kernel : diff.kernels) {
    if (!kernel.differs()) {
      ++same;
      continue;
    }
    Json what = Json::array();
    if (kernel.first.names.empty() || kernel.second.names.empty()) {
      what.push_back(kernel.first.names.empty() ? "only in the second"
                                                : "only in the first");
    } else {
      if (kernel.names)
        what.push_back("names");
      if (kernel.schedules)
        what.push_back("schedules");
      if (!kernel.code.empty())
        what.push_back("code");
    }
    json["differing"].push_back({{"signature", kernel.signature},
                                 {"origin", kernel.origin},
                                 {"what", what},
                                 {"code_differs_for", kernel.code},
                                 {"first", sideJson(kernel.first)},
                                 {"second", sideJson(kernel.second)}});
  }
  json["same"] = same;
  json["instruction_sets_only_first"] = diff.firstOnly;
  json["instruction_sets_only_second"] = diff.secondOnly;
  json["launches"] = {diff.launches[0], diff.launches[1]};
  json["launches_differ"] = diff.order;
  return json;
}

/// Adds the times of the kernels that differ, at one set of sizes.
Status timeKernels(const CompareArguments &arguments, knapper_module *first,
                   knapper_module *second, const Sizes &sizes, Json &kernels) {
  if (kernels["differing"].empty())
    return success();
  ASSIGN_OR_RETURN(std::vector<Array> inputs,
                   arguments.inputs.make(first, sizes));
  ASSIGN_OR_RETURN(
      SideBySide times,
      timeSideBySide(first, second, tensorsOf(inputs), kKernelSeconds));
  for (Json &kernel : kernels["differing"])
    if (auto found = times.kernels.find(kernel["signature"].get<std::string>());
        found != times.kernels.end()) {
      kernel["first"]["us"] = found->second.first * 1e6;
      kernel["second"]["us"] = found->second.second * 1e6;
      kernel["ratio"] = found->second.ratio;
    }
  return success();
}

std::string listOf(const Json &texts, const char *separator = ", ") {
  std::string list;
  for (const Json &text : texts)
    list +=
        (list.empty() ? "" : separator) + printable(text.get<std::string>());
  return list;
}

void showKernels(const Json &kernels) {
  print(format("kernels: %zu the same, %zu differ%s\n",
               kernels["same"].get<size_t>(), kernels["differing"].size(),
               kernels["launches_differ"].get<bool>()
                   ? "; the launches differ too"
                   : ""));
  for (const char *side : {"first", "second"})
    if (const Json &only =
            kernels[std::string("instruction_sets_only_") + side];
        !only.empty())
      print(format("  only the %s has code for %s\n", side,
                   listOf(only).c_str()));
  for (const Json &kernel : kernels["differing"]) {
    print(format("  %s (%s): %s\n",
                 kernel["signature"].get<std::string>().c_str(),
                 printable(kernel["origin"].get<std::string>()).c_str(),
                 listOf(kernel["what"]).c_str()));
    for (const char *side : {"first", "second"}) {
      const Json &part = kernel[side];
      if (part["names"].empty())
        continue;
      print(format("    %-6s %s  %s  %zu bytes", side,
                   listOf(part["names"]).c_str(),
                   listOf(part["schedules"], " | ").c_str(),
                   part["code_bytes"].get<size_t>()));
      print(part.contains("us")
                ? format("  %.1f us\n", part["us"].get<double>())
                : "\n");
    }
  }
}

void showOutputs(const Json &at) {
  if (at.contains("refused")) {
    for (int side : {0, 1})
      if (at["refused"][side].is_string())
        print(format("  %s refuses: ", side ? "second" : "first") +
              printable(at["refused"][side].get<std::string>(), true) + "\n");
    return;
  }
  for (const Json &output : at["outputs"]) {
    print("  " + printable(output["name"].get<std::string>()) + ": " +
          output["type"].get<std::string>());
    if (output.contains("other_type"))
      print(", " + output["other_type"].get<std::string>() + "\n");
    else
      print(format(": %lld of %lld elements differ",
                   static_cast<long long>(output["differing"].get<int64_t>()),
                   static_cast<long long>(output["elements"].get<int64_t>())) +
            (output.contains("largest_difference")
                 ? format(", by %.3g at most (largest value %.3g)\n",
                          output["largest_difference"].get<double>(),
                          output["largest_value"].get<double>())
                 : "\n"));
  }
}

/// "1.234 ms (1.2 to 1.3)".
std::string spreadText(const Json &spread, double scale, const char *unit) {
  return format("%.3f%s (%.3f to %.3f)", spread["median"].get<double>() * scale,
                unit, spread["p25"].get<double>() * scale,
                spread["p75"].get<double>() * scale);
}

std::string timesText(const Json &ms) {
  return ms["median"].get<double>() < 1 ? spreadText(ms, 1e3, " us")
                                        : spreadText(ms, 1, " ms");
}

void showRuns(const Json &runs) {
  for (const Json &at : runs) {
    std::string sizes;
    for (const auto &[name, value] : at["sizes"].items())
      sizes += (sizes.empty() ? "" : ", ") + printable(name) + "=" +
               std::to_string(value.get<int64_t>());
    print((sizes.empty() ? "outputs" : sizes) + ": " +
          (at["same"].get<bool>()
               ? at.contains("refused") ? "both refuse\n" : "the same bits\n"
               : "DIFFER\n"));
    showOutputs(at);
    if (!at.contains("ratio"))
      continue;
    print("  first " + timesText(at["first_ms"]) + ", second " +
          timesText(at["second_ms"]) + "; first / second " +
          spreadText(at["ratio"], 1, "") + "\n");
  }
}

Status compare(Session &session, CompareArguments &arguments) {
  TRY(arguments.dims.parse());
  ASSIGN_OR_RETURN(ModulePtr first, load(arguments, 0));
  ASSIGN_OR_RETURN(ModulePtr second, load(arguments, 1));
  knapper_module *a = first.get(), *b = second.get();
  TRY(sameSignature(arguments, a, b));
  ASSIGN_OR_RETURN(ArtefactDiff diff,
                   diffKernels(a, arguments.paths[0], b, arguments.paths[1]));
  Json json = {{"first", arguments.paths[0]},
               {"second", arguments.paths[1]},
               {"kernels", kernelsJson(diff)},
               {"same_outputs", true},
               {"runs", Json::array()}};
  ASSIGN_OR_RETURN(std::vector<Sizes> sets,
                   sizesOf(a, arguments.dims.values(), arguments.inputs));
  const Sizes *last = nullptr; // that both run at
  for (size_t k = 0; k < sets.size(); ++k) {
    session.progress("runs", static_cast<int>(k),
                     static_cast<int>(sets.size()));
    Expected<Json> at = compareAt(arguments, a, b, (sets)[k]);
    if (!at)
      return at.takeError();
    if (!at->contains("refused"))
      last = &(sets)[k];
    if (!(*at)["same"].get<bool>()) {
      json["same_outputs"] = false;
      session.exitCode = kOutputsDiffer;
    }
    json["runs"].push_back(std::move(*at));
  }
  session.progress("", 1, 1);
  if (!last && session.exitCode == 0)
    return userError("both refuse to run: " +
                         json["runs"][0]["refused"][0].get<std::string>(),
                     arguments.paths[0], "give other sizes with --dim");
  if (last)
    TRY(timeKernels(arguments, a, b, *last, json["kernels"]));
  if (arguments.json) {
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return success();
  }
  showKernels(json["kernels"]);
  showRuns(json["runs"]);
  return success();
}

} // namespace

void addCompare(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App *command = app.add_subcommand(
      "compare", "Says how two artefacts of a model differ: kernels, bits of "
                 "the outputs, speed");
  for (int which : {0, 1})
    command
        ->add_option(which ? "second" : "first", arguments->paths[which],
                     "A .knap file")
        ->required()
        ->type_name("FILE");
  arguments->inputs.addTo(*command);
  arguments->dims.addTo(*command,
                        "A size of the inputs; again for a size of the next "
                        "run. Sizes that are not given are 1, 3 and 32");
  command
      ->add_option("--rounds", arguments->rounds,
                   "How often both run at each size, interleaved")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(100000)))
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "Threads that run the models; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--isa", arguments->isa,
                   "Run the code for this instruction set [the best there is]")
      ->type_name("TEXT");
  command
      ->add_option("--device", arguments->device,
                   "Run the programs for it, of files with several [a GPU "
                   "where one is found]")
      ->type_name("cpu|cuda");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Kernels are compared by name, schedule and machine code, wherever the "
      "linker put it.\nExit codes: 0 the outputs are the same bits at every "
      "size; 4 they are not, or one\nrefuses what the other runs; others as "
      "for every command. For example:\n"
      "  knapper compare old.knap new.knap --dim batch=1 --dim batch=8 "
      "--dim seq=128");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return compare(session, *arguments);
    };
  });
}

} // namespace knapper::cli
