#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <map>
#include <unistd.h>

namespace knapper::testing {
namespace {

[[noreturn]] void die(const std::string &why) {
  fprintf(stderr, "test artefact: %s\n", why.c_str());
  exit(1);
}

} // namespace

const std::vector<std::byte> &kernelObject(const std::string &isa) {
  static std::map<std::string, std::vector<std::byte>> objects;
  std::vector<std::byte> &bytes = objects[isa];
  if (!bytes.empty())
    return bytes;
  const char *ending = isa.starts_with("sm_") ? ".ptx" : ".so";
  // There is code for x86-64-v3 and x86-64-v4; levels above run the latter's.
  std::string built = isa.starts_with("x86-64-v4") ? "x86-64-v4" : isa;
  std::string path = KNAPPER_TEST_KERNELS + built + ending;
  FILE *file = fopen(path.c_str(), "rb");
  if (!file)
    die("no " + path);
  fseek(file, 0, SEEK_END);
  bytes.resize(ftell(file));
  rewind(file);
  if (fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
    die("cannot read " + path);
  fclose(file);
  return bytes;
}

uint64_t kernelEntry(const std::string &isa, const std::string &kernel) {
  if (isa.starts_with("sm_"))
    return 1; // thread of a block; kernels are found by name
  const std::byte *elf = kernelObject(isa).data();
  auto *header = reinterpret_cast<const Elf64_Ehdr *>(elf);
  auto *sections = reinterpret_cast<const Elf64_Shdr *>(elf + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM)
      continue;
    auto *names = reinterpret_cast<const char *>(
        elf + sections[sections[i].sh_link].sh_offset);
    auto *symbols =
        reinterpret_cast<const Elf64_Sym *>(elf + sections[i].sh_offset);
    for (size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s)
      if (kernel == names + symbols[s].st_name)
        return symbols[s].st_value;
  }
  die("no kernel " + kernel);
}

TestArtefact::TestArtefact(std::vector<std::string> isaList)
    : isas(std::move(isaList)) {
  header.producer = "test";
  for (const std::string &isa : isas) {
    header.targets.push_back(std::make_unique<fb::TargetT>());
    header.targets.back()->device = "cpu";
    header.targets.back()->isa = isa;
  }
  header.programs.push_back(std::make_unique<fb::ProgramT>());
  program().name = "main";
}

uint32_t TestArtefact::constant(int64_t value) {
  program().values.push_back(fb::Scalar(fb::ScalarOp::constant, 0, 0, value));
  return program().values.size() - 1;
}
uint32_t TestArtefact::zero() { return constant(0); }

uint32_t TestArtefact::symbol(const std::string &name, int64_t min, int64_t max,
                              int64_t divisor, bool fromBuffer) {
  auto s = std::make_unique<fb::SymbolT>();
  s->name = name;
  s->min = min;
  s->max = max;
  s->divisor = divisor;
  s->from_buffer = fromBuffer;
  program().symbols.push_back(std::move(s));
  program().values.push_back(
      fb::Scalar(fb::ScalarOp::symbol, 0, 0, program().symbols.size() - 1));
  return program().values.size() - 1;
}

uint32_t TestArtefact::op(fb::ScalarOp op, uint32_t a, uint32_t b) {
  program().values.push_back(fb::Scalar(op, a, b, 0));
  return program().values.size() - 1;
}

uint32_t TestArtefact::buffer(fb::BufferKind kind) {
  program().buffers.push_back(std::make_unique<fb::BufferT>());
  program().buffers.back()->kind = kind;
  return program().buffers.size() - 1;
}

static std::unique_ptr<fb::TensorSignatureT>
signature(const std::string &name, DType type, std::vector<uint32_t> dims,
          std::vector<std::string> text) {
  auto t = std::make_unique<fb::TensorSignatureT>();
  t->name = name;
  t->dtype = static_cast<fb::DType>(type);
  t->dims = std::move(dims);
  t->dim_text = std::move(text);
  for (size_t i = t->dim_text.size(); i < t->dims.size(); ++i)
    t->dim_text.push_back("d" + std::to_string(i));
  return t;
}

uint32_t TestArtefact::input(const std::string &name, DType type,
                             std::vector<uint32_t> dims,
                             std::vector<std::string> text) {
  uint32_t b = buffer(fb::BufferKind::input);
  program().buffers[b]->index = program().inputs.size();
  program().inputs.push_back(
      signature(name, type, std::move(dims), std::move(text)));
  return b;
}

uint32_t TestArtefact::output(const std::string &name, DType type,
                              std::vector<uint32_t> dims,
                              std::vector<std::string> text) {
  uint32_t b = buffer(fb::BufferKind::output);
  program().buffers[b]->index = program().outputs.size();
  program().outputs.push_back(
      signature(name, type, std::move(dims), std::move(text)));
  return b;
}

uint32_t TestArtefact::temp(uint32_t bytes, uint32_t first, uint32_t last) {
  uint32_t b = buffer(fb::BufferKind::temp);
  program().buffers[b]->bytes = bytes;
  program().buffers[b]->first = first;
  program().buffers[b]->last = last;
  return b;
}

uint32_t TestArtefact::constantBuffer(const std::vector<float> &data) {
  uint32_t b = buffer(fb::BufferKind::constant);
  program().buffers[b]->index = constants.size();
  constants.push_back(data);
  return b;
}

uint32_t TestArtefact::region() {
  program().regions.push_back(std::make_unique<fb::RegionT>());
  return program().regions.size() - 1;
}

uint32_t TestArtefact::kernel(const std::string &name, uint32_t buffers,
                              uint32_t symbols) {
  for (size_t i = 0; i < header.kernels.size(); ++i)
    if (header.kernels[i]->name == name)
      return i;
  auto k = std::make_unique<fb::KernelT>();
  k->name = name;
  k->num_buffers = buffers;
  k->num_symbols = symbols;
  for (size_t i = 0; i < isas.size(); ++i) {
    k->codes.push_back(std::make_unique<fb::KernelCodeT>());
    k->codes.back()->target = i;
    k->codes.back()->entry = kernelEntry(isas[i], name);
  }
  header.kernels.push_back(std::move(k));
  return header.kernels.size() - 1;
}

void TestArtefact::append(uint32_t region, fb::InstructionUnion instruction) {
  auto box = std::make_unique<fb::InstructionBoxT>();
  box->instruction = std::move(instruction);
  program().regions[region]->instructions.push_back(std::move(box));
}

fb::LaunchT &TestArtefact::launch(uint32_t region, const std::string &name,
                                  std::vector<uint32_t> buffers, uint32_t grid,
                                  std::vector<uint32_t> symbols) {
  fb::LaunchT launch;
  auto c = std::make_unique<fb::ChoiceT>();
  c->guard = constant(1);
  c->kernel = kernel(name, buffers.size(), symbols.size());
  c->grid = grid;
  c->grain = constant(1);
  c->scratch = constant(256);
  c->symbols = std::move(symbols);
  c->label = "test";
  launch.choices.push_back(std::move(c));
  for (uint32_t b : buffers)
    launch.args.push_back(fb::BufferRef(b, zero()));
  launch.flops = grid;
  launch.bytes = zero();
  launch.origin = name + "_node";
  fb::InstructionUnion u;
  u.Set(std::move(launch));
  append(region, std::move(u));
  return *program()
              .regions[region]
              ->instructions.back()
              ->instruction.AsLaunch();
}

void TestArtefact::copy(uint32_t region, uint32_t source, uint32_t target,
                        uint32_t bytes) {
  fb::CopyT c;
  c.source = std::make_unique<fb::BufferRef>(source, zero());
  c.target = std::make_unique<fb::BufferRef>(target, zero());
  c.bytes = bytes;
  fb::InstructionUnion u;
  u.Set(std::move(c));
  append(region, std::move(u));
}

void TestArtefact::bindSymbol(uint32_t region, uint32_t source,
                              uint32_t symbolValue) {
  fb::BindSymbolT b;
  b.source = std::make_unique<fb::BufferRef>(source, zero());
  b.symbol = program().values[symbolValue].imm();
  fb::InstructionUnion u;
  u.Set(std::move(b));
  append(region, std::move(u));
}

void TestArtefact::ifElse(uint32_t region, uint32_t condition, uint32_t then,
                          uint32_t otherwise) {
  fb::IfT i;
  i.condition = std::make_unique<fb::BufferRef>(condition, zero());
  i.then_region = then;
  i.else_region = otherwise;
  fb::InstructionUnion u;
  u.Set(std::move(i));
  append(region, std::move(u));
}

void TestArtefact::whileLoop(uint32_t region, uint32_t condition,
                             uint32_t conditionRegion, uint32_t body) {
  fb::WhileT w;
  w.condition = std::make_unique<fb::BufferRef>(condition, zero());
  w.condition_region = conditionRegion;
  w.body_region = body;
  fb::InstructionUnion u;
  u.Set(std::move(w));
  append(region, std::move(u));
}

void TestArtefact::call(uint32_t region, uint32_t callee) {
  fb::CallT c;
  c.region = callee;
  fb::InstructionUnion u;
  u.Set(std::move(c));
  append(region, std::move(u));
}

void TestArtefact::setSymbols(
    uint32_t region, std::vector<std::pair<uint32_t, uint32_t>> assignments) {
  fb::SetSymbolsT s;
  for (auto [symbol, value] : assignments) {
    s.symbols.push_back(program().values[symbol].imm());
    s.values.push_back(value);
  }
  fb::InstructionUnion u;
  u.Set(std::move(s));
  append(region, std::move(u));
}

void TestArtefact::assertion(uint32_t region, uint32_t value,
                             const std::string &message) {
  fb::AssertT a;
  a.check = std::make_unique<fb::CheckT>();
  a.check->value = value;
  a.check->message = message;
  a.check->where = "node";
  fb::InstructionUnion u;
  u.Set(std::move(a));
  append(region, std::move(u));
}

void TestArtefact::repeat(uint32_t region, uint32_t counterValue,
                          uint32_t trips, int64_t condition, uint32_t body) {
  fb::RepeatT r;
  r.counter = program().values[counterValue].imm();
  r.trips = trips;
  if (condition >= 0)
    r.condition = std::make_unique<fb::BufferRef>(condition, zero());
  r.body_region = body;
  fb::InstructionUnion u;
  u.Set(std::move(r));
  append(region, std::move(u));
}

void TestArtefact::check(uint32_t value, const std::string &message) {
  auto c = std::make_unique<fb::CheckT>();
  c->value = value;
  c->message = message;
  c->where = "node";
  program().checks.push_back(std::move(c));
}

fb::ExternalT &TestArtefact::external(uint32_t region,
                                      const std::string &domain,
                                      const std::string &name,
                                      std::vector<Operand> inputs,
                                      std::vector<Operand> outputs,
                                      std::vector<uint32_t> symbols) {
  fb::ExternalT e;
  e.domain = domain;
  e.name = name;
  e.version = 1;
  auto add = [&](auto &list, const Operand &from) {
    auto tensor = std::make_unique<fb::ExternalTensorT>();
    tensor->place = std::make_unique<fb::BufferRef>(from.buffer, zero());
    tensor->dtype = static_cast<fb::DType>(from.dtype);
    tensor->dims = from.dims;
    list.push_back(std::move(tensor));
  };
  for (const Operand &input : inputs)
    add(e.inputs, input);
  for (const Operand &output : outputs)
    add(e.outputs, output);
  for (uint32_t symbol : symbols)
    e.symbols.push_back(program().values[symbol].imm());
  e.origin = name + "_node";
  fb::InstructionUnion u;
  u.Set(std::move(e));
  append(region, std::move(u));
  return *program()
              .regions[region]
              ->instructions.back()
              ->instruction.AsExternal();
}

std::vector<std::byte> TestArtefact::bytes() {
  auto writer = ArtefactWriter::createInMemory();
  if (!writer)
    die(writer.error().message());
  for (auto &buffer : program().buffers) {
    if (buffer->kind != fb::BufferKind::constant)
      continue;
    auto written = (*writer)->addConstant(
        std::as_bytes(std::span(constants[buffer->index])));
    if (!written)
      die(written.error().message());
    written->recordIn(*buffer);
  }
  if (editBuffers)
    editBuffers(program());
  for (size_t i = 0; i < isas.size(); ++i)
    (*writer)->addCode(i, kernelObject(isas[i]));
  Expected<uint64_t> size = (*writer)->finish(header);
  if (!size)
    die(size.error().message());
  std::vector<std::byte> out(*size);
  int fd = (*writer)->takeFd();
  if (pread(fd, out.data(), out.size(), 0) != static_cast<ssize_t>(out.size()))
    die("cannot read back");
  close(fd);
  return out;
}

Expected<std::shared_ptr<Module>> loadBytes(std::span<const std::byte> bytes,
                                            const ModuleOptions &options,
                                            std::shared_ptr<Device> device) {
  auto artefact = Artefact::loadMemory(bytes);
  if (!artefact)
    return artefact.takeError();
  return Module::load(*artefact, device ? device : cpu::device(), options);
}

std::shared_ptr<Module> TestArtefact::load(const ModuleOptions &options,
                                           std::shared_ptr<Device> device) {
  auto module = loadBytes(bytes(), options, std::move(device));
  if (!module)
    die(module.error().message());
  return *module;
}

TestArtefact rowProgram(TestArtefact a) {
  uint32_t rows = a.symbol("rows", 0), cols = a.symbol("cols", 1, 4096);
  uint32_t elements = a.mul(rows, cols);
  uint32_t x = a.input("x", DType::f32, {rows, cols}, {"rows", "cols"});
  uint32_t c = a.constantBuffer(std::vector<float>(64, 0.5f));
  uint32_t four = a.constant(4);
  uint32_t scaled = a.temp(a.mul(elements, four), 0, 1);
  uint32_t sums = a.temp(a.mul(rows, four), 1, 2);
  uint32_t y = a.output("y", DType::f32, {rows}, {"rows"});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, scaled}, elements);
  a.launch(main, "row_sum", {scaled, sums}, rows, {cols});
  a.launch(main, "add", {sums, c, y}, rows);
  a.check(a.op(fb::ScalarOp::le, rows, a.constant(64)), "too many rows");
  return a;
}

std::vector<float> rowResult(const std::vector<float> &x, int64_t rows,
                             int64_t cols) {
  std::vector<float> y;
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < cols; ++i)
      sum += x[r * cols + i] * 2 + 1;
    y.push_back(sum + 0.5f);
  }
  return y;
}

Status runRows(Module &m, int64_t rows, int64_t cols, RunResult &result,
               std::vector<float> &x) {
  x.resize(rows * cols);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i % 7) - 3;
  std::vector<int64_t> shape = {rows, cols};
  knapper_tensor input = tensor(x, shape);
  return m.run({&input, 1}, {}, result);
}

TestArtefact gatherProgram() {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t table = a.constantBuffer({1, 2, 3});
  uint32_t index = a.input("index", DType::i64, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t main = a.region();
  a.launch(main, "gather", {table, index, y}, n, {a.constant(3)});
  return a;
}

std::vector<float> floats(const knapper_tensor &t) {
  auto *data = static_cast<const float *>(t.data);
  return {data, data + t.bytes / 4};
}

std::string errorOf(const Status &status) {
  return status ? "no error" : status.error().message();
}

} // namespace knapper::testing
