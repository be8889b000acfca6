// A compile that begins with a file of --dump-dir. The file may have been
// edited: what no longer fits together is the user's error.
#include "compiler/kernels/ScheduleAttr.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/TensorText.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/Views.h"
#include "graph/memory/InPlace.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace knapper {
namespace {

class Resume {
public:
  Resume(CompileState &state, const Phase &first)
      : state(state), first(first), path(state.input.path) {}

  Status run();

private:
  Status refuse(const std::string &what) const {
    const Phase &before = (&first)[-1];
    return userError(what, path,
                     cat("--start-from=", first.name, " reads what --dump-dir ",
                         "wrote as ", dumpName(before)));
  }
  /// Diagnostics of the file are the user's.
  Status diagnosed(const char *otherwise) const {
    if (state.diagnostics.empty())
      return refuse(otherwise);
    Error error = state.diagnostics.front();
    return userError(error.what, error.where,
                     "mend the file, or write it again with --dump-dir");
  }
  Expected<std::string> beside(const std::string &name) const;
  Status readModule();
  Status checkKernels();
  Status takeUserKernelOf(UniqueKernel &unique, StringRef name);
  Status takeVendorOf(UniqueKernel &unique, StringRef library);
  Status readSchedules();
  Status readTilePrograms();
  Status readObjects();
  Status readProgram();
  /// The module of that name beside the program.
  ModuleOp part(StringRef name) {
    return file ? file->lookupSymbol<ModuleOp>(name) : ModuleOp();
  }

  CompileState &state;
  const Phase &first;
  std::string path;           ///< of the file being read
  std::string program;        ///< level exec: its text
  OwningOpRef<ModuleOp> file; ///< the parts around the program, if any
};

Expected<std::string> Resume::beside(const std::string &name) const {
  if (state.input.path.empty())
    return userError("a model in memory has no files beside it", first.name,
                     "give the path of the dump");
  SmallString<256> other(llvm::sys::path::parent_path(state.input.path));
  llvm::sys::path::append(other, name);
  return other.str().str();
}

Expected<std::string> readFile(const std::string &path) {
  ASSIGN_OR_RETURN(InputFile file,
                   InputFile::open(path, "files of a dump belong together"));
  return file.read();
}

Status Resume::readModule() {
  ASSIGN_OR_RETURN(auto parsed, parseTensorText(state, path));
  OwningOpRef<ModuleOp> read = std::move(parsed);
  if (!read)
    return diagnosed("not readable as tensor IR");
  auto isProgram = [](ModuleOp module) {
    return bool(module.lookupSymbol<func::FuncOp>("main"));
  };
  auto check = [&]() -> Status {
    TRY(checkProgram(state.main(), path));
    // What runs of an exec program is in its own file.
    if (first.in != Level::exec)
      checkSlices(*state.module);
    return success();
  };
  if (isProgram(*read)) {
    state.module = std::move(read);
    return check();
  }
  for (ModuleOp module : read->getOps<ModuleOp>())
    if (isProgram(module)) {
      module->remove();
      state.module = module;
      file = std::move(read);
      return check();
    }
  return userError("there is no function main", path,
                   "name the entry function @main");
}

Status Resume::checkKernels() {
  for (func::FuncOp function : ts::withBodies(state.main()))
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<ts::KernelOp, ts::ExternalOp, ts::BindSizeOp, ts::CheckOp,
               ts::IfOp, ts::LoopOp>(op) &&
          !fusion::isView(&op) &&
          !(op.getNumResults() > 0 &&
            fusion::isConstantExpression(op.getResult(0))))
        return refuse(cat("'", op.getName().getStringRef().str(),
                          "' is outside any kernel"));
  return success();
}

/// Whether one of `chosen` has the same kind and the same settings.
static bool isKnown(const Schedule &schedule, ArrayRef<Schedule> chosen) {
  return llvm::any_of(chosen, [&](const Schedule &other) {
    return other.kind == schedule.kind &&
           llvm::equal(other.parameters, schedule.parameters,
                       [](const auto &a, const auto &b) {
                         return a.first == b.first &&
                                (a.second > 0 ? b.second > 0 : b.second >= 0);
                       });
  });
}

