#include "graph/simplify/AttentionMask.h"

#include "graph/simplify/AffineIndex.h"
#include "graph/simplify/Magnitude.h"
#include "graph/simplify/Match.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

bool knapper::isExcluding(std::optional<double> fill) {
  return fill && *fill < -1e30;
}

/// Through broadcasts, transposes and reshapes of dims of size 1.
static MaskPart stripMovement(MaskPart part) {
  while (Operation *op = part.value.getDefiningOp()) {
    SmallVector<int64_t> dims;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      for (int64_t dim : broadcast.getDims())
        dims.push_back(part.dims[dim]);
    } else if (auto moved = movedDims(op)) {
      for (int64_t dim : *moved)
        dims.push_back(dim < 0 ? -1 : part.dims[dim]);
    } else {
      break;
    }
    part = {op->getOperand(0), dims, part.negated};
  }
  return part;
}

/// The parts that must all hold.
static void conjuncts(MaskPart part, SmallVectorImpl<MaskPart> &parts) {
  part = stripMovement(part);
  Operation *op = part.value.getDefiningOp();
  if (isa_and_present<NotOp>(op))
    return conjuncts({op->getOperand(0), part.dims, !part.negated}, parts);
  if ((isa_and_present<AndOp>(op) && !part.negated) ||
      (isa_and_present<OrOp>(op) && part.negated)) {
    for (Value operand : op->getOperands())
      conjuncts({operand, part.dims, part.negated}, parts);
    return;
  }
  if (std::optional<double> known = splatOf(part.value);
      known && (*known != 0) != part.negated)
    return;
  parts.push_back(part);
}

/// Whether the part is a comparison of key position with query position.
static Causality causalityOf(const MaskPart &part) {
  auto compare = part.value.getDefiningOp<CompareOp>();
  if (!compare || isa<FloatType>(elementTypeOf(compare.getLhs())))
    return Causality::none;
  auto difference = affineDifference(compare.getLhs(), compare.getRhs());
  if (!difference)
    return Causality::none;
  // Bring it to: sum + offset <= 0.
  int64_t sign, add;
  switch (compare.getPredicate()) {
  case ComparePredicate::le:
    sign = 1, add = 0;
    break;
  case ComparePredicate::lt:
    sign = 1, add = 1;
    break;
  case ComparePredicate::ge:
    sign = -1, add = 0;
    break;
  case ComparePredicate::gt:
    sign = -1, add = 1;
    break;
  default:
    return Causality::none;
  }
  if (part.negated) { // not (x <= 0) is 1 - x <= 0
    sign = -sign;
    add = 1 - add;
  }
  Dim offset = difference->offset * sign + add;
  Dim queries, keys;
  for (auto [i, coefficient] : llvm::enumerate(difference->coefficients)) {
    if (coefficient.isConstant(0))
      continue;
    int64_t along = part.dims[i];
    if (along == 3 && coefficient.isConstant(sign))
      keys = dimOf(part.value, i);
    else if (along == 2 && coefficient.isConstant(-sign))
      queries = dimOf(part.value, i);
    else
      return Causality::none;
  }
  if (!keys || !queries)
    return Causality::none;
  // key <= query - offset
  if (offset == queries - keys)
    return Causality::bottomRight;
  return offset.isConstant(0) ? Causality::topLeft : Causality::none;
}

void MaskParts::takeCondition(Value condition, ArrayRef<int64_t> dims,
                              bool negated) {
  SmallVector<MaskPart> parts;
  conjuncts({condition, SmallVector<int64_t>(dims), negated}, parts);
  for (const MaskPart &part : parts) {
    Causality here = causalityOf(part);
    if (here != Causality::none &&
        (causality == Causality::none || causality == here))
      causality = here;
    else
      allowed.push_back(part);
  }
}

