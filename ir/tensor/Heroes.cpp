// What each op says of itself as the hero of a kernel. An op that is not here
// is computed element by element, inside the kernels that read it.
#include "ir/tensor/Heroes.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/Recurrence.h"
#include "ir/tensor/ScaledDot.h"
#include "ir/tensor/DataSelection.h"
#include "ir/tensor/Fourier.h"

using namespace mlir;

#include "ir/tensor/Hero.cpp.inc"

namespace knapper::ts {

namespace {

template <typename Model, typename Op>
using HeroModel = KernelHeroOpInterface::ExternalModel<Model, Op>;

template <Hero kind, typename Op>
struct OfKind : HeroModel<OfKind<kind, Op>, Op> {
  Hero hero(Operation *) const { return kind; }
};

/// dot, conv and their like: two operations an iteration.
template <Hero kind, typename Op, bool narrow>
struct Contraction : HeroModel<Contraction<kind, Op, narrow>, Op> {
  Hero hero(Operation *) const { return kind; }
  Dim matmulFlops(Operation *op) const {
    return cast<Op>(op).indexing().iterations(op->getContext()) * 2;
  }
  bool readsNarrow(Operation *) const { return narrow; }
};

struct PoolHero : HeroModel<PoolHero, PoolOp> {
  Hero hero(Operation *) const { return Hero::pool; }
  Dim otherFlops(Operation *op) const {
    return cast<PoolOp>(op).indexing().iterations(op->getContext());
  }
  bool readsNarrow(Operation *) const { return true; }
};

/// reduce and arg_reduce: one operation an element of the operand.
template <typename Op> struct Reduction : HeroModel<Reduction<Op>, Op> {
  Hero hero(Operation *) const { return Hero::reduce; }
  Dim otherFlops(Operation *op) const {
    return elementCount(op->getOperand(0).getType());
  }
  int64_t rowPasses(Operation *) const { return 1; }
};

/// softmax and layer_norm.
template <typename Op, int64_t flops>
struct TwoPasses : HeroModel<TwoPasses<Op, flops>, Op> {
  Hero hero(Operation *) const { return Hero::reduce; }
  int64_t resultFlops(Operation *) const { return flops; }
  int64_t rowPasses(Operation *) const { return 2; }
  bool readsNarrow(Operation *) const { return true; }
};

struct AttentionHero : HeroModel<AttentionHero, AttentionOp> {
  Hero hero(Operation *) const { return Hero::attention; }
  Dim matmulFlops(Operation *op) const {
    auto attention = cast<AttentionOp>(op);
    SmallVector<Dim> q = dimsOf(attention.getQuery()),
                     v = dimsOf(attention.getValue());
    return q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]) * 2;
  }
  /// The softmax of the scores.
  Dim hiddenFlops(Operation *op) const { return scores(op) * 20; }
  std::optional<Dim> elementsRead(Operation *op, unsigned operand) const {
    return operand == 3 ? std::optional(scores(op)) : std::nullopt; // the mask
  }
  bool readsNarrow(Operation *) const { return true; }

private:
  static Dim scores(Operation *op) {
    auto attention = cast<AttentionOp>(op);
    SmallVector<Dim> q = dimsOf(attention.getQuery());
    return q[0] * q[1] * q[2] * dimOf(attention.getKey(), 2);
  }
};

struct PagedAttentionHero : HeroModel<PagedAttentionHero, PagedAttentionOp> {
  Hero hero(Operation *) const { return Hero::attention; }
  Dim matmulFlops(Operation *op) const {
    auto attention = cast<PagedAttentionOp>(op);
    SmallVector<Dim> q = dimsOf(attention.getQuery()),
                     v = dimsOf(attention.getValues());
    Dim keys = dimOf(attention.getTable(), 1) * v[2];
    return q[0] * q[1] * keys * (q[2] + v[3]) * 2;
  }
};

struct RecurrenceHero : HeroModel<RecurrenceHero, RecurrenceOp> {
  Hero hero(Operation *) const { return Hero::scan; }
  Dim matmulFlops(Operation *op) const {
    auto recurrence = cast<RecurrenceOp>(op);
    SmallVector<Dim> dims = dimsOf(recurrence.getStates()[0]);
    Dim steps(recurrence.getSteps());
    return steps * dims[0] * dims[1] * dims[1] *
           (2 * int64_t(recurrence.matmuls().size()));
  }
};

struct FourierHero : HeroModel<FourierHero, DftOp> {
  Hero hero(Operation *) const { return Hero::scan; }
  /// As customary, 5 n log2 n of n complex numbers.
  Dim otherFlops(Operation *op) const {
    Value input = op->getOperand(0);
    Dim length(cast<DftOp>(op).getLength());
    int64_t steps = length.asConstant() ? llvm::Log2_64_Ceil(std::max<int64_t>(
                                              *length.asConstant(), 2))
                                        : 10;
    return elementCount(input.getType()) * (5 * steps / 2);
  }
};

} // namespace

void attachHeroes(MLIRContext *context) {
  DotOp::attachInterface<Contraction<Hero::matmul, DotOp, true>>(*context);
  ScaledDotOp::attachInterface<Contraction<Hero::matmul, ScaledDotOp, false>>(
      *context);
  PackedDotOp::attachInterface<Contraction<Hero::matmul, PackedDotOp, true>>(
      *context);
  GroupedMatmulOp::attachInterface<
      Contraction<Hero::matmul, GroupedMatmulOp, false>>(*context);
  ConvOp::attachInterface<Contraction<Hero::conv, ConvOp, true>>(*context);
  PoolOp::attachInterface<PoolHero>(*context);
  AttentionOp::attachInterface<AttentionHero>(*context);
  PagedAttentionOp::attachInterface<PagedAttentionHero>(*context);
  ReduceOp::attachInterface<Reduction<ReduceOp>>(*context);
  ArgReduceOp::attachInterface<Reduction<ArgReduceOp>>(*context);
  SoftmaxOp::attachInterface<TwoPasses<SoftmaxOp, 20>>(*context);
  LayerNormOp::attachInterface<TwoPasses<LayerNormOp, 8>>(*context);
  ScanOp::attachInterface<OfKind<Hero::scan, ScanOp>>(*context);
  RecurrenceOp::attachInterface<RecurrenceHero>(*context);
  DftOp::attachInterface<FourierHero>(*context);
  TopKOp::attachInterface<OfKind<Hero::sort, TopKOp>>(*context);
  ScatterElementsOp::attachInterface<OfKind<Hero::scatter, ScatterElementsOp>>(
      *context);
  ScatterNdOp::attachInterface<OfKind<Hero::scatter, ScatterNdOp>>(*context);
  TruePlacesOp::attachInterface<OfKind<Hero::sort, TruePlacesOp>>(*context);
  NonMaxSuppressionOp::attachInterface<OfKind<Hero::sort, NonMaxSuppressionOp>>(
      *context);
}

} // namespace knapper::ts
