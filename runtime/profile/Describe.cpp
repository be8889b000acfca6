#include "runtime/profile/Describe.h"

#include "runtime/base/Json.h"
#include "runtime/profile/RunCost.h"

#include <algorithm>
#include <chrono>

namespace knapper {
namespace {

void tensors(JsonWriter &json, const char *key,
             const std::vector<Program::Tensor> &list) {
  json.key(key).beginArray();
  for (const Program::Tensor &t : list) {
    json.beginObject().field("name", t.name).field("dtype", name(t.dtype));
    json.key("shape").beginArray();
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (t.staticDims[d] >= 0)
        json.value(t.staticDims[d]);
      else
        json.value(t.dimText[d]);
    json.endArray();
    if (t.indexLimit)
      json.field("index_limit", t.indexLimit);
    json.endObject();
  }
  json.endArray();
}

void targets(JsonWriter &json, const Artefact &file) {
  const fb::Artefact &header = file.header();
  json.key("targets").beginArray();
  for (uint32_t i = 0; i < count(header.targets()); ++i) {
    const fb::Target *t = header.targets()->Get(i);
    json.beginObject().field("device", text(t->device()));
    json.field("isa", text(t->isa()));
    json.field("code_bytes", uint64_t(file.code(i).size())).endObject();
  }
  json.endArray();
}

/// Of each output that may be given an input's memory, the names of such
/// inputs.
void inPlace(JsonWriter &json, const Program &program) {
  json.key("in_place").beginArray();
  for (uint32_t o = 0; o < program.outputs.size(); ++o) {
    if (program.inPlace[o].empty())
      continue;
    json.beginObject().field("output", program.outputs[o].name);
    json.key("inputs").beginArray();
    for (uint32_t i : program.inPlace[o])
      json.value(program.inputs[i].name);
    json.endArray().endObject();
  }
  json.endArray();
}

void positions(JsonWriter &json, const char *key,
               const flatbuffers::Vector<uint32_t> *list) {
  json.key(key).beginArray();
  for (uint32_t i = 0; i < count(list); ++i)
    json.value(list->Get(i));
  json.endArray();
}

/// Those of the program that the module runs.
void kernels(JsonWriter &json, const fb::Artefact &header, uint32_t target) {
  json.key("kernels").beginArray();
  for (uint32_t i = 0; i < count(header.kernels()); ++i) {
    const fb::Kernel *k = header.kernels()->Get(i);
    bool here = false;
    for (uint32_t c = 0; c < count(k->codes()); ++c)
      here |= k->codes()->Get(c)->target() == target;
    if (!here)
      continue;
    json.beginObject().field("name", text(k->name()));
    json.field("buffers", k->num_buffers());
    json.field("symbols", k->num_symbols()).key("targets").beginArray();
    for (uint32_t c = 0; c < count(k->codes()); ++c)
      json.value(
          text(header.targets()->Get(k->codes()->Get(c)->target())->isa()));
    json.endArray().endObject();
  }
  json.endArray();
}

void launches(JsonWriter &json, const Program &program,
              const fb::Artefact &header) {
  json.key("launches").beginArray();
  for (const Program::Launch &l : program.launches) {
    json.beginObject().field("origin", l.origin);
    json.field("flops", expressionText(program, l.flops));
    json.field("bytes", expressionText(program, l.bytes));
    json.key("choices").beginArray();
    for (const Program::Choice &c : l.choices) {
      json.beginObject();
      json.field("kernel", text(header.kernels()->Get(c.kernel)->name()));
      json.field("schedule", c.label);
      json.field("guard", expressionText(program, c.guard));
      json.field("grid", expressionText(program, c.grid));
      json.field("scratch", expressionText(program, c.scratch)).endObject();
    }
    json.endArray().key("args").beginArray();
    for (const Program::Ref &arg : l.args)
      json.value(arg.buffer);
    json.endArray().endObject();
  }
  json.endArray();
}

/// Vendors' libraries that the program would call.
void vendors(JsonWriter &json, std::span<const VendorUse> uses) {
  json.key("vendor_libraries").beginArray();
  for (const VendorUse &use : uses) {
    json.beginObject().field("name", name(use.library));
    json.field("launches", use.launches);
    json.field("used", !use.opened.empty());
    if (use.opened.empty())
      json.field("why", use.why);
    else
      json.field("version", use.opened);
    json.endObject();
  }
  json.endArray();
}

/// Nodes that the host's operators compute.
void operators(JsonWriter &json, const Program &program) {
  json.key("operators").beginArray();
  for (const Program::External &e : program.externals)
    json.beginObject()
        .field("domain", e.domain)
        .field("name", e.name)
        .field("version", e.node.version)
        .field("origin", e.node.where)
        .endObject();
  json.endArray();
}

/// Where temps lie for sizes as they might be: 1 for what leads an input of two
/// dims or more, 128 for others, within the declared ranges.
void exampleMemory(JsonWriter &json, const Program &program) {
  std::vector<int64_t> symbols;
  for (const Program::Symbol &s : program.symbols) {
    auto leads = [&](const Program::Tensor &t) {
      const Program::Value *v =
          t.dims.size() > 1 ? &program.values[t.dims[0]] : nullptr;
      return v && v->op == fb::ScalarOp::symbol &&
             v->imm == int64_t(symbols.size());
    };
    int64_t size =
        std::any_of(program.inputs.begin(), program.inputs.end(), leads) ? 1
                                                                         : 128;
    int64_t divisor = std::max<int64_t>(1, s.divisor);
    size = std::max(std::max(size, s.min) / divisor * divisor, divisor);
    symbols.push_back(s.max >= 0 ? std::min(size, s.max) : size);
  }
  Expected<Binding> binding = bindProgram(program, symbols);
  if (!binding || program.hasLate)
    return; // such sizes are not possible together, or known only in the run
  json.key("example").beginObject().key("symbols").beginObject();
  for (size_t i = 0; i < symbols.size(); ++i)
    json.field(program.symbols[i].name, symbols[i]);
  json.endObject();
  json.field("arena_bytes", binding->arenaBytes);
  json.field("live_bytes", binding->liveBytes).key("buffers").beginArray();
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Program::Buffer &b = program.buffers[i];
    if (b.kind != fb::BufferKind::temp)
      continue;
    json.beginObject().field("buffer", uint64_t(i)).field("name", b.name);
    json.field("bytes", binding->values[b.bytes]);
    json.field("offset", binding->offsets[i]);
    json.field("first", b.first).field("last", b.last).endObject();
  }
  json.endArray().endObject();
}

void memory(JsonWriter &json, const Module &module) {
  const Program &program = module.program();
  json.key("memory").beginObject();
  json.field("constant_bytes", uint64_t(module.artefact().constants().size()));
  if (program.symbols.empty())
    if (Expected<Binding> b = bindProgram(program, {})) {
      json.field("arena_bytes", b->arenaBytes);
      json.field("live_bytes", b->liveBytes);
    }
  exampleMemory(json, program);
  json.key("buffers").beginArray();
  for (const Program::Buffer &b : program.buffers) {
    json.beginObject().field("kind", fb::EnumNameBufferKind(b.kind));
    json.field("name", b.name);
    if (b.kind == fb::BufferKind::temp) {
      json.field("bytes", expressionText(program, b.bytes));
      json.field("first", b.first).field("last", b.last);
    } else if (b.kind == fb::BufferKind::constant) {
      json.field("bytes", b.constantBytes);
    } else {
      json.field("index", b.index);
    }
    json.endObject();
  }
  json.endArray().endObject();
}

/// Of programs whose sizes are numbers, or are computed by the run.
void cost(JsonWriter &json, const Program &program) {
  if (!std::all_of(program.symbols.begin(), program.symbols.end(),
                   [](const Program::Symbol &s) { return s.late; }))
    return;
  std::vector<int64_t> none(program.symbols.size());
  Expected<Binding> binding = bindProgram(program, none);
  if (!binding)
    return;
  RunCost sum = runCost(program, *binding);
  json.key("run_cost").beginObject().field("flops", sum.flops);
  json.field("bytes", sum.bytes).endObject();
}

/// The sizes that the inputs' shapes name.
void sizes(JsonWriter &json, const Program &program,
           std::span<const knapper_tensor> inputs) {
  std::vector<int64_t> bound(program.symbols.size(), -1);
  for (size_t i = 0; i < program.inputs.size() && i < inputs.size(); ++i) {
    const Program::Tensor &tensor = program.inputs[i];
    for (size_t d = 0;
         d < tensor.dims.size() && d < size_t(std::max(0, inputs[i].rank)); ++d)
      if (const Program::Value &v = program.values[tensor.dims[d]];
          v.op == fb::ScalarOp::symbol && size_t(v.imm) < bound.size())
        bound[size_t(v.imm)] = inputs[i].shape[d];
  }
  json.key("sizes").beginObject();
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i] >= 0)
      json.field(program.symbols[i].name, bound[i]);
  json.endObject();
}

} // namespace