bool MaskParts::mayEmptyRows(Dim queries, Dim keys) const {
  // All of them together: kernels sum them up in f32, times log2 e.
  constexpr double mostSum = 0x1p98;
  double sum = 0;
  bool excludes = false;
  for (const MaskPart &part : added) {
    std::optional<double> most = largestMagnitude(part.value);
    excludes |= !most;
    sum += most.value_or(0);
  }
  excludes |= sum > mostSum;
  if (excludes || !allowed.empty() || !steps.empty())
    return true;
  if (causality != Causality::bottomRight)
    return false; // the first key, if there is one, is seen by every query
  // Symbols are not negative, so neither is a sum of their products.
  ts::DimAttr surplus = (keys - queries).attr();
  bool isSum = llvm::all_of(surplus.getCoefficients(),
                          [](int64_t factor) { return factor >= 0; });
  for (ArrayAttr monomial : surplus.getMonomials())
    isSum &= llvm::all_of(monomial, llvm::IsaPred<StringAttr>);
  return !isSum;
}

/// A part that is a number where a condition (negated: its opposite) does not
/// hold, and `added` where it does.
struct FilledPart {
  MaskPart condition, added;
  double fill;
};

static std::optional<FilledPart> filledPart(const MaskPart &part) {
  auto select = part.value.getDefiningOp<SelectOp>();
  if (!select)
    return std::nullopt;
  for (bool negated : {false, true}) {
    std::optional<double> fill =
        splatOf(negated ? select.getOnTrue() : select.getOnFalse());
    if (isExcluding(fill))
      return FilledPart{
          {select.getCondition(), part.dims, negated},
          stripMovement(
              {negated ? select.getOnFalse() : select.getOnTrue(), part.dims}),
          *fill};
  }
  return std::nullopt;
}

void MaskParts::takeAdded(const MaskPart &part, bool alone) {
  if (isSplat(part.value, 0))
    return;
  std::optional<FilledPart> filled = filledPart(part);
  if (filled && (alone || std::isinf(filled->fill))) {
    MaskParts taken = *this;
    taken.takeCondition(filled->condition.value, filled->condition.dims,
                        filled->condition.negated);
    taken.takeAdded(filled->added, /*alone=*/false);
    if (!std::isinf(filled->fill))
      taken.empty = EmptyRow::mean;
    // Beside another number the parts would become one select again.
    if (isSplat(filled->added.value, 0) || taken.causality != causality) {
      *this = taken;
      return;
    }
  }
  added.push_back(part);
}

/// The parts whose sum the part is: sixteen at most, as sums may share operands.
static void summands(const MaskPart &given, SmallVectorImpl<MaskPart> &parts,
                     unsigned depth = 0) {
  constexpr unsigned most = 4;
  MaskPart part = stripMovement(given);
  if (depth == most || !part.value.getDefiningOp<AddOp>()) {
    parts.push_back(part);
    return;
  }
  for (Value operand : part.value.getDefiningOp()->getOperands())
    summands({operand, part.dims}, parts, depth + 1);
}

/// Whether adding the part to `fill` gives `fill`, rounded. Of dots, as of the
/// scores, it is assumed.
static bool vanishesBeside(double fill, Value added) {
  std::optional<double> most = largestMagnitude(added, /*ofDots=*/0x1p40);
  int mantissa = cast<FloatType>(elementTypeOf(added)).getFPMantissaWidth();
  return most && *most < std::ldexp(std::abs(fill), -(mantissa + 2));
}

