#include "tests/onnx_fuzz/execute.h"

#include "compiler/pipeline/Compile.h"
#include "runtime/base/Checked.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/execute/Module.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace knapper::fuzz {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargest = uint64_t(64) << 20;

/// Bytes of which the last lies before a page that cannot be touched.
class GuardedBytes {
public:
  explicit GuardedBytes(uint64_t bytes)
      : pages(alignUp(bytes, kPage)),
        base(static_cast<char *>(mmap(nullptr, pages + kPage,
                                      PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        data(base + pages - bytes) {
    if (base == MAP_FAILED || mprotect(base + pages, kPage, PROT_NONE) != 0)
      std::abort();
  }
  ~GuardedBytes() { munmap(base, pages + kPage); }
  GuardedBytes(const GuardedBytes &) = delete;

private:
  uint64_t pages;
  char *base;

public:
  char *const data;
};

int64_t sizeFor(const Program::Symbol &symbol) {
  int64_t divisor = std::max<int64_t>(symbol.divisor, 1);
  int64_t size = alignUp(std::max<int64_t>(3, symbol.min), divisor);
  return symbol.max >= 0 && size > symbol.max ? symbol.max / divisor * divisor
                                              : size;
}

/// The tensors of a signature and their memory. Late ones have neither.
struct Tensors {
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  std::vector<knapper_tensor> list;
  bool tooLarge = false;

  Tensors(const std::vector<Program::Tensor> &signature,
          const Binding &binding) {
    for (const Program::Tensor &tensor : signature) {
      std::vector<int64_t> &shape = shapes.emplace_back();
      uint64_t bytes = byteSize(tensor.dtype);
      for (uint32_t dim : tensor.dims) {
        shape.push_back(binding.values[dim]);
        bytes = std::min(bytes, kLargest + 1) *
                std::min<uint64_t>(shape.back(), kLargest + 1);
      }
      knapper_tensor made = {nullptr, 0,
                             static_cast<knapper_dtype>(tensor.dtype),
                             static_cast<int32_t>(shape.size()), nullptr};
      tooLarge |= bytes > kLargest;
      if (bytes <= kLargest && !tensor.late) {
        memory.push_back(std::make_unique<GuardedBytes>(bytes));
        made.data = memory.back()->data;
        made.bytes = bytes;
      }
      list.push_back(made);
    }
    for (size_t i = 0; i < list.size(); ++i)
      list[i].shape = shapes[i].data();
  }
};

/// 0 and 1, in floating point something between them.
void fill(const knapper_tensor &tensor) {
  auto *bytes = static_cast<unsigned char *>(tensor.data);
  size_t width = byteSize(static_cast<DType>(tensor.dtype));
  for (size_t i = 0; i < tensor.bytes / width; ++i) {
    float fraction = float((i * 2654435761u >> 8) % 256) / 256;
    double wide = fraction;
    uint64_t bits = i * 7 % 3 == 0;
    if (tensor.dtype == KNAPPER_F32)
      memcpy(bytes + 4 * i, &fraction, 4);
    else if (tensor.dtype == KNAPPER_F64)
      memcpy(bytes + 8 * i, &wide, 8);
    else if (tensor.dtype == KNAPPER_F16 || tensor.dtype == KNAPPER_BF16)
      bits *= 0x3c00;
    if (tensor.dtype != KNAPPER_F32 && tensor.dtype != KNAPPER_F64)
      memcpy(bytes + width * i, &bits, width);
  }
}

} // namespace

Status compileAndRun(const std::string &model) {
  Options settings;
  settings.threads = 1;
  settings.cache = false;
  CompileInput input;
  input.bytes = model;
  Expected<int> fd = compileModel(input, settings, "");
  if (!fd)
    return fd.takeError();
  auto artefact =
      Artefact::loadFd(*fd, "memory", {.constants = ConstantChecks::atLoad});
  close(*fd);
  if (!artefact)
    return artefact.takeError();
  auto module = Module::load(*artefact, cpu::device(), {.threads = 1});
  if (!module)
    return module.takeError();
  const Program &program = (*module)->program();
  std::vector<int64_t> symbols;
  for (const Program::Symbol &symbol : program.symbols)
    symbols.push_back(symbol.late ? 0 : sizeFor(symbol));
  Expected<Binding> binding = bindProgram(program, symbols);
  if (!binding)
    return binding.takeError();
  Tensors inputs(program.inputs, *binding), outputs(program.outputs, *binding);
  if (inputs.tooLarge || outputs.tooLarge || binding->arenaBytes > 4 * kLargest)
    return success();
  for (const knapper_tensor &tensor : inputs.list)
    fill(tensor);
  RunResult result;
  return (*module)->run(inputs.list, outputs.list, result);
}

} // namespace knapper::fuzz
