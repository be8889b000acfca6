#include "runtime/execute/Module.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/execute/Execution.h"
#include "runtime/operators/Registry.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace knapper {
namespace {

// Plans kept; a server with more distinct sizes plans some of them again.
constexpr size_t kMaxBindings = 64;

/// Index of the best target for the device, or an error that says what there
/// is.
Expected<uint32_t> chooseTarget(const Artefact &artefact, const Device &device,
                                const std::string &isa) {
  const auto *targets = artefact.header().targets();
  std::string present;
  uint32_t best = count(targets);
  for (uint32_t i = 0; i < count(targets); ++i) {
    const fb::Target *t = targets->Get(i);
    // The null driver runs code of any device: it does not look at it.
    if (device.kind() != "null" && device.kind() != text(t->device()))
      continue;
    present += cat(present.empty() ? "" : ", ", text(t->isa()));
    if (!isa.empty() && isa != text(t->isa()))
      continue;
    int rank = device.rank(text(t->isa()));
    if (rank > 0 && (best == count(targets) ||
                     rank > device.rank(text(targets->Get(best)->isa()))))
      best = i;
  }
  if (best != count(targets))
    return best;
  std::string runnable = device.runnable();
  if (present.empty())
    return userError(
        cat("the artefact has no code for device '", device.kind(), "'"),
        artefact.name(), "compile the model for this target");
  if (!isa.empty())
    return userError(
        cat("cannot use code for '", isa, "': the artefact has ", present,
            "; this machine runs ", runnable.empty() ? "none" : runnable),
        artefact.name(), "leave the instruction set out to choose the best");
  return userError(
      cat("the artefact has code for ", present,
          runnable.empty()
              ? "; this processor is below x86-64-v3 (AVX2, FMA, BMI, F16C)"
              : "; this machine runs " + runnable),
      artefact.name(), "compile for this machine, or use a newer one");
}

} // namespace

Module::~Module() { delete ready.load(); }

Expected<std::shared_ptr<Module>>
Module::load(std::shared_ptr<const Artefact> artefact,
             std::shared_ptr<Device> device, const ModuleOptions &options) {
  Expected<uint32_t> target = chooseTarget(*artefact, *device, options.isa);
  if (!target)
    return target.takeError();
  std::shared_ptr<Module> module(new Module);
  module->file = artefact;
  module->where = device;
  module->hostMemory = device->addressesHost();
  module->options = options;
  const fb::Artefact &header = artefact->header();
  const fb::Target *chosen = header.targets()->Get(*target);
  module->chosenTarget = *target;
  module->chosenIsa = text(chosen->isa());

  Expected<Program> program =
      Program::decode(*artefact, chosen->program(), *target);
  if (!program)
    return program.takeError();
  module->decoded = std::move(*program);
  module->kernels.resize(count(header.kernels()));
  if (std::span<const std::byte> bytes = artefact->code(*target);
      !bytes.empty()) {
    Expected<std::unique_ptr<Executable>> code = device->load(
        bytes, cat(artefact->name(), " (code for ", module->chosenIsa, ")"));
    if (!code)
      return code.takeError();
    module->code = std::move(*code);
  }
  for (uint32_t i = 0; i < count(header.kernels()); ++i) {
    const fb::Kernel *kernel = header.kernels()->Get(i);
    for (uint32_t c = 0; c < count(kernel->codes()); ++c) {
      const fb::KernelCode *entry = kernel->codes()->Get(c);
      if (entry->target() != *target)
        continue;
      Expected<KernelHandle> handle =
          module->code->kernel(entry->entry(), text(kernel->name()));
      if (!handle)
        return handle.takeError();
      module->kernels[i] = *handle;
    }
  }
  if (options.describes)
    return module;
  module->vendorUses = openLibraries(module->decoded, *device);
  for (const Program::External &external : module->decoded.externals) {
    std::shared_ptr<const Operator> found =
        findOperator(external.domain, external.name);
    if (!found)
      return userError(cat("operator ",
                           operatorText(external.domain, external.name),
                           " is not registered"),
                       cat(artefact->name(), ", ", external.node.where),
                       howToRegister(external.domain, external.name));
    module->operators.push_back(std::move(found));
  }
  // The first state now: what is wrong with the options shows at load.
  Expected<std::unique_ptr<RunState>> state = module->takeState();
  if (!state)
    return state.takeError();
  auto begin = std::chrono::steady_clock::now();
  if (Status s = module->placeConstants(); !s)
    return s.takeError();
  std::chrono::duration<double, std::milli> placing =
      std::chrono::steady_clock::now() - begin;
  module->giveState(std::move(*state));
  if (logEnabled(LogLevel::info)) {
    std::string copied;
    if (module->deviceConstants)
      copied = cat("; ", module->deviceConstants->bytes(),
                   " bytes of constants copied in ", placing.count(), " ms");
    log(LogLevel::info,
        cat("loaded ", artefact->name(), ": ", count(header.kernels()),
            " kernels, ", module->decoded.launches.size(), " launches, ",
            module->chosenIsa, copied));
  }
  return module;
}

Status Module::checkConstants() {
  std::vector<ConstantPiece> pieces;
  for (const Program::Buffer &b : decoded.buffers)
    if (b.kind == fb::BufferKind::constant)
      if (Status s = file->addPieces(*b.source, pieces); !s)
        return s;
  if (Status s = file->checkPieces(pieces, options.threads); !s)
    return s;
  allConstantsAreWhole();
  return success();
}

void Module::allConstantsAreWhole() {
  // Another program of the file may have others.
  if (count(file->header().programs()) == 1)
    file->markWhole();
}

