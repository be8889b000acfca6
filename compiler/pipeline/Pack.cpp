#include "compiler/pipeline/Pack.h"
#include "compiler/constants/ConstantFiles.h"
#include "compiler/constants/ConstantMemory.h"
#include "compiler/constants/EvaluateConstants.h"
#include "compiler/constants/Winograd.h"
#include "compiler/exec/Origin.h"
#include "compiler/pipeline/KeptSource.h"
#include "compiler/pipeline/Sources.h"
#include "knapper/knapper.h"
#include "runtime/artefact/ArtefactWriter.h"
#include "runtime/base/Threads.h"
#include <atomic>
#include <chrono>

using namespace mlir;

namespace knapper {
namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// The matrix with zeros after each piece, up to a whole group; in `storage`.
PanelSource spreadPieces(const PanelSource &matrix, const PackedOperand &how,
                         DType dtype, std::vector<std::byte> &storage) {
  int64_t bytes = byteSize(dtype), piece = how.rows / how.pieces,
          whole = how.groups() / how.pieces * how.group;
  PanelSource spread{nullptr, how.pieces * whole, matrix.n, matrix.n, 1};
  storage.resize(spread.k * matrix.n * bytes);
  const auto *from = static_cast<const std::byte *>(matrix.data);
  for (int64_t k = 0; k < how.rows; ++k)
    for (int64_t n = 0; n < matrix.n; ++n)
      memcpy(&storage[((k / piece * whole + k % piece) * matrix.n + n) * bytes],
             from + (k * matrix.kStride + n * matrix.nStride) * bytes, bytes);
  spread.data = storage.data();
  return spread;
}

/// Evaluates one request and writes it where it was reserved.
Status packConstant(const ConstantRequest &request, const ConstantFiles &files,
                    ArtefactWriter &writer, uint64_t offset,
                    fb::BufferT &buffer) {
  ASSIGN_OR_RETURN(ConstantView view, evaluateConstant(request.value, files));
  std::vector<std::byte> storage;
  std::span<const std::byte> bytes;
  if (const std::optional<PackedOperand> &packing = request.packing) {
    ConstantView source =
        view.dims.size() == 2 ? std::move(view) : view.dense();
    std::vector<float> transformed;
    if (packing->winograd) {
      transformed =
          winogradFilter(reinterpret_cast<const float *>(source.data),
                         packing->rows / kWinogradMatrices, packing->columns);
      source = {reinterpret_cast<const uint8_t *>(transformed.data()),
                source.dtype,
                {packing->rows, packing->columns},
                {packing->columns, 1},
                nullptr};
    }
    int64_t kStride, nStride;
    if (source.dims.size() == 2) {
      kStride = source.strides[packing->transposed ? 1 : 0];
      nStride = source.strides[packing->transposed ? 0 : 1];
    } else {
      kStride = packing->transposed ? 1 : packing->columns;
      nStride = packing->transposed ? packing->rows : 1;
    }
    PanelSource matrix{source.data, packing->rows, packing->columns, kStride,
                       nStride};
    std::vector<std::byte> apart;
    if (packing->pieces > 1)
      matrix = spreadPieces(matrix, *packing, source.dtype, apart);
    if (packing->nibbles) {
      storage.resize(packedPanelBytes((packing->rows + 1) / 2, packing->columns,
                                      packing->panel, source.dtype));
      packNibbles(storage.data(), matrix, packing->panel, 1);
    } else {
      storage.resize(packedPanelBytes(matrix.k, packing->columns,
                                      packing->panel, source.dtype,
                                      packing->group));
      packPanels(storage.data(), matrix, packing->panel, source.dtype, 1,
                 packing->group);
    }
    bytes = storage;
  } else if (view.isDense()) {
    bytes = {reinterpret_cast<const std::byte *>(view.data), view.bytes()};
    // Written straight from the model's file.
    if (bytes.size() != buffer.constant_bytes)
      return internalError("a constant has another size than planned");
  } else {
    storage.resize(view.bytes());
    view.copyTo(storage.data());
    bytes = storage;
  }
  ASSIGN_OR_RETURN(WrittenConstant written,
                   writer.writeConstant(offset, bytes));
  written.recordIn(buffer);
  return success();
}

/// All constants, on several threads; the file does not depend on scheduling.
Status packConstants(CompileState &state, ArtefactWriter &writer) {
  SmallVector<std::string_view> memory = state.sources->buffers();
  ASSIGN_OR_RETURN(ConstantFiles files,
                   ConstantFiles::open(*state.module, memory));
  std::vector<ConstantRequest> &requests = state.exec.constants;
  std::vector<uint64_t> offsets;
  for (const ConstantRequest &request : requests)
    offsets.push_back(writer.reserveConstant(
        state.exec.program->buffers[request.buffer]->constant_bytes));
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::optional<Error> firstError;
  MemoryGate gate(uint64_t(4) << 30);
  auto work = [&] {
    for (size_t i; (i = next++) < requests.size();) {
      Expected<uint64_t> memory = memoryOfConstant(requests[i].value);
      Status status = success();
      if (memory) {
        MemoryGate::Pass pass(gate, *memory);
        status = packConstant(requests[i], files, writer, offsets[i],
                              *state.exec.program->buffers[requests[i].buffer]);
      } else {
        status = memory.takeError();
      }
      if (!status) {
        std::lock_guard lock(mutex);
        if (!firstError)
          firstError = status.takeError();
        return;
      }
    }
  };
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  runOnThreads(std::min<size_t>(threads, requests.size()), work);
  if (firstError)
    return std::move(*firstError);
  return success();
}

} // namespace