void MaskParts::takeSteps(ArrayRef<MaskStep> given, ArrayRef<int64_t> dims) {
  SmallVector<Step> all;
  for (const MaskStep &step : given) {
    MaskPart part = {step.value, SmallVector<int64_t>(dims), step.negated};
    if (step.fill) {
      all.push_back({stripMovement(part), step.fill});
      continue;
    }
    SmallVector<MaskPart> parts;
    summands(part, parts);
    for (const MaskPart &summand : parts)
      all.push_back({summand, std::nullopt});
  }
  // Rows without a key are the mean where all their scores are one finite fill.
  // Fills that are added may meet at one key and not at another.
  std::optional<double> finite;
  unsigned replacing = 0, added = 0;
  bool areOne = true;
  SmallVector<Value> beside;
  for (const Step &step : all) {
    std::optional<FilledPart> filled;
    if (!step.fill && (filled = filledPart(step.part)))
      beside.push_back(filled->added.value);
    else if (!step.fill)
      beside.push_back(step.part.value);
    std::optional<double> fill =
        filled ? std::optional(filled->fill) : step.fill;
    if (!fill)
      continue;
    if (std::isinf(*fill)) {
      areOne = false;
      continue;
    }
    areOne &= !finite || *finite == *fill;
    finite = fill;
    ++(step.fill ? replacing : added);
  }
  areOne &= finite && (replacing ? added == 0 : added == 1) &&
            llvm::all_of(beside, [&](Value value) {
              return vanishesBeside(*finite, value);
            });
  // Fills that others meet are what the row is: they stay.
  if (replacing && !areOne) {
    llvm::append_range(steps, all);
    return;
  }
  for (const Step &step : all)
    if (step.fill)
      takeCondition(step.part.value, step.part.dims, step.part.negated);
    else
      takeAdded(step.part, areOne);
  if (replacing)
    empty = EmptyRow::mean;
}

bool knapper::findsEmptyRows(Value condition, Value mask) {
  // max(mask over keys) == -inf, repeated along what the mask lacks
  MaskPart part = stripMovement({condition, {0, 1, 2, 3}});
  auto compare = part.value.getDefiningOp<CompareOp>();
  if (!compare || compare.getPredicate() != ComparePredicate::eq ||
      !isSplat(compare.getRhs(), -std::numeric_limits<double>::infinity()))
    return false;
  MaskPart largest = stripMovement({compare.getLhs(), part.dims}),
           scores = stripMovement({mask, {0, 1, 2, 3}});
  auto reduce = largest.value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::max ||
      reduce.getInput() != scores.value)
    return false;
  SmallVector<int64_t> kept;
  for (auto [i, along] : llvm::enumerate(scores.dims)) {
    bool reduced =
        llvm::is_contained(reduce.getDims(), static_cast<int64_t>(i));
    if (reduced != (along == 3))
      return false;
    if (!reduced)
      kept.push_back(along);
  }
  return llvm::is_contained(scores.dims, 3) && largest.dims == kept;
}

bool knapper::findsExcludedRows(Value condition, Value scores) {
  MaskPart part = stripMovement({condition, {0, 1, 2, 3}});
  auto reduce = part.value.getDefiningOp<ReduceOp>();
  auto infinite =
      reduce ? reduce.getInput().getDefiningOp<IsInfOp>() : IsInfOp();
  return infinite && reduce.getKind() == ReduceKind::logical_and &&
         reduce.getDims() == ArrayRef<int64_t>{3} &&
         part.dims == ArrayRef<int64_t>{0, 1, 2} && infinite.getNegative() &&
         !infinite.getPositive() && infinite.getInput() == scores;
}

static bool partRunsAlong(const MaskPart &given, int64_t dim, unsigned depth) {
  MaskPart part = stripMovement(given);
  if (!llvm::is_contained(part.dims, dim) || splatOf(part.value))
    return false;
  Operation *op = part.value.getDefiningOp();
  if (!op || !isElementwise(op) || depth > 8)
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return partRunsAlong({operand, part.dims}, dim, depth + 1);
  });
}

bool knapper::runsAlong(Value mask, int64_t dim) {
  MaskPart part = {mask, {}};
  for (int64_t i = 0; i < rankOf(mask); ++i)
    part.dims.push_back(i);
  return partRunsAlong(part, dim, 0);
}

