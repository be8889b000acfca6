#include "compiler/kernels/VendorKernels.h"
#include "codegen/schedule/matmul/MatmulProblem.h"
#include "graph/fusion/Views.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Update.h"
#include "runtime/base/EditDistance.h"
#include "runtime/base/Text.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

bool isVendorFloat(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

/// Follows the kernel's result back to the matmul: an activation, a bias, and
/// between them what leaves elements in their places.
class VendorEpilogue {
public:
  VendorEpilogue(ts::KernelOp kernel, Value matmul, VendorCandidate &candidate)
      : kernel(kernel), matmul(matmul), candidate(candidate),
        rounds(!keepsFloat32(matmul)) {}

  /// Why no library has it; nothing where one may.
  std::string match() {
    Value value = keptPlaces(kernel.yield().getValues()[0]);
    if (auto gelu = value.getDefiningOp<ts::GeluOp>()) {
      candidate.activation =
          gelu.getTanh() ? VendorActivation::geluTanh : VendorActivation::gelu;
      value = keptPlaces(gelu.getInput());
    } else if (auto max = value.getDefiningOp<ts::MaxOp>()) {
      bool second = isSplat(max->getOperand(1), 0);
      if (second || isSplat(max->getOperand(0), 0)) {
        candidate.activation = VendorActivation::relu;
        value = keptPlaces(max->getOperand(second ? 0 : 1));
      }
    }
    if (auto add = value.getDefiningOp<ts::AddOp>())
      for (unsigned i : {0u, 1u})
        if (takeBias(add->getOperand(1 - i))) {
          value = keptPlaces(add->getOperand(i));
          break;
        }
    if (value == matmul)
      return rounds ? "its epilogue rounds inside" : "";
    Operation *op = value.getDefiningOp();
    return cat("no library has its epilogue: ",
               op ? op->getName().getStringRef().str() : "an operand");
  }

private:
  /// Libraries round once, at the end: whether the value is in float32, or in
  /// the type that the kernel rounds to anyway.
  bool keepsFloat32(Value value) {
    Type type = ts::elementTypeOf(value);
    return type.isF32() || type == ts::elementTypeOf(kernel.getResult(0));
  }

  /// What the value is before conversions between floats and changes of shape.
  Value keptPlaces(Value value) {
    while (value != matmul) {
      Operation *op = value.getDefiningOp();
      bool keeps = isa_and_present<ts::ReshapeOp, ts::DimCastOp>(op) ||
                   (isa_and_present<ts::ConvertOp>(op) &&
                    isVendorFloat(ts::elementTypeOf(op->getOperand(0))) &&
                    isVendorFloat(ts::elementTypeOf(value)));
      if (!keeps)
        break;
      rounds |= !keepsFloat32(value);
      value = op->getOperand(0);
    }
    return value;
  }

  /// Whether the value is one of the kernel's operands along the columns.
  bool takeBias(Value value) {
    // What rounds a bias, or makes floats of other numbers, no library does.
    while (auto convert = value.getDefiningOp<ts::ConvertOp>()) {
      Type from = ts::elementTypeOf(convert->getOperand(0)),
           to = ts::elementTypeOf(value);
      if (!isVendorFloat(from) || (from != to && !to.isF32()))
        return false;
      value = convert->getOperand(0);
    }
    auto view = fusion::stridedView(value, fusion::isReindex);
    auto base = view ? dyn_cast<BlockArgument>(view->base) : BlockArgument();
    if (!base || !isVendorFloat(ts::elementTypeOf(base)) ||
        view->dims.empty() || !(view->dims.back().size == candidate.columns) ||
        !view->dims.back().stride.isConstant(1))
      return false;
    for (const fusion::StridedDim &dim : ArrayRef(view->dims).drop_back())
      if (!dim.stride.isConstant(0) && !dim.size.isConstant(1))
        return false;
    Dim zero = candidate.columns.like(0);
    candidate.bias =
        VendorOperand{base.getArgNumber(), view->offset, zero, zero.like(1),
                      SmallVector<Dim>(candidate.batch.size(), zero)};
    return true;
  }

  ts::KernelOp kernel;
  Value matmul;
  VendorCandidate &candidate;
  bool rounds; ///< to another type than the result's, on the way to it
};

VendorOperand operandOf(const MatmulOperand &side, bool isLeft) {
  VendorOperand made;
  made.argument = side.base.getArgNumber();
  made.offset = side.offset;
  made.rowStride = isLeft ? side.freeStride : side.contractStride;
  made.columnStride = isLeft ? side.contractStride : side.freeStride;
  made.batchStrides = side.batchStrides;
  return made;
}

/// The dense result: batch dims, rows, columns.
VendorOperand resultOf(const VendorCandidate &candidate, unsigned argument) {
  VendorOperand made;
  made.argument = argument;
  made.offset = candidate.columns.like(0);
  made.columnStride = candidate.columns.like(1);
  made.rowStride = candidate.columns;
  Dim stride = candidate.rows * candidate.columns;
  for (Dim size : llvm::reverse(candidate.batch)) {
    made.batchStrides.insert(made.batchStrides.begin(), stride);
    stride = stride * size;
  }
  return made;
}

bool isDense(const VendorOperand &side) {
  return side.rowStride.isConstant(1) || side.columnStride.isConstant(1);
}

/// Joins batch dims that follow one another in every operand.
void joinBatch(VendorCandidate &c) {
  SmallVector<VendorOperand *> sides = {&c.lhs, &c.rhs, &c.result};
  if (c.bias)
    sides.push_back(&*c.bias);
  for (size_t i = c.batch.size(); i-- > 0;) {
    bool isLast = i + 1 == c.batch.size();
    bool joins = !isLast && llvm::all_of(sides, [&](VendorOperand *side) {
      return side->batchStrides[i] ==
             side->batchStrides[i + 1] * c.batch[i + 1];
    });
    if (joins)
      c.batch[i + 1] = c.batch[i] * c.batch[i + 1];
    if (!joins && !c.batch[i].isConstant(1))
      continue;
    c.batch.erase(c.batch.begin() + i);
    for (VendorOperand *side : sides)
      side->batchStrides.erase(side->batchStrides.begin() + i);
  }
}

VendorMatch refuse(std::string why) { return {std::nullopt, std::move(why)}; }

VendorLibrary libraryOf(const std::string &word) {
  for (unsigned i = 1; i < std::size(kVendorLibraries); ++i)
    if (kVendorLibraries[i] == word)
      return static_cast<VendorLibrary>(i);
  return VendorLibrary::none;
}

} // namespace

