#include "compiler/pipeline/TensorText.h"
#include "frontends/common/TextNesting.h"
#include "ir/tensor/SymbolicValue.h"
#include "ir/tensor/reference/HostTensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {
Expected<bool> isText(const CompileInput &input, const Options &options) {
  if (!options.modelFormat.empty())
    return options.modelFormat == "mlir";
  bool resumes = !options.startFrom.empty();
  if (input.path.empty())
    return resumes;
  // StableHLO has the same name.
  if (!StringRef(input.path).ends_with(".mlir"))
    return false;
  if (resumes)
    return true;
  ASSIGN_OR_RETURN(const FrontEnd *frontEnd, frontEndFor(modelOf(input)));
  return frontEnd->name() != "stablehlo";
}

ModelInput modelOf(const CompileInput &input) {
  return {input.path, input.bytes};
}

Expected<const FrontEnd *> frontEndOf(const CompileInput &input,
                                      const Options &options) {
  TRY(checkFrontEnds(allFrontEnds()));
  if (const FrontEnd *named = findFrontEnd(options.modelFormat))
    return named;
  return frontEndFor(modelOf(input));
}

Expected<OwningOpRef<ModuleOp>> parseTensorText(CompileState &state,
                                                const std::string &path) {
  std::string read;
  StringRef text(state.input.bytes.data(), state.input.bytes.size());
  std::string where = path.empty() ? "the model" : path;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
    ASSIGN_OR_RETURN(std::string content, file.read());
    read = std::move(content);
    text = read;
  }
  if (text.starts_with("ML\xefR"))
    return userError("is MLIR bytecode, not text", where,
                     "print the program as text");
  TRY(checkNesting(text, where,
                   "give what --dump-dir wrote, or an ONNX model"));
  ParserConfig config(state.context.get());
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, config, path);
  if (module && failed(verify(*module)))
    module = {};
  return module;
}

static constexpr const char *kLeaves =
    "a ts.slice reads elements that its input does not have";

/// Whether a slice of known sizes reads elements that its input does not have.
static bool leavesItsInput(ts::SliceOp op) {
  SmallVector<ts::Dim> starts = ts::dimsOf(op.getStarts());
  for (auto [i, step] : llvm::enumerate(op.getSteps())) {
    std::optional<int64_t> size = ts::dimOf(op.getInput(), i).asConstant(),
                           count = ts::dimOf(op.getResult(), i).asConstant(),
                           start = starts[i].asConstant();
    if (!size || !count || !start || *count == 0)
      continue;
    int64_t last = 0;
    if (*start < 0 || *start >= *size ||
        __builtin_mul_overflow(*count - 1, step, &last) ||
        __builtin_add_overflow(last, *start, &last) || last < 0 ||
        last >= *size)
      return true;
  }
  return false;
}

/// The loop that `function` is the body of, where it is nothing else and the
/// number of iterations is bounded.
static ts::LoopOp onlyLoopOf(func::FuncOp function) {
  ModuleOp program = function->getParentOfType<ModuleOp>();
  auto uses = SymbolTable::getSymbolUses(function, program);
  if (!uses || !llvm::hasSingleElement(*uses))
    return {};
  auto loop = dyn_cast<ts::LoopOp>(uses->begin()->getUser());
  return loop && loop.getTrips() ? loop : ts::LoopOp();
}

/// Whether `room` is never negative: of itself, or in all iterations of `loop`
/// (may be null). A size that is affine in the counter is least in the first or
/// in the last of them.
static bool isNeverNegative(ts::Dim room, ts::LoopOp loop) {
  auto provedFor = [](ts::Dim dim) {
    return ts::lowerBound(dim).value_or(-1) >= 0;
  };
  if (provedFor(room))
    return true;
  if (!loop)
    return false;
  StringRef counter = loop.getCounter();
  ts::Dim trips(*loop.getTrips());
  auto inIteration = [&](ts::Dim number) {
    return room.substitute([&](StringRef symbol) {
      return symbol == counter ? number : ts::Dim();
    });
  };
  // A body that runs has an iteration at least.
  auto provedInBody = [&](ts::Dim dim) {
    return provedFor(dim.substitute([&](StringRef symbol) {
      return trips.asSymbol() == symbol ? trips + 1 : ts::Dim();
    }));
  };
  ts::Dim step =
      inIteration(ts::Dim::symbol(room.context(), counter) + 1) - room;
  llvm::SetVector<StringAttr> symbols;
  step.collectSymbols(symbols);
  bool affine = llvm::none_of(
      symbols, [&](StringAttr symbol) { return symbol == counter; });
  return affine && provedInBody(inIteration(room.like(0))) &&
         provedInBody(inIteration(trips - 1));
}