std::string describeModule(const Module &module) {
  const Artefact &file = module.artefact();
  const Program &program = module.program();
  JsonWriter json;
  json.beginObject().field("file", file.name());
  json.field("producer", text(file.header().producer()));
  json.field("created_from", text(file.header().created_from()));
  if (size_t source = file.section(fb::SectionKind::source_map).size())
    json.field("source_bytes", uint64_t(source));
  json.field("device", module.device().kind()).field("isa", module.isa());
  json.field("addresses_host", module.device().addressesHost());
  json.field("threads", module.threads());
  json.field("file_bytes", uint64_t(file.bytes().size()));
  tensors(json, "inputs", program.inputs);
  tensors(json, "outputs", program.outputs);
  inPlace(json, program);
  const fb::Target *target = file.header().targets()->Get(module.target());
  const fb::Program *marks = file.header().programs()->Get(target->program());
  positions(json, "donated", marks->donated());
  positions(json, "complex_inputs", marks->complex_inputs());
  positions(json, "complex_outputs", marks->complex_outputs());
  json.key("symbols").beginArray();
  for (const Program::Symbol &s : program.symbols) {
    json.beginObject().field("name", s.name).field("min", s.min);
    if (s.max != -1)
      json.field("max", s.max);
    json.field("divisor", s.divisor).field("from_buffer", s.late).endObject();
  }
  json.endArray();
  targets(json, file);
  kernels(json, file.header(), module.target());
  launches(json, program, file.header());
  vendors(json, module.vendors());
  operators(json, program);
  memory(json, module);
  cost(json, program);
  std::span<const std::byte> report =
      file.section(fb::SectionKind::report, target->program());
  if (!report.empty())
    json.key("report").raw(
        {reinterpret_cast<const char *>(report.data()), report.size()});
  json.endObject();
  return json.take();
}