Expected<std::vector<VendorLibrary>> vendorsOf(const Options &options) {
  std::vector<VendorLibrary> libraries;
  auto words = ArrayRef(kVendorLibraries).drop_front();
  for (const std::string &word : splitList(options.vendor)) {
    VendorLibrary library = libraryOf(word);
    if (library == VendorLibrary::none)
      return userError(
          cat("'", word.substr(0, 64), "' is no library"), "option vendor",
          cat("the nearest is '",
              *std::min_element(words.begin(), words.end(),
                                [&](auto a, auto b) {
                                  return editDistance(word.substr(0, 64), a) <
                                         editDistance(word.substr(0, 64), b);
                                }),
              "'"));
    if (!llvm::is_contained(libraries, library))
      libraries.push_back(library);
  }
  return libraries;
}

VendorMatch matchVendorMatmul(ts::KernelOp kernel, VendorLibrary library) {
  auto dots = kernel.getBody().getOps<ts::DotOp>();
  if (kernel.getHero() != ts::Hero::matmul || dots.empty())
    return refuse("it is no matmul of two matrices");
  if (kernel.getNumResults() != 1 || ts::updatedInput(kernel))
    return refuse("it has several results, or updates an operand in place");
  std::optional<MatmulProblem> problem = analyseMatmul(kernel);
  ts::DotOp dot = *dots.begin();
  if (!problem || problem->bytes || !isVendorFloat(ts::elementTypeOf(dot)) ||
      !isVendorFloat(ts::elementTypeOf(dot.getLhs())))
    return refuse("it is no matmul of strided matrices of floats");
  VendorCandidate c;
  c.library = library;
  c.rows = problem->lhs.free;
  c.columns = problem->rhs.free;
  c.depth = problem->lhs.contract;
  c.tf32 = dot->hasAttr("ts.tf32");
  c.lhs = operandOf(problem->lhs, true);
  c.rhs = operandOf(problem->rhs, false);
  c.batch = problem->batch;
  // Rows that do not follow one another are matmuls of their own.
  for (auto [size, stride] :
       llvm::zip(problem->lhs.outerSizes, problem->lhs.outerStrides)) {
    c.batch.push_back(size);
    c.lhs.batchStrides.push_back(stride);
    c.rhs.batchStrides.push_back(size.like(0));
  }
  if (!isDense(c.lhs) || !isDense(c.rhs))
    return refuse("a side has neither its rows nor its columns one after "
                  "another");
  std::string why = VendorEpilogue(kernel, problem->result, c).match();
  Type result = ts::elementTypeOf(kernel.getResult(0));
  if (why.empty() && !isVendorFloat(result))
    why = "its result is of another type than floats of 32 bits at most";
  if (!why.empty())
    return refuse(std::move(why));
  c.result = resultOf(c, kernel.getInputs().size());
  joinBatch(c);
  if (library == VendorLibrary::cublaslt && c.batch.size() > 1)
    return refuse("its batch dims do not follow one another");
  if (library == VendorLibrary::cublaslt && c.bias &&
      ts::elementTypeOf(kernel.getInputs()[c.bias->argument]) != result)
    return refuse("its bias is of another type than its result");
  if (library == VendorLibrary::cublaslt &&
      c.activation == VendorActivation::gelu)
    return refuse("no library has its epilogue: GELU by erf");
  return {std::move(c), ""};
}