/// ": 'reduce' has no setting 'lanes' of 65536" for the first setting that no
/// builder is meant for: code for a tile is as long as the tile. Else nothing.
static std::string excessIn(const Schedule &schedule,
                            ArrayRef<Schedule> chosen) {
  constexpr int64_t most = 1 << 14;
  for (const auto &[key, value] : schedule.parameters) {
    int64_t largest = most;
    for (const Schedule &other : chosen)
      if (auto found = other.parameters.find(key);
          found != other.parameters.end())
        largest = std::max(largest, found->second);
    if (value > largest)
      return cat(": '", schedule.kind, "' has no setting '", key, "' of ",
                 value, " here, at most ", largest);
  }
  return {};
}

/// ": 'grid' of -3, at least 1" for the first of these sizes that no launch can
/// have: a formula is judged at representative sizes. What the schedules chosen
/// here have is right. Else nothing.
static std::string wrongSizeIn(const Schedule &schedule,
                               ArrayRef<Schedule> chosen) {
  struct Size {
    const char *name;
    ts::Dim Schedule::*size;
    int64_t least, most;
  };
  constexpr int64_t mostScratch = 1 << 30; // bytes of a worker
  constexpr int64_t mostState = 1 << 24;   // the file holds as many zeros
  constexpr int64_t any = std::numeric_limits<int64_t>::max();
  auto outside = [](const char *name, std::optional<int64_t> value,
                    int64_t least, int64_t most) -> std::string {
    if (!value)
      return cat(": '", name, "' is no 64-bit number");
    if (*value < least)
      return cat(": '", name, "' of ", *value, ", at least ", least);
    if (*value > most)
      return cat(": '", name, "' of ", *value, ", at most ", most);
    return {};
  };
  for (Size size : {Size{"grid", &Schedule::grid, 1, any},
                    Size{"grain", &Schedule::grain, 1, any},
                    Size{"scratch", &Schedule::scratch, 0, mostScratch}}) {
    ts::Dim dim = schedule.*size.size;
    int64_t most = size.most;
    bool known = false;
    for (const Schedule &other : chosen) {
      known |= other.*size.size == dim;
      most = std::max(most, representative(other.*size.size));
    }
    if (known)
      continue;
    std::optional<int64_t> value =
        dim.evaluate([](StringRef) -> std::optional<int64_t> { return 128; });
    std::string wrong = outside(size.name, value, size.least, most);
    if (!wrong.empty())
      return wrong;
  }
  // A kernel has state or has none; builders know which.
  int64_t state = chosen.front().state;
  return state ? outside("state", schedule.state, sizeof(int64_t),
                         std::max(state, mostState))
               : outside("state", schedule.state, 0, 0);
}

/// ": there is no size 'zz'" for a symbol that is none of the kernel's. Else
/// nothing.
static std::string strangeSizeIn(const Schedule &schedule,
                                 ArrayRef<std::string> symbols) {
  llvm::SetVector<StringAttr> used;
  for (ts::Dim dim : {schedule.grid, schedule.grain, schedule.scratch})
    dim.collectSymbols(used);
  for (const Guard::Term &term : schedule.guard.terms)
    for (ts::Dim dim : {term.lhs, term.rhs})
      dim.collectSymbols(used);
  for (const OperandMap &map : schedule.maps) {
    map.offset.collectSymbols(used);
    for (const auto *dims : {&map.sizes, &map.strides})
      for (ts::Dim dim : *dims)
        dim.collectSymbols(used);
  }
  for (StringAttr symbol : used)
    if (!llvm::is_contained(symbols, symbol.getValue()))
      return cat(": there is no size '", symbol.getValue().str(), "' in it");
  return {};
}

/// ": 'reduce' has no setting 'parts'" for the first setting of a schedule that
/// none of its kind has: of a dump that another version wrote. Else nothing.
static std::string strangerIn(const Schedule &schedule,
                              ArrayRef<Schedule> chosen) {
  for (const auto &[key, value] : schedule.parameters) {
    bool sameKind = false, found = false;
    for (const Schedule &other : chosen)
      if (other.kind == schedule.kind) {
        sameKind = true;
        found |= other.parameters.contains(key);
      }
    if (sameKind && !found)
      return cat(": '", schedule.kind, "' has no setting '", key, "' here");
  }
  return {};
}

