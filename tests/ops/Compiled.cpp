#include "tests/ops/Compiled.h"
#include "tune/Records.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

namespace knapper::opcases {

using ts::HostTensor;

namespace {

Error take(knapper_error *error) {
  Error ours{static_cast<ErrorKind>(knapper_error_get_kind(error)),
             knapper_error_get_message(error),
             {},
             {}};
  knapper_error_release(error);
  return ours;
}

std::vector<knapper_tensor> view(const std::vector<HostTensor> &tensors) {
  std::vector<knapper_tensor> views;
  for (const HostTensor &tensor : tensors)
    views.push_back({const_cast<uint8_t *>(tensor.data()), tensor.bytes(),
                     static_cast<knapper_dtype>(tensor.dtype()),
                     static_cast<int32_t>(tensor.rank()),
                     tensor.dims().data()});
  return views;
}

} // namespace

Expected<Compiled> Compiled::compile(std::string_view mlir,
                                     const std::string &isa,
                                     const std::string &file,
                                     const std::string &records) {
  bool gpu = isa.starts_with("sm_");
  std::string target = gpu ? "cuda:" + isa : "cpu";
  std::vector<knapper_option> options = {{"target", target.c_str()},
                                         {"cache", "false"},
                                         {"model-format", "mlir"},
                                         {"verify-each", "true"},
                                         {"threads", "1"}};
  if (!gpu)
    options.push_back({"isa", isa.c_str()});
  if (!records.empty())
    options.push_back({"records", records.c_str()});
  knapper_compile_options request = KNAPPER_COMPILE_OPTIONS_INIT;
  request.model_bytes = mlir.data();
  request.model_size = mlir.size();
  request.options = options.data();
  request.num_options = options.size();
  knapper_load_options load = KNAPPER_LOAD_OPTIONS_INIT;
  load.threads = 2;
  load.isa = isa.c_str();
  if (!file.empty())
    request.output_path = file.c_str();
  knapper_module *module = nullptr;
  if (knapper_error *error =
          knapper_compile(&request, &load, file.empty() ? &module : nullptr))
    return take(error);
  return Compiled(module);
}

Expected<std::optional<Compiled>> Compiled::otherwise(std::string_view mlir,
                                                      const std::string &isa,
                                                      unsigned number) const {
  auto json = nlohmann::json::parse(describe());
  const auto &report = json.at("report");
  tune::Records records;
  for (const auto &kernel :
       report.value("unique_kernels", nlohmann::json::array())) {
    unsigned left = number;
    for (const auto &knob : kernel.at("knobs")) {
      const auto &others = knob.at("others");
      if (left >= others.size()) {
        left -= others.size();
        continue;
      }
      tune::Record record;
      record.signature = kernel.at("signature");
      record.target = report.at("target");
      record.choice[knob.at("name")] = others[left];
      records.set(std::move(record));
      break;
    }
  }
  if (records.all().empty())
    return std::optional<Compiled>();
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("records", "json", path))
    return deviceError("no temporary file");
  llvm::FileRemover remover(path);
  std::ofstream(path.c_str()) << records.json();
  Expected<Compiled> made = compile(mlir, isa, {}, path.c_str());
  if (!made)
    return made.takeError();
  // A choice on offer that is not taken tests nothing.
  auto done = nlohmann::json::parse(made->describe());
  if (done.at("report").at("compile").at("records_used") !=
      records.all().size())
    return internalError("a choice on offer was not taken: " + records.json());
  return std::optional<Compiled>(std::move(*made));
}

Expected<std::vector<HostTensor>>
Compiled::run(const std::vector<HostTensor> &inputs) const {
  std::vector<knapper_tensor> views = view(inputs);
  knapper_result *result = nullptr;
  if (knapper_error *error =
          knapper_run(module, views.data(), static_cast<int32_t>(views.size()),
                      nullptr, 0, &result))
    return take(error);
  std::vector<HostTensor> outputs;
  for (int32_t i = 0; i < knapper_result_num_outputs(result); ++i) {
    knapper_tensor tensor;
    if (knapper_error *error = knapper_result_output(result, i, &tensor)) {
      knapper_result_release(result);
      return take(error);
    }
    HostTensor copy = HostTensor::allocate(
        static_cast<DType>(tensor.dtype),
        llvm::ArrayRef<int64_t>(tensor.shape, tensor.rank));
    if (copy.bytes() > 0)
      std::memcpy(copy.mutableData(), tensor.data, copy.bytes());
    outputs.push_back(std::move(copy));
  }
  knapper_result_release(result);
  return outputs;
}

Expected<double> Compiled::time(const std::vector<HostTensor> &inputs,
                                int count) const {
  auto first = run(inputs);
  if (!first)
    return first.takeError();
  std::vector<knapper_tensor> in = view(inputs), out = view(*first);
  double best = 1e9;
  for (int i = 0; i < count; ++i) {
    auto start = std::chrono::steady_clock::now();
    knapper_result *result = nullptr;
    if (knapper_error *error =
            knapper_run(module, in.data(), static_cast<int32_t>(in.size()),
                        out.data(), static_cast<int32_t>(out.size()), &result))
      return take(error);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    knapper_result_release(result);
    best = std::min(best, took.count());
  }
  return best;
}

std::string Compiled::describe() const {
  const char *json = nullptr;
  if (knapper_error *error = knapper_module_describe(module, &json)) {
    knapper_error_release(error);
    return {};
  }
  return json;
}

} // namespace knapper::opcases