Expected<std::string> profileModule(Module &module,
                                    std::span<const knapper_tensor> inputs) {
  RunResult result;
  return profileRun(module, inputs, {}, result, {});
}

Expected<std::string> profileRun(Module &module,
                                 std::span<const knapper_tensor> inputs,
                                 std::span<const knapper_tensor> outputs,
                                 RunResult &result, RunOptions options) {
  std::vector<LaunchTime> times;
  std::vector<LaunchEvent> events;
  options.profile = &times;
  options.events = &events;
  auto start = std::chrono::steady_clock::now();
  if (Status s = module.run(inputs, outputs, result, options); !s)
    return s.takeError();
  int64_t total = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  const Program &program = module.program();
  const auto *kernels = module.artefact().header().kernels();
  JsonWriter json;
  json.beginObject().key("launches").beginArray();
  std::vector<uint64_t> shown(times.size());
  for (size_t i = 0, next = 0; i < times.size(); ++i) {
    const LaunchTime &time = times[i];
    if (time.executions == 0)
      continue;
    shown[i] = next++;
    json.beginObject();
    if (i < program.launches.size()) {
      const Program::Launch &l = program.launches[i];
      const Program::Choice &c = l.choices[time.choice];
      json.field("kernel", text(kernels->Get(c.kernel)->name()));
      json.field("origin", l.origin).field("schedule", c.label);
    } else {
      const Program::External &e =
          program.externals[i - program.launches.size()];
      json.field("kernel", operatorText(e.domain, e.name));
      json.field("origin", e.node.where).field("schedule", "external");
    }
    json.field("executions", time.executions).field("index", uint64_t(i));
    json.field("ns", time.nanoseconds);
    json.field("flops", time.flops).field("bytes", time.bytes).endObject();
  }
  json.endArray().key("events").beginArray();
  for (const LaunchEvent &event : events) {
    json.beginObject().field("launch", shown[event.launch]);
    json.field("start_ns", event.start).field("ns", event.nanoseconds);
    json.field("flops", event.flops).field("bytes", event.bytes).endObject();
  }
  json.endArray().field("total_ns", total).field("isa", module.isa());
  sizes(json, program, inputs);
  json.endObject();
  return json.take();
}

} // namespace knapper
