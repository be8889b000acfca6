#include "targets/cpu/CompileKernels.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/GivenObject.h"
#include "targets/cpu/Link.h"

#include "codegen/lower/common/Lower.h"
#include "runtime/base/ForkMutex.h"
#include "runtime/base/Headroom.h"
#include "runtime/base/Log.h"
#include "runtime/base/Threads.h"
#include "targets/cpu/Object.h"
#include "targets/cpu/Support.h"

#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <numeric>

using namespace mlir;

namespace knapper {
namespace {

double cpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// What LLVM may need for one kernel, with room to spare. It must not run out
// inside LLVM, which has no way back: a static that is being made when an
// allocation throws stays locked, and the next thread there waits forever.
constexpr uint64_t kKernelMemory = uint64_t(48) << 20;

/// What one compilation shares between its threads.
struct Shared {
  std::span<const KernelJob> jobs;
  std::vector<size_t> order; ///< in which they are begun
  std::span<const TargetDesc> targets;
  const DialectRegistry *dialects;
  size_t threads;
  std::atomic<size_t> working = 0; ///< threads that take jobs
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  Error error;
  // [target][job]
  std::vector<std::vector<std::string>> objects;
  std::vector<std::vector<std::vector<std::string>>> names;
  std::vector<std::vector<CompileTimes>> times;

  void fail(Error e) {
    std::lock_guard lock(mutex);
    if (!failed.exchange(true))
      error = std::move(e);
  }

  /// Whether memory is left for a job of every thread that works. Where it is
  /// not, the calling thread leaves the work to the others; the last one
  /// fails.
  bool hasMemory() {
    for (size_t count = working;;) {
      Status status = checkHeadroom(count * kKernelMemory);
      if (status)
        return true;
      if (count == 1) {
        fail(status.takeError());
        return false;
      }
      if (working.compare_exchange_weak(count, count - 1))
        return false;
    }
  }
};

Status compileOne(const KernelJob &job, const TargetDesc &target,
                  MLIRContext &context, llvm::LLVMContext &llvmContext,
                  ObjectEmitter &emitter, std::string &object,
                  std::vector<std::string> &names, CompileTimes &times) {
  if (job.given)
    return success();
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
    if (d.getSeverity() == DiagnosticSeverity::Error) {
      if (!diagnostics.empty())
        diagnostics += "; ";
      diagnostics += d.str();
    }
    return mlir::success();
  });
  std::string where = "kernel '" + job.name + "' for " + target.isa;
  double start = cpuSeconds();
  auto lap = [&](double &into) {
    double now = cpuSeconds();
    into += now - start;
    start = now;
  };
  OwningOpRef<ModuleOp> source = job.build(context, target);
  if (!source)
    return internalError("no tile program: " + diagnostics, where);
  lap(times.build);

  llvm::Module module(job.name, llvmContext);
  emitter.prepare(module);
  bool found = false;
  for (tile::FuncOp func : source->getOps<tile::FuncOp>()) {
    if (failed(lowerToCpu(func, target, module)))
      return internalError(diagnostics, where);
    names.push_back(func.getName().str());
    found |= names.back() == job.name;
  }
  if (!found)
    return internalError("the module has no tile.func of that name", where);
#ifndef NDEBUG
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream))
    return internalError("lowering made wrong LLVM IR: " + broken, where);
#endif
  lap(times.lower);
  emitter.optimise(module);
  lap(times.optimise);
  auto bytes = emitter.emit(module);
  if (!bytes)
    return bytes.takeError();
  object = std::move(*bytes);
  lap(times.emit);
  char text[160];
  snprintf(text, sizeof text,
           ": build %.1f, lower %.1f, optimise %.1f, emit %.1f ms of CPU; "
           "object of %zu bytes",
           times.build * 1e3, times.lower * 1e3, times.optimise * 1e3,
           times.emit * 1e3, object.size());
  log(LogLevel::debug, where + text);
  return success();
}

