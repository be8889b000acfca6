#include "compiler/verify/VerifyKernels.h"
#include "compiler/constants/EvaluateConstants.h"
#include "compiler/exec/Origin.h"
#include "compiler/kernels/UserKernels.h"
#include "compiler/registration/Registration.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/ConstantExpression.h"
#include "ir/tensor/reference/ErrorScale.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/Json.h"
#include "runtime/base/Text.h"
#include "llvm/Support/Base64.h"
#include <cmath>
#include <cstdio>

using namespace mlir;

namespace knapper {

using ts::HostTensor;

const KernelCheck *VerifyReport::firstDivergent() const {
  for (const KernelCheck &kernel : kernels)
    if (!kernel.passed())
      return &kernel;
  return nullptr;
}

std::string VerifyReport::json() const {
  JsonWriter writer;
  writer.beginObject().key("kernels").beginArray();
  for (const KernelCheck &kernel : kernels)
    writer.beginObject()
        .field("origin", kernel.origin)
        .field("hero", kernel.hero)
        .field("error", kernel.error)
        .field("bound", kernel.bound)
        .field("passed", kernel.passed())
        .field("worst", kernel.worst)
        .endObject();
  writer.endArray().key("first_divergent");
  if (const KernelCheck *first = firstDivergent())
    writer.value(static_cast<int64_t>(first - kernels.data()));
  else
    writer.null();
  writer.key("reproducer");
  if (!reproducer)
    return writer.null().endObject().take();
  writer.beginObject().field("program", reproducer->program);
  writer.key("inputs").beginArray();
  for (const HostTensor &input : reproducer->inputs) {
    writer.beginObject().field("dtype", static_cast<int64_t>(input.dtype()));
    writer.key("shape").beginArray();
    for (int64_t size : input.dims())
      writer.value(size);
    writer.endArray();
    llvm::StringRef bytes(reinterpret_cast<const char *>(input.data()),
                          input.bytes());
    writer.field("base64", llvm::encodeBase64(bytes)).endObject();
  }
  return writer.endArray().endObject().endObject().take();
}

namespace {

/// What rounding between the ops of a kernel may add up to. `tf32`: operands of
/// its matmuls may have 10 bits of mantissa.
double boundOf(DType dtype, bool tf32) {
  switch (dtype) {
  case DType::f32:
    return tf32 ? 2e-3 : 2e-4;
  case DType::f16:
    return 1e-2;
  case DType::bf16:
    return 5e-2;
  case DType::f64:
    return 1e-10;
  default:
    return 0;
  }
}

/// Adds what one result of a kernel is off by. `inner`: the bound of what its
/// value was rounded to on the way.
void compare(const HostTensor &expected, const HostTensor &actual,
             unsigned result, bool tf32, double inner, KernelCheck &check) {
  if (expected.dtype() != actual.dtype() || expected.dims() != actual.dims()) {
    check.error = INFINITY;
    check.worst = cat("result ", result, " is ", actual.typeText(),
                      ", expected ", expected.typeText());
    return;
  }
  double bound = std::max(boundOf(expected.dtype(), tf32), inner);
  check.bound = std::max(check.bound, bound);
  // Integers beyond 2^53 are compared as integers.
  if (!expected.isFloat()) {
    std::vector<int64_t> a = expected.load<int64_t>(),
                         b = actual.load<int64_t>();
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i] && check.worst.empty()) {
        check.error = INFINITY;
        check.worst = cat("result ", result, ", element ", i, " is ", b[i],
                          ", expected ", a[i]);
      }
    return;
  }
  std::vector<double> a = expected.load<double>(), b = actual.load<double>();
  double scale = ts::errorScale(a), worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    double off = std::fabs(a[i] - b[i]) / scale;
    if (!(off <= worst)) { // also NaN
      worst = std::isnan(off) ? INFINITY : off;
      where = i;
    }
  }
  check.error = std::max(check.error, worst);
  if (worst > bound && check.worst.empty()) {
    char text[128];
    snprintf(text, sizeof text,
             "result %u, element %zu of %s is %.8g, expected %.8g", result,
             where, expected.typeText().c_str(), b[where], a[where]);
    check.worst = text;
  }
}

/// Operators of the host's have no reference, nor have branches and loops with
/// one inside: what they gave is taken as it is.
bool isTaken(Operation *op) {
  if (isa<ts::ExternalOp>(op))
    return true;
  return llvm::any_of(ts::bodiesOf(op), [](func::FuncOp body) {
    return body
        ->walk([](Operation *inner) {
          return isTaken(inner) ? WalkResult::interrupt()
                                : WalkResult::advance();
        })
        .wasInterrupted();
  });
}

/// Kernels, and branches and loops of them, which are checked as a whole.
bool isChecked(Operation *op) {
  return isa<ts::KernelOp, ts::IfOp, ts::LoopOp>(op) && !isTaken(op);
}