/// Fails the run, before `at`, where a part of `slice` along dim `i` lies
/// outside of its input, unless sizes alone say that none does.
static void checkPart(Operation *at, ts::LoopOp loop, ts::SliceOp slice,
                      unsigned i) {
  int64_t step = slice.getSteps()[i];
  ts::Dim start = ts::dimsOf(slice.getStarts())[i],
          size = ts::dimOf(slice.getInput(), i),
          count = ts::dimOf(slice.getResult(), i);
  ts::Dim end = start + (count - 1) * step;
  ts::Dim least = step > 0 ? start : end, most = step > 0 ? end : start;
  bool some = ts::lowerBound(count).value_or(0) > 0;
  OpBuilder b(at);
  for (ts::Dim room : {least, size - most - 1}) {
    if (isNeverNegative(room, loop))
      continue;
    // A part of nothing may begin anywhere.
    ts::Dim checked = some ? room : room * count.min(count.like(1));
    ts::CheckOp::create(b, slice.getLoc(), checked.attr(),
                        ts::ComparePredicate::ge, count.like(0).attr(),
                        kLeaves);
  }
}

void checkSlices(ModuleOp program) {
  llvm::DenseMap<func::FuncOp, ts::LoopOp> loops;
  program.walk([&](ts::SliceOp slice) {
    // A kernel has no checks in it. Sizes are symbols of the function as well.
    auto function = slice->getParentOfType<func::FuncOp>();
    if (!function || function.isExternal())
      return;
    auto [loop, isNew] = loops.try_emplace(function);
    if (isNew)
      loop->second = onlyLoopOf(function);
    Operation *at = function.getBody().findAncestorOpInRegion(*slice);
    for (unsigned i = 0; i < slice.getSteps().size(); ++i)
      checkPart(at, loop->second, slice, i);
  });
}

/// Attributes that a module may have, whose entries passes take for what front
/// ends write: any attribute parses.
static Status checkModuleLists(ModuleOp module, const std::string &where) {
  auto check = [&](StringRef name, auto isEntry, const char *entry) -> Status {
    Attribute list = module->getAttr(name);
    auto entries = dyn_cast_if_present<ArrayAttr>(list);
    if (!list || (entries && llvm::all_of(entries, isEntry)))
      return success();
    return userError(cat("the module's ", name.str(), " is no list of ", entry),
                     where, "correct the attribute, or leave it out");
  };
  TRY(check("ts.symbols", llvm::IsaPred<ts::SymbolAttr>, "#ts.symbol"));
  return check("ts.files", llvm::IsaPred<StringAttr>, "texts");
}

Status checkProgram(func::FuncOp main, const std::string &where) {
  TRY(checkModuleLists(main->getParentOfType<ModuleOp>(), where));
  if (main.isExternal())
    return userError("the function main has no body", where,
                     "write what it computes");
  auto check = [&](Type type, const char *what, size_t i) -> Status {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && ts::dtypeOf(tensor.getElementType()))
      return success();
    std::string shown;
    llvm::raw_string_ostream(shown) << type;
    return userError(cat(what, " ", i, " of main is of the type ", shown),
                     where, "a tensor of a type that models may have");
  };
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes()))
    TRY(check(type, "argument", i));
  for (auto [i, type] : llvm::enumerate(main.getResultTypes()))
    TRY(check(type, "result", i));
  bool leaves = false;
  main->getParentOfType<ModuleOp>().walk(
      [&](ts::SliceOp op) { leaves |= leavesItsInput(op); });
  if (leaves)
    return userError(kLeaves, where, "starts and steps that stay inside");
  return success();
}

} // namespace knapper