void work(Shared &shared) {
  ++shared.working;
  if (!shared.hasMemory())
    return;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  if (shared.dialects)
    context.appendDialectRegistry(*shared.dialects);
  context.loadDialect<tile::TileDialect, ub::UBDialect>();
  llvm::LLVMContext llvmContext;
  std::vector<std::unique_ptr<ObjectEmitter>> emitters(shared.targets.size());
  size_t total = shared.jobs.size() * shared.targets.size();
  for (bool first = true; !shared.failed; first = false) {
    if (!first && !shared.hasMemory())
      return;
    size_t i = shared.next++;
    if (i >= total)
      return;
    size_t target = i % shared.targets.size();
    size_t job = shared.order[i / shared.targets.size()];
    if (!emitters[target]) {
      auto emitter = ObjectEmitter::create(shared.targets[target]);
      if (!emitter)
        return shared.fail(emitter.takeError());
      emitters[target] = std::move(*emitter);
    }
    Status status =
        compileOne(shared.jobs[job], shared.targets[target], context,
                   llvmContext, *emitters[target], shared.objects[target][job],
                   shared.names[target][job], shared.times[target][job]);
    if (!status)
      return shared.fail(status.takeError());
  }
}

struct Support;

/// Of the least instruction set, so that every image may hold it, and made once
/// a process: a compile of few kernels would spend a tenth of its time on it.
Expected<std::string> supportObject() {
  // Under the mutex. Neither made with a guard that a child of fork may find
  // held nor destroyed at exit, where threads may compile.
  static constinit const std::string *made = nullptr;
  {
    std::lock_guard lock(forkMutex<Support>());
    if (made)
      return *made;
  }
  ASSIGN_OR_RETURN(TargetDesc target, cpuTarget(cpuIsas().back()));
  ASSIGN_OR_RETURN(auto emitter, ObjectEmitter::create(target));
  llvm::LLVMContext context;
  llvm::Module module("support", context);
  emitter->prepare(module);
  addSupportFunctions(module);
  emitter->optimise(module);
  ASSIGN_OR_RETURN(std::string object, emitter->emit(module));
  std::lock_guard lock(forkMutex<Support>());
  if (!made)
    made = new std::string(object);
  return object;
}

} // namespace

Expected<std::vector<CompiledImage>>
compileKernels(std::span<const KernelJob> jobs,
               std::span<const TargetDesc> targets, unsigned threads,
               const DialectRegistry *dialects) {
  Shared shared;
  shared.jobs = jobs;
  shared.order.resize(jobs.size());
  std::iota(shared.order.begin(), shared.order.end(), 0);
  std::stable_sort(
      shared.order.begin(), shared.order.end(),
      [&](size_t a, size_t b) { return jobs[a].length > jobs[b].length; });
  shared.targets = targets;
  shared.dialects = dialects;
  shared.threads = std::clamp<size_t>(
      threads, 1, std::max<size_t>(jobs.size() * targets.size(), 1));
  shared.objects.assign(targets.size(), std::vector<std::string>(jobs.size()));
  shared.names.assign(targets.size(),
                      std::vector<std::vector<std::string>>(jobs.size()));
  shared.times.assign(targets.size(), std::vector<CompileTimes>(jobs.size()));

  ASSIGN_OR_RETURN(GivenObjects given, GivenObjects::of(jobs));
  // On this thread alone, first: most of LLVM's statics are made here.
  TRY(checkHeadroom(kKernelMemory));
  ASSIGN_OR_RETURN(std::string support, supportObject());
  runOnThreads(shared.threads, [&] { work(shared); });
  if (shared.failed)
    return std::move(shared.error);

  std::vector<CompiledImage> images;
  for (size_t t = 0; t < targets.size(); ++t) {
    CompiledImage result;
    result.isa = targets[t].isa;
    std::vector<std::string> roots = given.roots();
    for (const auto &names : shared.names[t])
      roots.insert(roots.end(), names.begin(), names.end());
    std::vector<std::string> objects = std::move(shared.objects[t]);
    std::erase_if(objects, [](const auto &object) { return object.empty(); });
    objects.insert(objects.end(), given.objects().begin(),
                   given.objects().end());
    objects.push_back(support);
    double start = cpuSeconds();
    TRY(checkHeadroom(kKernelMemory));
    Expected<KernelImage> image = linkImage(objects, roots);
    if (!image)
      return given.linkError(image.takeError());
    given.nameEntries(*image);
    result.image = std::move(*image);
    result.linkSeconds = cpuSeconds() - start;
    result.jobs = shared.times[t];
    for (const CompileTimes &times : result.jobs) {
      result.times.build += times.build;
      result.times.lower += times.lower;
      result.times.optimise += times.optimise;
      result.times.emit += times.emit;
    }
    images.push_back(std::move(result));
  }
  return images;
}

} // namespace knapper