Status takeVendor(UniqueKernel &unique, VendorCandidate candidate,
                  const TargetDesc &desc) {
  unique.constants.assign(unique.constants.size(), false);
  unique.kernel = findKernel(*unique.module, unique.constants);
  FailureOr<SmallVector<Schedule>> schedules =
      chooseSchedules(unique.kernel, desc);
  if (failed(schedules))
    return internalError("no schedule of ours stands behind a library's",
                         unique.signature);
  unique.setSchedules(std::move(*schedules));
  unique.vendor = std::move(candidate);
  return success();
}

Status chooseVendor(UniqueKernel &unique, std::span<const VendorLibrary> asked,
                    const Options &options, const Target &target,
                    const TargetDesc &desc, Knobs &knobs) {
  bool always = options.vendorAlways;
  std::optional<VendorCandidate> taken;
  for (VendorLibrary library : target.vendorLibraries()) {
    if (!llvm::is_contained(asked, library))
      continue;
    std::string word(name(library));
    VendorMatch match = matchVendorMatmul(unique.kernel, library);
    VendorOffer &offer = unique.vendorOffers.emplace_back();
    offer.name = word;
    offer.why = match.why;
    if (match.matmul && options.deterministic) {
      offer.why = "--deterministic: its bits depend on the number of threads, "
                  "and on its version";
      continue;
    }
    if (!match.matmul)
      continue;
    bool recorded = knobs.offerAlone(kVendorKnob + word);
    offer.taken = (recorded || always) && !taken && unique.userKernel.empty();
    offer.why = offer.taken ? always ? "--vendor-always" : "by a tuning record"
                : !unique.userKernel.empty()
                    ? cat("'", unique.userKernel, "' is taken")
                : taken ? cat(name(taken->library), " is taken")
                        : "no tuning record takes it: knapper tune --vendor "
                          "measures it";
    if (offer.taken)
      taken = std::move(match.matmul);
  }
  return taken ? takeVendor(unique, std::move(*taken), desc) : success();
}

} // namespace knapper
