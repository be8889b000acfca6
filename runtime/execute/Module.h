// A loaded artefact on a device, ready to run.
#pragma once

#include "knapper/knapper.h"
#include "runtime/artefact/Program.h"
#include "runtime/base/Cancel.h"
#include "runtime/device/Device.h"
#include "runtime/execute/Binding.h"
#include "runtime/execute/LastCall.h"
#include "runtime/execute/VendorCalls.h"
#include "runtime/memory/BlockPool.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// Outputs of a run. Reuse one object for many runs: it then allocates nothing.
/// Memory that the module provided goes back to it when the result is cleared,
/// reused or destroyed.
class RunResult {
public:
  RunResult() = default;
  RunResult(const RunResult &) = delete;
  RunResult &operator=(const RunResult &) = delete;
  ~RunResult() { clear(); }
  /// Shapes point into this object.
  std::span<const knapper_tensor> outputs() const {
    return {tensors.data(), tensors.size()};
  }
  void clear();

private:
  friend class Execution;
  TensorList tensors;
  ShapeList shapes;
  std::vector<Block> owned;
  std::shared_ptr<BlockPool> pool;           // that `owned` came from
  std::vector<std::unique_ptr<char[]>> text; // bytes of strings
};

/// Time of one launch, summed over its executions in a run.
struct LaunchTime {
  uint64_t nanoseconds = 0;
  uint64_t executions = 0;
  uint32_t choice = 0;
  int64_t flops = 0, bytes = 0; // of all executions
};

/// One execution of a launch; `start` counts from the first of the run.
struct LaunchEvent {
  uint32_t launch = 0; // of Program::launches, then Program::externals
  uint64_t start = 0, nanoseconds = 0;
  int64_t flops = 0, bytes = 0;
};

struct RunOptions {
  /// Filled with one entry per Program::launches, then one per
  /// Program::externals, when not null.
  std::vector<LaunchTime> *profile = nullptr;
  /// Filled in the order of execution when not null; with `profile` only.
  std::vector<LaunchEvent> *events = nullptr;
  /// Looked at between instructions, and before a recording: ends the run with
  /// a UserError.
  Cancel cancel = {};
  /// Does only the checks that come before the first command. The result has
  /// the shapes of the outputs (-1 for a late dim), and no memory but the
  /// caller's.
  bool checkOnly = false;
  /// A stream of the caller's on the device. The run starts after the stream's
  /// work, and the call returns without waiting for the run. An error that the
  /// kernels find is that of a later run.
  std::optional<void *> stream = {};
  /// All tensors of the caller lie in the device's memory: the driver is not
  /// asked about each.
  bool onDevice = false;
  /// Ranges in the device's memory, about which the driver is not asked either.
  std::span<const std::span<const std::byte>> deviceMemory = {};
};

struct ModuleOptions {
  int32_t threads = 0;           // 0: the driver's default
  int32_t spinMicroseconds = -1; // -1: the driver's default
  std::string isa = {};          // "": the best that file and machine have
  // Nothing is placed on the device, which may be absent: runs are its error.
  bool describes = false;
};

struct RunState;

/// Thread-safe: any number of runs at once, each with state of its own that is
/// kept for later runs. The first run with new sizes plans its memory; a run
/// with known sizes allocates nothing.
class Module {
public:
  /// Takes the target of `device.kind()` that is best here, and its program. No
  /// runnable target is a UserError that lists what there is; so is an operator
  /// that is not registered.
  static Expected<std::shared_ptr<Module>>
  load(std::shared_ptr<const Artefact> artefact, std::shared_ptr<Device> device,
       const ModuleOptions &options);
  ~Module();

  /// Runs on the calling thread and the device's workers. `inputs` in the order
  /// of the signature; `outputs` empty or one per output, see knapper_run.
  /// Everything about inputs and outputs is checked before a kernel starts.
  Status run(std::span<const knapper_tensor> inputs,
             std::span<const knapper_tensor> outputs, RunResult &result,
             const RunOptions &options = {});

  /// What kernels of runs in streams have found wrong by now.
  Status checkStreams();

  const Artefact &artefact() const { return *file; }
  const Program &program() const { return decoded; }
  const std::string &isa() const { return chosenIsa; }
  /// Index of the target in the artefact.
  uint32_t target() const { return chosenTarget; }
  const Device &device() const { return *where; }
  /// What became of the vendors' libraries that the program would call.
  std::span<const VendorUse> vendors() const { return vendorUses; }
  /// As asked for at load.
  int32_t threads() const { return options.threads; }

  /// The program bound to sizes, from the cache of recent ones.
  Expected<std::shared_ptr<const Binding>>
  binding(std::span<const int64_t> symbols);

private:
  Module() = default;
  Expected<std::unique_ptr<RunState>> takeState();
  void giveState(std::unique_ptr<RunState> state);
  /// What replays of captured runs found wrong since the last call.
  Status checkCaptured();
  Status placeConstants();
  /// All constants of the program against their hashes, on the calling thread
  /// and others.
  Status checkConstants();
  /// To be called when the last of the program's constants was checked.
  void allConstantsAreWhole();
  friend class Execution;

  std::shared_ptr<const Artefact> file;
  std::shared_ptr<Device> where;
  ModuleOptions options;
  uint32_t chosenTarget = 0;
  std::string chosenIsa;
  Program decoded;
  std::vector<VendorUse> vendorUses;
  std::unique_ptr<Executable> code;
  std::vector<KernelHandle> kernels; // per kernel of the artefact
  std::vector<std::shared_ptr<const Operator>> operators; // per external
  std::byte *constants = nullptr; // offset 0 of them: in the file, or of:
  std::unique_ptr<DeviceBuffer> deviceConstants;
  std::shared_ptr<BlockPool> outputPool = std::make_shared<BlockPool>();
  bool hostMemory = false; // kernels use the caller's
  // Per buffer, whether it is a constant that has still to be compared with its
  // hash, and how many are.
  std::unique_ptr<std::atomic<bool>[]> unchecked;
  std::atomic<uint32_t> numUnchecked{0};
  // The state that the next run takes; others are idle. One run after the other
  // then needs no lock.
  std::atomic<RunState *> ready{nullptr};
  std::mutex mutex; // guards what follows
  std::vector<std::unique_ptr<RunState>> idle;
  // Of runs in a captured stream. Graphs of the caller's, which the module does
  // not see, use their memory whenever they are replayed.
  std::vector<std::unique_ptr<RunState>> captured;
  std::atomic<bool> hasCaptured = false;
  std::vector<std::shared_ptr<const Binding>> recent; // newest first
};

} // namespace knapper