Status Module::placeConstants() {
  std::span<const std::byte> bytes = file->constants();
  if (where->addressesHost() || bytes.empty()) {
    constants = const_cast<std::byte *>(bytes.data());
    if (!file->checksBeforeUse())
      return success();
    unchecked = std::make_unique<std::atomic<bool>[]>(decoded.buffers.size());
    for (size_t i = 0; i < decoded.buffers.size(); ++i)
      if (decoded.buffers[i].kind == fb::BufferKind::constant) {
        unchecked[i] = true;
        ++numUnchecked;
      }
    return success();
  }
  if (file->checksBeforeUse())
    if (Status s = checkConstants(); !s)
      return s;
  // Those of another device's program stay where they are.
  uint64_t begin = bytes.size(), end = 0;
  for (const Program::Buffer &b : decoded.buffers)
    if (b.kind == fb::BufferKind::constant) {
      begin = std::min(begin, b.constantOffset);
      end = std::max(end, b.constantOffset + b.constantBytes);
    }
  if (begin >= end)
    return success();
  bytes = bytes.subspan(begin, end - begin);
  Expected<std::unique_ptr<DeviceBuffer>> buffer =
      where->allocate(bytes.size(), MemoryKind::device);
  if (!buffer)
    return buffer.takeError();
  deviceConstants = std::move(*buffer);
  auto *place = static_cast<std::byte *>(deviceConstants->address());
  constants =
      reinterpret_cast<std::byte *>(reinterpret_cast<uintptr_t>(place) - begin);
  int32_t threads = options.threads > 0
                        ? options.threads
                        : static_cast<int32_t>(std::min(
                              std::thread::hardware_concurrency(), 16u));
  UploadPart all{place, bytes.size(), bytes.data()};
  return where->uploadAll({&all, 1}, threads);
}

Expected<std::unique_ptr<RunState>> Module::takeState() {
  if (RunState *state = ready.exchange(nullptr, std::memory_order_acquire))
    return std::unique_ptr<RunState>(state);
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<RunState> state = std::move(idle.back());
      idle.pop_back();
      return state;
    }
  }
  return RunState::create(decoded, *where,
                          {options.threads, options.spinMicroseconds});
}

void Module::giveState(std::unique_ptr<RunState> state) {
  RunState *none = nullptr;
  if (ready.compare_exchange_strong(none, state.get(),
                                    std::memory_order_release)) {
    (void)state.release();
    return;
  }
  std::lock_guard lock(mutex);
  idle.push_back(std::move(state));
}

Status Module::checkStreams() {
  std::unique_ptr<RunState> state(
      ready.exchange(nullptr, std::memory_order_acquire));
  if (!state) {
    std::lock_guard lock(mutex);
    // A new one would have no statuses, and may find no memory.
    if (idle.empty())
      return success();
    state = std::move(idle.back());
    idle.pop_back();
  }
  Status status = takeStatuses(decoded, *state);
  giveState(std::move(state));
  return status;
}

Status Module::checkCaptured() {
  if (!hasCaptured.load(std::memory_order_relaxed))
    return success();
  std::lock_guard lock(mutex);
  for (const std::unique_ptr<RunState> &state : captured)
    if (Status s = takeStatuses(decoded, *state); !s)
      return s;
  return success();
}

Expected<std::shared_ptr<const Binding>>
Module::binding(std::span<const int64_t> symbols) {
  auto matches = [&](const std::shared_ptr<const Binding> &b) {
    for (size_t i = 0; i < symbols.size(); ++i)
      if (!decoded.symbols[i].late && b->symbols[i] != symbols[i])
        return false;
    return true;
  };
  {
    std::lock_guard lock(mutex);
    auto found = std::find_if(recent.begin(), recent.end(), matches);
    if (found != recent.end()) {
      std::rotate(recent.begin(), found, found + 1);
      return recent.front();
    }
  }
  Expected<Binding> bound = bindProgram(decoded, symbols);
  if (!bound)
    return bound.takeError();
  TRY(prepareCalls(decoded, *where, options.threads, *bound));
  auto shared = std::make_shared<const Binding>(std::move(*bound));
  std::lock_guard lock(mutex);
  recent.insert(recent.begin(), shared);
  if (recent.size() > kMaxBindings)
    recent.pop_back();
  return std::shared_ptr<const Binding>(shared);
}

/// Waits for what was given to the queue, also where there is no memory to wait
/// with at first.
static void finishSurely(DeviceQueue &queue) {
  while (true)
    try {
      (void)queue.finish();
      return;
    } catch (const std::bad_alloc &) { // others give some memory back
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Status Module::run(std::span<const knapper_tensor> inputs,
                   std::span<const knapper_tensor> outputs, RunResult &result,
                   const RunOptions &runOptions) {
  if (Status s = checkCaptured(); !s) {
    result.clear();
    return s;
  }
  Expected<std::unique_ptr<RunState>> state = takeState();
  if (!state)
    return state.takeError();
  Status status;
  try {
    status = Execution(*this, **state, result, runOptions).run(inputs, outputs);
  } catch (const std::bad_alloc &) {
    // The state goes, and the device may have commands that write to it.
    if (DeviceQueue &queue = *(*state)->queue; !queue.isCaptured())
      finishSurely(queue);
    throw;
  }
  if (!status)
    result.clear();
  if (!(*state)->queue->isCaptured()) {
    giveState(std::move(*state));
    return status;
  }
  std::lock_guard lock(mutex);
  captured.push_back(std::move(*state));
  hasCaptured = true;
  return status;
}

void RunResult::clear() {
  for (Block &block : owned)
    if (block.bytes() > 0)
      pool->give(std::move(block));
  owned.clear();
  tensors.clear();
  text.clear();
}

} // namespace knapper
