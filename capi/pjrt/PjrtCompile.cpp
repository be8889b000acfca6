// Programs into executables, and executables as bytes.
#include "capi/pjrt/PjrtCompileOptions.h"
#include "capi/pjrt/PjrtExecutable.h"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace knapper::pjrt {

CompiledProgram::~CompiledProgram() {
  if (module)
    knapper().module_release(module);
}

namespace {

/// One tensor of the signature; null: done.
PjrtError *readInfo(const knapper_tensor_info &info, ArrayInfo &array) {
  std::optional<Type> type = typeOf(info.dtype);
  if (!type)
    return fail(Code::unimplemented,
                std::string("'") + info.name + "' is no array of numbers");
  array.type = *type;
  array.dtype = info.dtype;
  array.dims.assign(info.shape, info.shape + info.rank);
  array.moduleDims = array.dims;
  std::optional<size_t> bytes =
      arrayBytes(*type, array.dims.data(), array.dims.size());
  if (!bytes)
    return fail(Code::unimplemented, std::string("'") + info.name +
                                         "' has a size that only a call knows");
  array.bytes = *bytes;
  return nullptr;
}

template <typename Ask>
PjrtError *readInfos(knapper_module *module, int32_t count, Ask ask,
                     std::vector<ArrayInfo> &arrays) {
  for (int32_t i = 0; i < count; ++i) {
    knapper_tensor_info info{};
    info.size = sizeof(info);
    if (knapper_error *error = ask(module, i, &info))
      return fail(error);
    if (PjrtError *error = readInfo(info, arrays.emplace_back()))
      return error;
  }
  return nullptr;
}

/// Those of `arrays` whose positions the description of the module lists under
/// the key.
std::vector<ArrayInfo *> listed(std::string_view description,
                                std::string_view name,
                                std::vector<ArrayInfo> &arrays) {
  std::vector<ArrayInfo *> found;
  std::string key = '"' + std::string(name) + "\":[";
  size_t at = description.find(key);
  const char *end = description.data() + description.size();
  const char *next =
      at == description.npos ? end : description.data() + at + key.size();
  for (size_t index; next < end; ++next) {
    auto [stop, code] = std::from_chars(next, end, index);
    if (code != std::errc())
      break; // the list has ended
    if (index < arrays.size())
      found.push_back(&arrays[index]);
    next = stop;
  }
  return found;
}

/// Two numbers along the module's last dim are one of the caller's.
void makeComplex(ArrayInfo &array) {
  array.type = array.type == Type::f64 ? Type::c128 : Type::c64;
  array.dims.pop_back();
}

/// Reads what the description of the module says of a run's costs.
void readCosts(std::string_view description, std::vector<NamedValue> &costs) {
  constexpr std::string_view begin = "\"run_cost\":{";
  size_t at = description.find(begin);
  if (at == description.npos)
    return;
  std::string_view list = description.substr(at, 200);
  list = list.substr(0, list.find('}'));
  for (auto [key, name] : {std::pair("\"flops\":", "flops"),
                           std::pair("\"bytes\":", "bytes accessed")}) {
    size_t found = list.find(key);
    float number = 0;
    if (found == list.npos)
      continue;
    const char *first = list.data() + found + strlen(key);
    if (std::from_chars(first, list.data() + list.size(), number).ec !=
        std::errc())
      continue;
    costs.push_back(namedValue(name, ValueType::float32, 1));
    costs.back().float_value = number;
  }
}

/// Gives each output the first donated input that it may replace and no other
/// has taken.
void pairDonations(CompiledProgram &program) {
  std::vector<bool> taken(program.inputs.size());
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    program.replaces.push_back(-1);
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (!program.inputs[i].donated || taken[i] ||
          program.inputs[i].bytes != program.outputs[o].bytes ||
          !knapper().module_may_replace(program.module, static_cast<int32_t>(o),
                                        static_cast<int32_t>(i)))
        continue;
      taken[i] = true;
      program.replaces.back() = static_cast<int32_t>(i);
      break;
    }
  }
}

} // namespace

namespace {

/// Also checks that the tiles are those of such arrays.
PjrtError *setShardings(CompiledProgram &program) {
  size_t devices = program.parts.devices.size();
  if (devices == 1)
    return nullptr;
  auto set = [&](const std::vector<ArrayInfo> &arrays,
                 const std::vector<std::vector<int64_t>> &tiles,
                 OpShardings &shardings) {
    std::vector<size_t> ranks;
    for (const ArrayInfo &array : arrays)
      ranks.push_back(array.dims.size());
    if (!ProgramParts::fit(tiles, ranks, devices))
      return false;
    for (const std::vector<int64_t> &each : tiles)
      shardings.texts.push_back(opSharding(each, devices));
    for (const std::string &text : shardings.texts) {
      shardings.data.push_back(text.data());
      shardings.sizes.push_back(text.size());
    }
    return true;
  };
  if (set(program.inputs, program.parts.inputs, program.inputShardings) &&
      set(program.outputs, program.parts.outputs, program.outputShardings))
    return nullptr;
  return fail(Code::invalidArgument,
              "the parts of the arrays are not those of the program: compile "
              "it again");
}

} // namespace