/// The dump names a kernel that lies in the file of --kernels.
Status Resume::takeUserKernelOf(UniqueKernel &unique, StringRef name) {
  for (const UserKernel &user : state.userKernels) {
    if (user.name != name || user.signature != unique.signature)
      continue;
    std::string why = whyNot(unique, user, *state.target, state.targets);
    if (!why.empty())
      return refuse(cat("the user kernel '", user.name, "' cannot run: ", why));
    unique.offers = {{user.name, UserKernelOffer::Outcome::dumped}};
    return takeUserKernel(unique, user, state.targets.front());
  }
  return refuse(cat("kernel ", unique.signature, " takes the user kernel '",
                    name.str(), "', which --kernels does not give"));
}

/// The dump names a library that computes the kernel.
Status Resume::takeVendorOf(UniqueKernel &unique, StringRef library) {
  for (VendorLibrary known : state.target->vendorLibraries())
    if (name(known) == std::string_view(library)) {
      VendorMatch match = matchVendorMatmul(unique.kernel, known);
      if (!match.matmul)
        return refuse(cat("kernel ", unique.signature, " cannot be ",
                          library.str(), "'s: ", match.why));
      unique.vendorOffers = {{library.str(), true, "by the dump"}};
      return takeVendor(unique, std::move(*match.matmul),
                        state.targets.front());
    }
  return refuse(cat("kernel ", unique.signature, " is of '", library.str(),
                    "', which is no library of ", state.target->name()));
}

Status Resume::readSchedules() {
  collectKernels(state);
  std::vector<UniqueKernel> &kernels = state.kernels.kernels;
  Status status = success();
  state.forEachKernel([&](ts::KernelOp kernel) {
    UniqueKernel &unique = kernels[state.uses.find(kernel)->second.kernel];
    auto user = kernel->getAttrOfType<StringAttr>(kUserKernelAttr);
    auto vendor = kernel->getAttrOfType<StringAttr>(kVendorAttr);
    if (vendor && !unique.vendor && unique.schedules.empty() && status) {
      status = takeVendorOf(unique, vendor.getValue());
      unique.setSchedules({}); // those of the file
    }
    if (user && unique.schedules.empty() && status)
      status = takeUserKernelOf(unique, user.getValue());
    if (const UserKernel *taken = userKernelOf(state, unique))
      memory::setInPlace(kernel, taken->inPlace);
    if (!unique.schedules.empty() || !status)
      return;
    std::string name = kernel.getSignature().value_or("").str() + " (" +
                       unique.signature + ")";
    if (kernel.getSignature() != unique.signature || !kernel.getSchedules()) {
      status = refuse(cat("kernel ", name,
                          " has no schedules in this file, or "
                          "was edited: another kernel wants other schedules"));
      return;
    }
    // What the builders rely on: kinds that serve this kernel, with their
    // parameters, sizes above zero, and a last one for all sizes.
    auto chosen = chooseSchedules(unique.kernel, state.targets.front());
    SmallVector<Schedule> read;
    for (Attribute attribute : kernel.getSchedulesAttr()) {
      std::optional<Schedule> schedule = scheduleOf(attribute);
      if (!schedule || failed(chosen) || !isKnown(*schedule, *chosen)) {
        status = refuse(
            cat("kernel ", name, " has a schedule that its hero does not know",
                schedule && succeeded(chosen) ? strangerIn(*schedule, *chosen)
                                              : std::string()));
        return;
      }
      std::string wrong = excessIn(*schedule, *chosen);
      if (wrong.empty())
        wrong = strangeSizeIn(*schedule, unique.symbols);
      if (wrong.empty())
        wrong = wrongSizeIn(*schedule, *chosen);
      if (!wrong.empty()) {
        status = refuse(cat("kernel ", name,
                            " has a schedule that does not fit it", wrong));
        return;
      }
      read.push_back(std::move(*schedule));
    }
    if (read.empty() || !read.back().guard.terms.empty()) {
      status = refuse(
          cat("kernel ", name, " needs a last schedule without a guard"));
      return;
    }
    unique.setSchedules(std::move(read));
  });
  if (status)
    dropEqualTargets(state);
  return status;
}