static uint32_t buffersOf(const UniqueKernel &unique,
                          const Schedule &schedule) {
  ts::KernelOp kernel = unique.kernel;
  return kernel.getInputs().size() + kernel.getNumResults() +
         (schedule.state ? 1 : 0);
}

/// Targets, kernels, code and program of one state, after those before it.
static Status addProgram(CompileState &state, ArtefactWriter &writer,
                         fb::ArtefactT &header) {
  auto program = static_cast<uint32_t>(header.programs.size());
  auto firstTarget = static_cast<uint32_t>(header.targets.size());
  auto firstKernel = static_cast<uint32_t>(header.kernels.size());
  for (const TargetDesc &target : state.targets) {
    auto entry = std::make_unique<fb::TargetT>();
    entry->device = state.target->name();
    entry->isa = target.isa;
    entry->program = program;
    header.targets.push_back(std::move(entry));
  }
  for (const UniqueKernel &unique : state.kernels.kernels)
    for (size_t i = 0; i < unique.schedules.size(); ++i) {
      auto kernel = std::make_unique<fb::KernelT>();
      kernel->name = unique.functionName(i);
      kernel->num_buffers = buffersOf(unique, unique.schedules[i]);
      kernel->num_symbols = unique.symbols.size();
      for (auto [t, image] : llvm::enumerate(state.images)) {
        auto code = std::make_unique<fb::KernelCodeT>();
        code->target = firstTarget + t;
        auto entry = image.image.entries.find(kernel->name);
        if (entry == image.image.entries.end())
          return internalError("kernel " + kernel->name +
                               " was not linked for " + image.isa);
        code->entry = entry->second;
        kernel->codes.push_back(std::move(code));
      }
      header.kernels.push_back(std::move(kernel));
    }
  for (const UniqueKernel &unique : state.kernels.kernels) {
    if (!unique.vendor)
      continue;
    // After all compiled ones, as ExecProgram::kernelIndex counts.
    auto kernel = std::make_unique<fb::KernelT>();
    kernel->name = unique.vendorName();
    kernel->num_buffers = buffersOf(unique, unique.schedules.front());
    kernel->num_symbols = unique.symbols.size();
    kernel->library = static_cast<fb::VendorLibrary>(unique.vendor->library);
    header.kernels.push_back(std::move(kernel));
  }
  for (auto [t, image] : llvm::enumerate(state.images))
    writer.addCode(firstTarget + t, std::as_bytes(std::span(image.image.code)));
  std::string report = reportJson(state);
  writer.addSection(fb::SectionKind::report, std::as_bytes(std::span(report)),
                    program);
  for (const auto &region : state.exec.program->regions)
    for (const auto &box : region->instructions)
      if (fb::LaunchT *launch = box->instruction.AsLaunch())
        for (auto &choice : launch->choices)
          choice->kernel += firstKernel;
  header.programs.push_back(std::move(state.exec.program));
  return success();
}

Status packArtefact(std::span<CompileState *const> states) {
  CompileState &first = *states.front();
  ASSIGN_OR_RETURN(auto writer, first.outputPath.empty()
                                    ? ArtefactWriter::createInMemory()
                                    : ArtefactWriter::create(first.outputPath));
  auto start = std::chrono::steady_clock::now();
  for (CompileState *state : states)
    TRY(packConstants(*state, *writer));
  first.stats->packSeconds = secondsSince(start);

  fb::ArtefactT header;
  header.producer = std::string("knapper ") + knapper_version();
  header.created_from = first.input.name();
  for (CompileState *state : states)
    TRY(addProgram(*state, *writer, header));
  TRY(keepSource(first.input, first.options, *writer));
  ASSIGN_OR_RETURN(uint64_t bytes, (writer)->finish(std::move(header)));
  first.stats->artefactBytes = bytes;
  if (first.outputPath.empty())
    first.outputFd = (writer)->takeFd();
  return success();
}

} // namespace knapper