PjrtError *makeProgram(knapper_module *module, ProgramParts parts,
                       std::shared_ptr<CompiledProgram> &result) {
  auto program = std::make_shared<CompiledProgram>();
  program->module = module;
  program->parts = std::move(parts);
  if (PjrtError *error = readInfos(module, knapper().module_num_inputs(module),
                                   knapper().module_input, program->inputs))
    return error;
  if (PjrtError *error = readInfos(module, knapper().module_num_outputs(module),
                                   knapper().module_output, program->outputs))
    return error;
  const char *description = nullptr;
  if (knapper_error *error = knapper().module_describe(module, &description))
    return fail(error);
  program->callsBack = std::string_view(description).find("\"knapper.jax\"") !=
                       std::string_view::npos;
  readCosts(description, program->costs);
  for (ArrayInfo *array : listed(description, "donated", program->inputs))
    array->donated = true;
  for (ArrayInfo *array :
       listed(description, "complex_inputs", program->inputs))
    makeComplex(*array);
  for (ArrayInfo *array :
       listed(description, "complex_outputs", program->outputs))
    makeComplex(*array);
  if (PjrtError *error = setShardings(*program))
    return error;
  for (const ArrayInfo &output : program->outputs) {
    program->outputTypes.push_back(output.type);
    program->outputRanks.push_back(output.dims.size());
    program->outputDims.insert(program->outputDims.end(), output.dims.begin(),
                               output.dims.end());
    program->memoryKinds.push_back(kMemoryKind);
    program->memoryKindSizes.push_back(sizeof(kMemoryKind) - 1);
  }
  pairDonations(*program);
  result = std::move(program);
  return nullptr;
}

namespace {

knapper_load_options loadOptions(const Client &client) {
  knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
  options.threads = client.threads;
  options.device = client.kind.c_str();
  return options;
}

/// The devices with the ids of `parts`, each once.
PjrtError *devicesOf(const Client &client, const ProgramParts &parts,
                     std::vector<PjrtDevice *> &devices) {
  for (int64_t id : parts.devices) {
    PjrtDevice *device = client.deviceOf(id);
    if (!device)
      return noDevice(client, id, Code::invalidArgument);
    if (std::find(devices.begin(), devices.end(), device) != devices.end())
      return fail(Code::invalidArgument,
                  "two partitions are put on device " + std::to_string(id));
    devices.push_back(device);
  }
  return nullptr;
}

/// Asks which parts of the arrays are on which device. Where the program cannot
/// be one of parts, compiling says why.
PjrtError *readParts(const knapper_compile_options &request,
                     ProgramParts &parts) {
  char *json = nullptr;
  if (knapper_error *error = knapper().inspect(&request, &json))
    return fail(error);
  std::unique_ptr<char, void (*)(char *)> text(json, knapper().string_release);
  std::string_view all(json);
  constexpr std::string_view key = "\"devices\":";
  size_t at = all.find(key), devices = 1;
  if (at != all.npos)
    std::from_chars(json + at + key.size(), json + all.size(), devices);
  if (devices != parts.devices.size())
    return fail(Code::invalidArgument,
                "the options ask for " + std::to_string(parts.devices.size()) +
                    " partitions, and the program's mhlo.num_partitions is " +
                    std::to_string(devices));
  (void)readTiles(all, parts);
  return nullptr;
}

PjrtError *compile(Client_Compile_Args &a) {
  if (!a.program || !a.program->code || !a.program->format)
    return fail(Code::invalidArgument, "there is no program");
  std::string_view format(a.program->format, a.program->format_size);
  if (format != "mlir")
    return fail(Code::unimplemented, "the program's format is '" +
                                         std::string(format) +
                                         "'; give StableHLO as 'mlir'");
  if (!a.compile_options && a.compile_options_size)
    return fail(Code::invalidArgument, "there are no compile options");
  Settings settings = {{"model-format", "stablehlo"}};
  if (a.client->device)
    settings.emplace_back("target", a.client->kind + ":" + a.client->isa);
  else if (!a.client->isa.empty())
    settings.emplace_back("isa", a.client->isa);
  ProgramParts parts;
  if (PjrtError *error = readCompileOptions(
          {a.compile_options, a.compile_options_size}, settings, parts.devices))
    return error;
  std::vector<PjrtDevice *> devices;
  if (PjrtError *error = devicesOf(*a.client, parts, devices))
    return error;
  if (parts.areSeveral())
    settings.emplace_back("devices", std::to_string(parts.devices.size()));
  std::vector<knapper_option> options;
  for (const auto &[key, value] : settings)
    options.push_back({key.c_str(), value.c_str()});
  knapper_compile_options request = KNAPPER_COMPILE_OPTIONS_INIT;
  request.model_bytes = a.program->code;
  request.model_size = a.program->code_size;
  request.options = options.data();
  request.num_options = static_cast<int32_t>(options.size());
  if (parts.areSeveral())
    if (PjrtError *error = readParts(request, parts))
      return error;
  knapper_load_options load = loadOptions(*a.client);
  knapper_module *module = nullptr;
  if (knapper_error *error = knapper().compile(&request, &load, &module))
    return fail(error);
  std::shared_ptr<CompiledProgram> program;
  if (PjrtError *error = makeProgram(module, std::move(parts), program))
    return error;
  a.executable = new LoadedExecutable{std::move(devices), std::move(program)};
  return nullptr;
}

struct ScratchFolder {
  std::string path;
  ~ScratchFolder() {
    unlink(file().c_str());
    rmdir(path.c_str());
  }
  std::string file() const { return path + "/program.knap"; }
};

PjrtError *readFile(const std::string &path, std::string &bytes) {
  FILE *file = fopen(path.c_str(), "rb");
  if (!file)
    return fail(Code::internal, "cannot read " + path);
  char piece[1 << 16];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), file)) > 0;)
    bytes.append(piece, n);
  bool failed = ferror(file);
  fclose(file);
  return failed ? fail(Code::internal, "cannot read " + path) : nullptr;
}