Status Resume::readTilePrograms() {
  for (const TargetDesc &target : state.targets) {
    ModuleOp all = part("tile");
    auto module = all ? all.lookupSymbol<ModuleOp>(target.isa) : ModuleOp();
    if (!module)
      return refuse(cat("there are no tile programs for ", target.isa,
                        ", which --isa asks for"));
    for (const UniqueKernel &unique : state.kernels.kernels)
      for (size_t i = 0;
           unique.userKernel.empty() && i < unique.schedules.size(); ++i) {
        std::string name = unique.functionName(i);
        auto function = module.lookupSymbol<tile::FuncOp>(name);
        ts::KernelOp kernel = unique.kernel;
        if (!function)
          return refuse(
              cat("there is no tile.func @", name, " for ", target.isa));
        if (function.getNumBuffers() !=
                kernel.getInputs().size() + kernel.getNumResults() ||
            function.getNumSymbols() != unique.symbols.size())
          return refuse(
              cat("tile.func @", name, " has other arguments than its kernel"));
        llvm::raw_string_ostream(state.tilePrograms[{target.isa, name}])
            << *function.getOperation();
      }
  }
  return listPrograms(state);
}

Status Resume::readObjects() {
  for (const TargetDesc &target : state.targets) {
    ModuleOp all = part("objects");
    auto module = all ? all.lookupSymbol<ModuleOp>(target.isa) : ModuleOp();
    auto name =
        module ? module->getAttrOfType<StringAttr>("ts.file") : StringAttr();
    auto entries = module ? module->getAttrOfType<DictionaryAttr>("ts.entries")
                          : DictionaryAttr();
    if (!name || !entries)
      return refuse(cat("there are no objects for ", target.isa,
                        ", which --isa asks for"));
    ASSIGN_OR_RETURN(std::string elfPath, beside(name.str()));
    ASSIGN_OR_RETURN(std::string elf, readFile(elfPath));
    CompiledImage &image = state.images.emplace_back();
    image.isa = target.isa;
    image.image.code = std::move(elf);
    for (NamedAttribute entry : entries)
      if (auto offset = dyn_cast<IntegerAttr>(entry.getValue()))
        image.image.entries[entry.getName().str()] = offset.getInt();
    for (const UniqueKernel &unique : state.kernels.kernels)
      for (size_t i = 0; i < unique.schedules.size(); ++i)
        if (!image.image.entries.count(unique.functionName(i)))
          return refuse(cat("the objects for ", target.isa, " have no entry ",
                            unique.functionName(i)));
  }
  return success();
}

/// The constants of the program are found by planning again; the file says all
/// else.
Status Resume::readProgram() {
  ASSIGN_OR_RETURN(auto program, parseProgram(this->program, state.input.path));
  FailureOr<ExecProgram> exec =
      buildExecProgram(state.main(), state.kernels, state.uses);
  if (failed(exec))
    return diagnosed("cannot be planned");
  state.exec = std::move(*exec);
  for (const ConstantRequest &request : state.exec.constants) {
    const auto &buffers = program->buffers;
    if (request.buffer >= buffers.size() ||
        buffers[request.buffer]->kind != fb::BufferKind::constant ||
        buffers[request.buffer]->constant_bytes !=
            state.exec.program->buffers[request.buffer]->constant_bytes)
      return userError(cat("buffer ", request.buffer,
                           " no longer is the constant that it was"),
                       state.input.path,
                       "leave constant buffers at their place, or edit an "
                       "earlier phase");
  }
  state.exec.program = std::move(program);
  return success();
}

Status Resume::run() {
  if (first.in == Level::none)
    return userError("the first phase begins with a model", "option start-from",
                     "leave it out");
  if (first.in == Level::exec) {
    if (path.empty())
      return refuse("a dump of several files has to be a path");
    if (!StringRef(path).ends_with(".json"))
      return refuse("not an exec program");
    ASSIGN_OR_RETURN(std::string text, readFile(path));
    program = std::move(text);
    ASSIGN_OR_RETURN(std::string objects, beside(dumpName(*findPhase("emit"))));
    path = std::move(objects);
  } else {
    ASSIGN_OR_RETURN(bool text, isText(state.input, state.options));
    if (!text)
      return refuse("not a program of the compiler");
  }
  TRY(readModule());
  if (first.in >= Level::kernel)
    TRY(checkKernels());
  if (first.in >= Level::scheduled)
    TRY(readSchedules());
  if (first.in == Level::tile)
    TRY(readTilePrograms());
  if (first.in >= Level::object)
    TRY(readObjects());
  return first.in == Level::exec ? readProgram() : success();
}

} // namespace

Status resume(CompileState &state, const Phase &first) {
  return Resume(state, first).run();
}

} // namespace knapper