/// Whether a matmul of the op may be of tf32; of a branch or loop, any of the
/// program's.
bool mayRound(Operation *op) {
  if (!isa<ts::KernelOp>(op))
    op = op->getParentOfType<ModuleOp>();
  return op
      ->walk([](ts::DotOp dot) {
        return dot->hasAttr("ts.tf32") ? WalkResult::interrupt()
                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

double boundOfType(Type type, bool tf32) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  std::optional<DType> dtype =
      tensor ? ts::dtypeOf(tensor.getElementType()) : std::nullopt;
  return dtype ? boundOf(*dtype, tf32) : 0;
}

/// The largest bound of the element types that a result's value takes inside
/// the op: a softmax of bf16 that is converted to float32 may be off as bf16
/// is, since the kernel does not round between the two. Of a branch or loop,
/// any of the program's types.
double innerBound(Operation *op, unsigned result, bool tf32) {
  double bound = 0;
  auto kernel = dyn_cast<ts::KernelOp>(op);
  if (!kernel) {
    op->getParentOfType<ModuleOp>().walk([&](Operation *inner) {
      for (Type type : inner->getResultTypes())
        bound = std::max(bound, boundOfType(type, tf32));
    });
    return bound;
  }
  SmallVector<Value> open = {kernel.yield().getValues()[result]};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *inner = value.getDefiningOp();
    if (!inner) // an operand: the reference reads the same value
      continue;
    bound = std::max(bound, boundOfType(value.getType(), tf32));
    if (seen.insert(inner).second)
      llvm::append_range(open, inner->getOperands());
  }
  return bound;
}

/// Makes every result of such an op of the function an output of it; returns
/// which output each is.
llvm::DenseMap<Value, unsigned> returnKernelResults(func::FuncOp function) {
  Operation *end = function.getBody().front().getTerminator();
  SmallVector<Value> outputs(end->getOperands());
  llvm::DenseMap<Value, unsigned> where;
  for (auto [i, value] : llvm::enumerate(outputs))
    where.try_emplace(value, i);
  function.walk([&](Operation *op) {
    if (isChecked(op) || isTaken(op))
      for (Value result : op->getResults())
        if (where.try_emplace(result, outputs.size()).second)
          outputs.push_back(result);
  });
  end->setOperands(outputs);
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(),
                        llvm::map_to_vector(outputs, [](Value value) {
                          return value.getType();
                        })));
  if (ArrayAttr given = function.getResAttrsAttr()) {
    SmallVector<Attribute> attributes(given.begin(), given.end());
    attributes.resize(outputs.size(),
                      DictionaryAttr::get(function.getContext()));
    function.setResAttrsAttr(ArrayAttr::get(function.getContext(), attributes));
  }
  return where;
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo(true, false));
  return text;
}

/// What a reproducer may hold: it goes through memory as text.
constexpr uint64_t kReproducerBytes = uint64_t(256) << 20;

/// The kernel's ops as the function `main`.
std::string programOf(ts::KernelOp kernel) {
  OpBuilder b(kernel.getContext());
  Location loc = kernel.getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(
      b, loc, "main",
      b.getFunctionType(kernel->getOperandTypes(), kernel->getResultTypes()));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToEnd(body);
  IRMapping map;
  map.map(kernel.getBody().getArguments(), body->getArguments());
  for (Operation &op : kernel.getBody().front().without_terminator())
    b.clone(op, map);
  SmallVector<Value> results;
  for (Value value : kernel.yield().getValues())
    results.push_back(map.lookup(value));
  func::ReturnOp::create(b, loc, results);
  return textOf(*module);
}

/// Walks the program with the values that the run made.
struct Shadow {
  func::FuncOp function;
  const llvm::DenseMap<Value, unsigned> &where;
  const std::vector<HostTensor> &outputs;
  const ConstantFiles &files;
  ts::EvaluateContext state;
  llvm::DenseMap<Value, HostTensor> values;

  Expected<HostTensor> valueOf(Value value) {
    if (auto it = values.find(value); it != values.end())
      return it->second;
    if (!ts::isConstantExpression(value))
      return internalError("a value of the program was not computed",
                           originText(value.getLoc()));
    ASSIGN_OR_RETURN(ConstantView view, evaluateConstant(value, files));
    ConstantView dense = view.dense();
    return HostTensor::borrow(dense.dtype, dense.dims, dense.data, dense.owner);
  }

