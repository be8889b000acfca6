#include "tools/knapper/ModelArgument.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"

#include <cstring>
#include <unistd.h>

namespace knapper::cli {

void ModelArgument::addTo(CLI::App &app) {
  app.add_option("model", file,
                 "A .knap file, or an .onnx or .mlirbc file to compile")
      ->required()
      ->type_name("FILE");
  app.add_option(
         "--threads", loadThreads,
         "Threads that run the model; 0: $KNAPPER_THREADS, else one per "
         "core, at most $OMP_NUM_THREADS")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  app.add_option("--isa", isa,
                 "Run the code for this instruction set [the best there is]")
      ->type_name("TEXT");
  app.add_option("--device", device,
                 "Run the program for it, of a file with several [a GPU where "
                 "one is found]")
      ->type_name("cpu|cuda");
  app.add_flag("--verify-file", verifyFile,
               "Compare all weights with their hashes first [each before its "
               "first use]");
  flags.addTo(app, {"threads", "isa", "dim", "stop-after", "start-from",
                    "print-after", "dump-dir"});
}

bool isArtefact(const std::string &path) {
  if (path.ends_with(".knap"))
    return true;
  // What cannot be read is said by what reads the model.
  Expected<InputFile> file = InputFile::open(path);
  char magic[8] = {};
  return file &&
         pread(file->descriptor(), magic, sizeof magic, 0) == sizeof magic &&
         memcmp(magic, "KNAPPER", 8) == 0;
}

template <typename Use> Status ModelArgument::withOptions(Use use) const {
  auto given = flags.given();
  std::vector<knapper_option> rows;
  for (auto &[key, value] : given)
    rows.push_back({key.c_str(), value.c_str()});
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = file.c_str();
  options.options = rows.data();
  options.num_options = static_cast<int32_t>(rows.size());
  return toStatus(use(options));
}

knapper_load_options ModelArgument::loadOptions() const {
  knapper_load_options load = KNAPPER_LOAD_OPTIONS_INIT;
  load.threads = loadThreads;
  load.isa = isa.empty() ? nullptr : isa.c_str();
  load.device = device.empty() ? nullptr : device.c_str();
  if (verifyFile)
    load.verify_constants = KNAPPER_VERIFY_AT_LOAD;
  return load;
}

Expected<ModulePtr> ModelArgument::openBeside(const std::string &other) const {
  knapper_load_options load = loadOptions();
  knapper_module *module = nullptr;
  TRY(toStatus(knapper_load(other.c_str(), &load, &module)));
  return ModulePtr(module);
}

Expected<ModulePtr> ModelArgument::open(Session &session, bool describe) const {
  knapper_load_options load = loadOptions();
  load.describe = describe;
  knapper_module *module = nullptr;
  Status status = success();
  if (isArtefact(file)) {
    if (auto given = flags.given(); !given.empty())
      return userError("the model is compiled already", "--" + given[0].first,
                       "give it to knapper compile");
    status = toStatus(knapper_load(file.c_str(), &load, &module));
  } else {
    status = withOptions([&](knapper_compile_options &options) {
      options.progress = [](void *user, const char *phase, int32_t done,
                            int32_t total) {
        static_cast<Session *>(user)->progress(phase, done, total);
      };
      options.progress_user = &session;
      return knapper_compile(&options, &load, &module);
    });
  }
  if (!status)
    return status.takeError();
  return ModulePtr(module);
}

Status ModelArgument::canVerify() const {
  if (!isArtefact(file))
    return success();
  return userError("--verify needs the model: an artefact holds kernels, not "
                   "what they were made from",
                   file, "give the .onnx file");
}

Expected<std::string>
ModelArgument::verify(const std::vector<knapper_tensor> &inputs) const {
  char *json = nullptr;
  Status status = withOptions([&](knapper_compile_options &options) {
    return knapper_verify(&options, inputs.data(),
                          static_cast<int32_t>(inputs.size()), &json);
  });
  if (!status)
    return status.takeError();
  return takeString(json);
}

void Dims::addTo(CLI::App &app, const char *help) {
  app.add_option("--dim", texts, help)
      ->type_name(allowsAuto ? "NAME=VALUE|auto" : "NAME=VALUE")
      ->allow_extra_args(false);
}

void Dims::addWithAutoTo(CLI::App &app) {
  allowsAuto = true;
  addTo(app, "A size of the inputs; may be repeated. 'auto' chooses sizes for "
             "those that nothing else gives, and says which");
}

void Dims::choose(const std::string &name, int64_t value) {
  pairs.emplace_back(name, value);
  chosen.emplace_back(name, value);
}

std::string Dims::chosenText() const {
  std::string text;
  for (const auto &[name, value] : chosen)
    text += cat(text.empty() ? "sizes chosen: " : ", ", printable(name), "=",
                value);
  return text.empty() ? text : text + "\n";
}

Status Dims::parse() {
  for (const std::string &text : texts) {
    if (allowsAuto && text == "auto") {
      automatic = true;
      continue;
    }
    ASSIGN_OR_RETURN(auto parsed, parseDims(text));
    pairs.insert(pairs.end(), parsed.begin(), parsed.end());
  }
  return success();
}

} // namespace knapper::cli