/// The part with H as one dim, where it has K or G.
static MaskPart withWholeHeads(OpBuilder &builder, Location location,
                               const MaskPart &part, Dim keyHeads,
                               Dim headsOfGroup) {
  auto has = [&](int64_t along) {
    return llvm::is_contained(part.dims, along);
  };
  if (!has(kKeyHeads) && !has(kHeadsOfGroup))
    return part;
  // K and G in front, then the others as they are.
  SmallVector<Dim> sizes = dimsOf(part.value), wide = {keyHeads, headsOfGroup},
                   whole = {keyHeads * headsOfGroup};
  MaskPart result = {part.value, {1}, part.negated};
  SmallVector<int64_t> map;
  for (auto [i, along] : llvm::enumerate(part.dims)) {
    if (along == kKeyHeads || along == kHeadsOfGroup) {
      map.push_back(along - kKeyHeads);
      continue;
    }
    map.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(sizes[i]);
    whole.push_back(sizes[i]);
    result.dims.push_back(along);
  }
  // A broadcast keeps the order of dims.
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(map.size()));
  llvm::sort(order, [&](int64_t a, int64_t b) { return map[a] < map[b]; });
  result.value = makeTranspose(builder, location, result.value, order);
  llvm::sort(map);
  result.value = makeBroadcast(builder, location, result.value, wide, map);
  result.value = makeReshape(builder, location, result.value, whole);
  return result;
}

/// Four dims, those that the part lacks of size 1.
static Value toFourDims(OpBuilder &builder, Location location,
                        const MaskPart &part) {
  SmallVector<Dim> sizes = dimsOf(part.value), kept;
  SmallVector<std::pair<int64_t, int64_t>> order; // (score dim, own dim)
  MLIRContext *context = builder.getContext();
  SmallVector<Dim> dims(4, Dim::constant(context, 1));
  for (auto [i, along] : llvm::enumerate(part.dims))
    if (along >= 0 && !sizes[i].isConstant(1)) {
      order.push_back({along, kept.size()});
      kept.push_back(sizes[i]);
      dims[along] = sizes[i];
    }
  llvm::sort(order);
  SmallVector<int64_t> permutation;
  for (auto [along, own] : order)
    permutation.push_back(own);
  Value value = makeReshape(builder, location, part.value, kept);
  value = makeTranspose(builder, location, value, permutation);
  value = makeReshape(builder, location, value, dims);
  return part.negated ? NotOp::create(builder, location, value).getResult()
                      : value;
}

/// Both to the dims that either has.
static void toCommonDims(OpBuilder &builder, Location location, Value &a,
                         Value &b) {
  SmallVector<Dim> left = dimsOf(a), right = dimsOf(b), dims;
  for (auto [x, y] : llvm::zip(left, right))
    dims.push_back(x.isConstant(1) ? y : x);
  a = makeBroadcast(builder, location, a, dims, {0, 1, 2, 3});
  b = makeBroadcast(builder, location, b, dims, {0, 1, 2, 3});
}

Value MaskParts::build(OpBuilder &builder, Location location) const {
  Value keep, sum;
  auto fourDims = [&](const MaskPart &part) {
    return toFourDims(
        builder, location,
        withWholeHeads(builder, location, part, keyHeads, headsOfGroup));
  };
  for (const MaskPart &part : allowed) {
    Value next = fourDims(part);
    if (!keep) {
      keep = next;
      continue;
    }
    toCommonDims(builder, location, keep, next);
    keep = AndOp::create(builder, location, keep, next);
  }
  Type element = builder.getF32Type();
  for (const Step &step : steps)
    if (!step.fill)
      element = elementTypeOf(step.part.value);
  for (const Step &step : steps) {
    Value next = fourDims(step.part);
    auto floats = [&](double number) {
      auto type = cast<RankedTensorType>(next.getType());
      return makeSplat(builder, location, withElement(type, element), number);
    };
    if (sum)
      toCommonDims(builder, location, sum, next);
    if (step.fill)
      sum = SelectOp::create(builder, location, next, sum ? sum : floats(0),
                             floats(*step.fill));
    else
      sum =
          sum ? AddOp::create(builder, location, sum, next).getResult() : next;
  }
  for (const MaskPart &part : added) {
    Value next = fourDims(part);
    if (!sum) {
      sum = next;
      continue;
    }
    toCommonDims(builder, location, sum, next);
    sum = AddOp::create(builder, location, sum, next);
  }
  if (!keep || !sum)
    return keep ? keep : sum;
  toCommonDims(builder, location, keep, sum);
  Value excluded =
      makeSplat(builder, location, cast<RankedTensorType>(sum.getType()),
                -std::numeric_limits<double>::infinity());
  return SelectOp::create(builder, location, keep, sum, excluded);
}