PjrtError *serialize(Executable_Serialize_Args &a) {
  const char *base = std::getenv("TMPDIR");
  std::string path = std::string(base ? base : "/tmp") + "/knapper-XXXXXX";
  if (!mkdtemp(path.data()))
    return fail(Code::internal, "cannot make a folder " + path +
                                    "; set TMPDIR to a folder to write in");
  ScratchFolder folder{path};
  if (knapper_error *error = knapper().module_save(
          a.executable->program->module, folder.file().c_str()))
    return fail(error);
  auto bytes = std::make_unique<std::string>();
  if (PjrtError *error = readFile(folder.file(), *bytes))
    return error;
  *bytes += partsMark(a.executable->program->parts);
  give(*bytes, a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_executable = bytes.release();
  a.serialized_executable_deleter = [](void *bytes) {
    delete static_cast<std::string *>(bytes);
  };
  return nullptr;
}

PjrtError *deserialize(Executable_DeserializeAndLoad_Args &a) {
  if (!a.serialized_executable)
    return fail(Code::invalidArgument, "there is no executable");
  std::string_view artefact(a.serialized_executable,
                            a.serialized_executable_size);
  ProgramParts parts;
  if (PjrtError *error = takePartsMark(artefact, parts))
    return error;
  size_t compiledFor = parts.devices.size();
  Settings settings;
  if (a.overridden_serialized_compile_options)
    if (PjrtError *error =
            readCompileOptions({a.overridden_serialized_compile_options,
                                a.overridden_serialized_compile_options_size},
                               settings, parts.devices))
      return error;
  if (parts.devices.size() != compiledFor)
    return fail(Code::invalidArgument,
                "the executable is for " + std::to_string(compiledFor) +
                    " devices, and is put on " +
                    std::to_string(parts.devices.size()));
  std::vector<PjrtDevice *> devices;
  if (PjrtError *error = devicesOf(*a.client, parts, devices))
    return error;
  if (!settings.empty())
    return fail(Code::invalidArgument,
                "compiler_options change nothing in what is compiled; load it "
                "without, or compile again");
  knapper_load_options load = loadOptions(*a.client);
  knapper_module *module = nullptr;
  if (knapper_error *error = knapper().load_memory(
          artefact.data(), artefact.size(), &load, &module))
    return fail(error);
  std::shared_ptr<CompiledProgram> program;
  if (PjrtError *error = makeProgram(module, std::move(parts), program))
    return error;
  a.loaded_executable =
      new LoadedExecutable{std::move(devices), std::move(program)};
  return nullptr;
}

} // namespace

void setCompileFunctions(PjrtApi &api) {
  api.Client_Compile = guarded<compile>;
  api.Executable_Serialize = guarded<serialize>;
  api.Executable_DeserializeAndLoad = guarded<deserialize>;
}

} // namespace knapper::pjrt