  Status step(Operation *op, VerifyReport &report) {
    if (op->hasTrait<OpTrait::IsTerminator>() ||
        (op->getNumResults() > 0 && ts::isConstantExpression(op->getResult(0))))
      return success();
    SmallVector<HostTensor> operands;
    for (Value operand : op->getOperands()) {
      ASSIGN_OR_RETURN(HostTensor value, valueOf(operand));
      operands.push_back(std::move(value));
    }
    if (isTaken(op)) {
      std::vector<HostTensor> made;
      std::vector<std::string> names;
      for (auto [i, result] : llvm::enumerate(op->getResults())) {
        made.push_back(values[result] = outputs[where.lookup(result)]);
        names.push_back(cat(originText(op->getLoc()), ", result ", i));
      }
      return ts::bindSymbols(op->getResultTypes(), made, names, state.symbols);
    }
    ASSIGN_OR_RETURN(SmallVector<HostTensor> results,
                     ts::evaluate(op, operands, state));
    if (!isChecked(op)) {
      for (auto [result, value] : llvm::zip(op->getResults(), results))
        values[result] = value;
      return success();
    }
    KernelCheck &check = report.kernels.emplace_back();
    if (auto kernel = dyn_cast<ts::KernelOp>(op)) {
      check.origin = kernelOrigin(kernel);
      check.hero = ts::stringifyHero(kernel.getHero()).str();
    } else {
      check.origin = originText(op->getLoc());
      check.hero = op->getName().stripDialect().str();
    }
    bool tf32 = mayRound(op);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      const HostTensor &actual = outputs[where.lookup(result)];
      compare((results)[i], actual, i, tf32, innerBound(op, i, tf32), check);
      // What follows read this, right or wrong.
      values[result] = actual;
    }
    auto kernel = dyn_cast<ts::KernelOp>(op);
    if (&check != report.firstDivergent() || !kernel)
      return success();
    uint64_t bytes = 0;
    for (const HostTensor &operand : operands)
      bytes += operand.bytes();
    if (bytes <= kReproducerBytes)
      report.reproducer = {programOf(kernel),
                           {operands.begin(), operands.end()}};
    return success();
  }
};

} // namespace

/// Whether results of a kernel of the user's may lie over its operands.
static bool maySharePlaces(const CompileInput &input) {
  return input.userKernels &&
         llvm::any_of(*input.userKernels, [](auto &k) { return k.inPlace; });
}

/// Kernels were checked with their results apart; the model's are to be the
/// same where they lie as the plan has them. `apart`: the model's results, then
/// others.
static Status checkPlan(const CompileInput &input, Options options,
                        const std::vector<HostTensor> &inputs,
                        const std::vector<HostTensor> &apart,
                        const RunArtefact &run, VerifyReport &report) {
  options.cache = false;
  ASSIGN_OR_RETURN(int fd, compileModel(input, options, ""));
  ASSIGN_OR_RETURN(std::vector<HostTensor> planned, run(fd, inputs));
  KernelCheck &check = report.kernels.emplace_back();
  check.origin = "the model, with results in place";
  check.hero = "plan";
  constexpr double sumsInAnyOrder = 1e-3;
  for (auto [i, result] : llvm::enumerate(planned))
    compare(apart[i], result, i, false, sumsInAnyOrder, check);
  return success();
}

Expected<VerifyReport> verifyModel(const CompileInput &model,
                                   const Options &options,
                                   const std::vector<HostTensor> &inputs,
                                   const RunArtefact &run) {
  // Compiled several times, of the same bytes.
  ASSIGN_OR_RETURN(CompileInput input, withUserKernels(model, options));
  Options first = options;
  first.stopAfter = "fuse";
  first.cache = false;
  CompileStats stats;
  // A compile that stops writes no file.
  if (Expected<int> done = compileModel(input, first, "", &stats); !done)
    return done.takeError();

  MLIRContext context(MLIRContext::Threading::DISABLED);
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  context.appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(stats.stopped, &context);
  auto function =
      module ? module->lookupSymbol<func::FuncOp>("main") : func::FuncOp();
  if (!function)
    return internalError("the fused program cannot be read again");
  llvm::DenseMap<Value, unsigned> where = returnKernelResults(function);
  std::string text = textOf(*module);

  Options second = options;
  second.startFrom = "schedule";
  second.modelFormat.clear(); // text of ours, whatever the model was
  second.stopAfter.clear();
  second.cache = false;
  CompileInput fused{{}, text};
  fused.userKernels = input.userKernels;
  Expected<int> fd = compileModel(fused, second, "");
  if (!fd)
    return fd.takeError();
  Expected<std::vector<HostTensor>> outputs = run(*fd, inputs);
  if (!outputs)
    return outputs.takeError();
  if (outputs->size() != function.getNumResults())
    return internalError("the run gave another number of outputs");

  // Weights of a model in memory are not in a file that can be opened again.
  ASSIGN_OR_RETURN(ConstantFiles files, ConstantFiles::open(*module));
  Shadow shadow{function, where, *outputs,
                files,    {},    llvm::DenseMap<Value, HostTensor>()};
  shadow.state.weights = [&](ts::WeightOp op) -> Expected<HostTensor> {
    return shadow.valueOf(op.getResult()); // inside bodies
  };
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    names.push_back(cat("input ", i));
  TRY(ts::bindSymbols(function.getArgumentTypes(), inputs, names,
                      shadow.state.symbols));
  for (auto [argument, value] : llvm::zip(function.getArguments(), inputs))
    shadow.values[argument] = value;
  VerifyReport report;
  for (Operation &op : function.getBody().front())
    TRY(shadow.step(&op, report));
  if (maySharePlaces(input))
    TRY(checkPlan(input, options, inputs, *outputs, run, report));
  return report;
}

} // namespace knapper
