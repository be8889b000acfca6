// One run of a program: state that runs keep, and the interpreter over it.
#pragma once

#include "runtime/execute/Module.h"

namespace knapper {

/// What the call of an external operator needs; all lists have their final size
/// from the start, but memory for a device's tensors.
struct ExternalState {
  std::vector<knapper_tensor> inputs, outputs;
  std::vector<int64_t> dims; // of inputs, then of outputs
  std::vector<knapper_result_shape> shapes;
  std::vector<std::vector<std::byte>> copies; // of inputs, then of outputs
};

/// A run's commands with these sizes and addresses: recorded when the same
/// comes a second time. A caller that keeps a result while the next one is
/// computed has two addresses in turns.
struct Recorded {
  std::shared_ptr<const Binding> binding;
  std::vector<std::byte *> base;
  std::unique_ptr<Recording> recording; // null: came once
};

/// What one run at a time needs and later runs reuse. All lists have their
/// final size from the start.
struct RunState {
  RunState() = default;
  ~RunState() {
    if (pending)
      (void)queue->finish(); // while the buffers are alive
  }
  static Expected<std::unique_ptr<RunState>>
  create(const Program &program, Device &device, const QueueOptions &options);

  std::unique_ptr<DeviceQueue> queue;
  bool pending = false; // a run in a stream of the caller's was not waited for
  // Of a run that repeats the last one.
  LastCall lastCall;     // noted where the run left all lists as they are
  bool straight = false; // it does all commands, in their order, no more
  std::vector<LaunchCommand> commands; // per launch
  int32_t *statuses = nullptr;         // one KernelStatus a launch, in:
  std::unique_ptr<DeviceBuffer> statusMemory;

  std::shared_ptr<const Binding> binding; // what the lists are resolved for
  std::unique_ptr<DeviceBuffer> arena;
  uint64_t scratch = 0; // reserved in the queue

  std::vector<int64_t> symbols;
  std::vector<int64_t> values;
  std::vector<uint8_t> known;       // per value
  std::vector<uint8_t> bound;       // per symbol
  std::vector<std::byte *> base;    // per buffer
  std::vector<uint64_t> bytes;      // per buffer
  std::vector<uint32_t> choice;     // per launch; kNone: not resolved
  std::vector<KernelHandle> wanted; // by these commands
  std::vector<uint32_t> firstArg, firstSymbol, firstMap; // per launch, into:
  std::vector<void *> args;
  // What the arguments were last made of; the same again need not be.
  std::shared_ptr<const Binding> pointed;
  std::vector<std::byte *> pointedBase;
  std::vector<int64_t> kernelSymbols;
  std::vector<TmaDescriptor> kernelMaps;
  // Per buffer, where the device does not address host memory: inputs, outputs
  // and late temps.
  std::vector<std::unique_ptr<DeviceBuffer>> staged;
  std::vector<Block>
      lateBlocks; // where it does: per buffer; only late temps have one
  // Where commands can be recorded: those of the latest runs with other sizes
  // or addresses, newest first.
  std::vector<Recorded> recorded;
  uint64_t recordings = 0, replays = 0; // so far
  std::vector<ExternalState> externals;
  // Bytes of strings that operators made in this run.
  std::vector<std::unique_ptr<char[]>> text;
};

/// What the launches of a run found wrong, from their status words, which are
/// cleared: the first failure's error.
Status takeStatuses(const Program &program, RunState &state);

/// Bytes of a dense tensor; no value if that overflows or a dim is negative.
std::optional<int64_t> tensorBytes(DType dtype, const int64_t *shape,
                                   size_t rank);

/// The interpreter. Lives for one run on one thread.
class Execution {
public:
  Execution(Module &module, RunState &state, RunResult &result,
            const RunOptions &options)
      : module(module), program(module.decoded), state(state), result(result),
        options(options), host(module.hostMemory),
        unchecked(module.numUnchecked.load(std::memory_order_relaxed) > 0) {}

  Status run(std::span<const knapper_tensor> inputs,
             std::span<const knapper_tensor> outputs);

private:
  Status runAgain();
  /// Waits for the runs in the caller's streams, if there are any.
  Status settle();
  bool isStraight() const;
  bool followsFromCall(std::span<const knapper_tensor> outputs) const;
  Status checkInputs(std::span<const knapper_tensor> inputs);
  Status checkDims(std::span<const knapper_tensor> inputs,
                   const Binding &binding);
  Status resolve(std::shared_ptr<const Binding> binding);
  Status place(uint32_t buffer, void *memory);
  bool isKnown(const void *memory) const;
  Status placeLate(uint32_t buffer, uint64_t bytes);
  Status uploadInputs(std::span<const knapper_tensor> inputs);
  Status downloadOutputs();
  Status prepareOutputs(std::span<const knapper_tensor> outputs);
  bool isReplaced(uint32_t input, const knapper_tensor &tensor) const;
  Status checkOverlaps(std::span<const knapper_tensor> inputs);
  Status provideOutput(uint32_t index);
  /// `call`: the library's that is the launch's choice, if any.
  Status resolveLaunch(uint32_t index, const VendorCall *call = nullptr);
  Status pointAllArgs();
  Status pointArgs(uint32_t index);
  Status bindLate(const Program::Dependents &changed);

  /// Constants that the instruction reads, against their hashes if that was not
  /// done before.
  Status checkConstants(const Program::Instruction &instruction);

  Status region(uint32_t index);
  /// The program's commands: as a recording where that is possible, else one by
  /// one.
  Status commands();
  bool recordable() const;
  /// Whether all instructions are of these kinds.
  bool consistsOf(std::initializer_list<fb::Instruction> kinds) const;
  /// Whether the host need not wait on the way, so that a stream that the
  /// caller captures can have the run.
  bool capturable() const;
  Recorded *findRecorded();
  Status launch(uint32_t index);
  Status timedLaunch(uint32_t index);
  /// `start`: on any clock, the same for all launches of a run.
  void noteTime(uint32_t index, uint64_t start, uint64_t nanoseconds);
  Status bindSymbol(const Program::Instruction &instruction);
  // ExecutionExternal.cpp
  Status runExternal(uint32_t index);
  Status externalInputs(const Program::External &external, ExternalState &call,
                        bool direct);
  Status externalShapes(uint32_t index, ExternalState &call);
  Status externalOutputs(const Program::External &external,
                         ExternalState &call, bool direct);
  Status checkTexts(std::span<const knapper_tensor> inputs);
  Status keepTexts();
  Status setSymbols(const Program::Assignment &assignment);
  Status setSymbol(uint32_t symbol, int64_t value);
  Status repeat(const Program::Instruction &instruction);
  Expected<bool> condition(const Program::Instruction &instruction);
  /// Address of `size` bytes at a reference, checked against its buffer.
  Expected<std::byte *> address(const Program::Ref &ref, uint64_t size);
  Status checkStatuses() { return takeStatuses(program, state); }

  Module &module;
  const Program &program;
  RunState &state;
  RunResult &result;
  const RunOptions &options;
  bool host;             // kernels may use the caller's memory
  bool unchecked;        // some constants are
  bool external = false; // the caller's tensors are in the device's memory
  /// Of a profile where events know the time: between which two of them a
  /// launch ran. The last event is where the next launch begins.
  struct Timed {
    uint32_t launch;
    std::shared_ptr<DeviceEvent> begin, end;
  };
  std::vector<Timed> timed;
  std::shared_ptr<DeviceEvent> lastEvent;
  uint64_t firstStart = 0;               // of the first launch that was timed
  std::span<const knapper_tensor> given; // the caller's outputs
};

} // namespace knapper
