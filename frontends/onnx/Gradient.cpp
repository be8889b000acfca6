// The operator Gradient: what is computed between its xs and its y, walked
// backwards.
#include "frontends/onnx/Gradient.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Derivatives of y by the values met so far.
class Backward {
public:
  explicit Backward(Node &n) : n(n) {}

  /// Ops that carry x to y, in their order, all of one block.
  void collect(Value y, ArrayRef<Value> xs) {
    for (Value x : xs)
      depends.insert(x);
    Operation *last = y.getDefiningOp();
    if (!last)
      return;
    for (Operation &op : *last->getBlock()) {
      if (llvm::any_of(op.getOperands(),
                       [&](Value v) { return depends.contains(v); }) &&
          llvm::none_of(op.getResults(),
                        [&](Value v) { return depends.contains(v); })) {
        for (Value result : op.getResults())
          depends.insert(result);
        ops.push_back(&op);
      }
      if (&op == last)
        return;
    }
  }

  /// Null where y does not depend on x.
  Value of(Value x) const { return derivative.lookup(x); }

  LogicalResult run(Value y) {
    derivative[y] = n.splatLike(1, y);
    for (Operation *op : llvm::reverse(ops)) {
      if (op->getNumResults() != 1)
        return n.unsupported("the derivative of " +
                             op->getName().getStringRef());
      Value outer = of(op->getResult(0));
      if (outer && failed(step(op, outer)))
        return failure();
    }
    return mlir::success();
  }

private:
  void add(Value to, Value part) {
    if (!depends.contains(to) || !part)
      return;
    Value &sum = derivative[to];
    sum = sum ? n.add(sum, part) : part;
  }

  LogicalResult step(Operation *op, Value d) {
    Value y = op->getResult(0);
    auto unary = [&](Value factor) {
      add(op->getOperand(0), n.mul(d, factor));
      return mlir::success();
    };
    Value a = op->getNumOperands() ? op->getOperand(0) : Value(),
          b = op->getNumOperands() > 1 ? op->getOperand(1) : Value();
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](ts::AddOp) {
          add(a, d);
          add(b, d);
          return mlir::success();
        })
        .Case([&](ts::SubOp) {
          add(a, d);
          add(b, n.make<ts::NegOp>(d));
          return mlir::success();
        })
        .Case([&](ts::MulOp) {
          add(a, n.mul(d, b));
          add(b, n.mul(d, a));
          return mlir::success();
        })
        .Case([&](ts::DivOp) {
          Value share = n.div(d, b);
          add(a, share);
          add(b, n.make<ts::NegOp>(n.mul(share, y)));
          return mlir::success();
        })
        .Case([&](ts::NegOp) {
          add(a, n.make<ts::NegOp>(d));
          return mlir::success();
        })
        .Case([&](ts::ExpOp) { return unary(y); })
        .Case([&](ts::LogOp) {
          add(a, n.div(d, a));
          return mlir::success();
        })
        .Case([&](ts::SqrtOp) {
          add(a, n.div(n.mul(d, 0.5), y));
          return mlir::success();
        })
        .Case([&](ts::SinOp) { return unary(n.make<ts::CosOp>(a)); })
        .Case([&](ts::CosOp) {
          return unary(n.make<ts::NegOp>(n.make<ts::SinOp>(a)));
        })
        .Case([&](ts::TanhOp) {
          return unary(n.sub(n.scalarFor(y, 1), n.mul(y, y)));
        })
        .Case([&](ts::SigmoidOp) {
          return unary(n.mul(y, n.sub(n.scalarFor(y, 1), y)));
        })
        .Case<ts::MaxOp, ts::MinOp>([&](auto) {
          // Of equal operands the first one counts.
          Value first = n.compare(ts::ComparePredicate::eq, y, a);
          Value zero = n.scalarFor(d, 0);
          add(a, n.select(first, d, zero));
          add(b, n.select(first, zero, d));
          return mlir::success();
        })
        .Case([&](ts::SelectOp select) {
          Value zero = n.scalarFor(d, 0);
          add(select.getOnTrue(), n.select(a, d, zero));
          add(select.getOnFalse(), n.select(a, zero, d));
          return mlir::success();
        })
        .Case([&](ts::ConvertOp) {
          if (isa<FloatType>(ts::elementTypeOf(a)))
            add(a, n.convert(d, ts::elementTypeOf(a)));
          return mlir::success();
        })
        .Case<ts::ReshapeOp>([&](auto) {
          add(a, n.reshape(d, ts::dimsOf(a)));
          return mlir::success();
        })
        .Case([&](ts::DimCastOp) {
          add(a, n.castDims(d, ts::dimsOf(a)));
          return mlir::success();
        })
        .Case([&](ts::TransposeOp transpose) {
          SmallVector<int64_t> back(transpose.getPermutation().size());
          for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
            back[from] = static_cast<int64_t>(to);
          add(a, n.transpose(d, back));
          return mlir::success();
        })
        .Case([&](ts::BroadcastOp broadcast) {
          SmallVector<Dim> own = ts::dimsOf(a), wide = ts::dimsOf(y);
          SmallVector<int64_t> repeated;
          for (size_t i = 0; i < wide.size(); ++i) {
            const auto *at =
                llvm::find(broadcast.getDims(), static_cast<int64_t>(i));
            if (at == broadcast.getDims().end() ||
                !(own[at - broadcast.getDims().begin()] == wide[i]))
              repeated.push_back(static_cast<int64_t>(i));
          }
          add(a, n.reshape(n.reduce(ts::ReduceKind::add, d, repeated, false),
                           own));
          return mlir::success();
        })
        .Case([&](ts::ReduceOp reduce) -> LogicalResult {
          if (reduce.getKind() != ts::ReduceKind::add)
            return n.unsupported(
                "the derivative of a reduction that is no sum");
          SmallVector<int64_t> at;
          for (int64_t i = 0; i < ts::rankOf(a); ++i)
            if (!llvm::is_contained(reduce.getDims(), i))
              at.push_back(i);
          add(a, n.broadcastAt(d, at, ts::dimsOf(a)));
          return mlir::success();
        })
        .Case([&](ts::DotOp dot) { return stepDot(dot, d); })
        .Default([&](Operation *other) {
          return n.unsupported("the derivative of " +
                               other->getName().getStringRef());
        });
  }

  /// d [batch, free of lhs, free of rhs] against one factor gives the other.
  LogicalResult stepDot(ts::DotOp dot, Value d) {
    auto batch = static_cast<int64_t>(dot.getLhsBatch().size());
    auto side = [&](Value self, ArrayRef<int64_t> selfBatch,
                    ArrayRef<int64_t> selfContract, Value other,
                    ArrayRef<int64_t> otherBatch,
                    ArrayRef<int64_t> otherContract, bool first) {
      if (!depends.contains(self))
        return;
      auto freeOf = [](int64_t rank, ArrayRef<int64_t> one,
                       ArrayRef<int64_t> two) {
        SmallVector<int64_t> free;
        for (int64_t i = 0; i < rank; ++i)
          if (!llvm::is_contained(one, i) && !llvm::is_contained(two, i))
            free.push_back(i);
        return free;
      };
      SmallVector<int64_t> mine = freeOf(ts::rankOf(self), selfBatch,
                                         selfContract),
                           theirs = freeOf(ts::rankOf(other), otherBatch,
                                           otherContract);
      auto mineCount = static_cast<int64_t>(mine.size()),
           theirCount = static_cast<int64_t>(theirs.size());
      // In d the other's free dims come after ours, or before them.
      SmallVector<int64_t> batchDims =
                               llvm::to_vector(llvm::seq<int64_t>(batch)),
                           contract;
      for (int64_t i = 0; i < theirCount; ++i)
        contract.push_back(batch + (first ? mineCount : 0) + i);
      Value matmul = n.make<ts::DotOp>(d, other, ArrayRef<int64_t>(batchDims),
                                       otherBatch, ArrayRef<int64_t>(contract),
                                       ArrayRef<int64_t>(theirs), TypeAttr());
      // Now [batch, our free dims, contracted dims in the other's order].
      SmallVector<int64_t> place(ts::rankOf(self));
      for (int64_t i = 0; i < batch; ++i)
        place[selfBatch[i]] = i;
      for (int64_t i = 0; i < mineCount; ++i)
        place[mine[i]] = batch + i;
      SmallVector<int64_t> order(otherContract);
      llvm::sort(order);
      for (auto [ours, its] : llvm::zip(selfContract, otherContract))
        place[ours] =
            batch + mineCount + (llvm::find(order, its) - order.begin());
      add(self, n.transpose(matmul, place));
    };
    side(dot.getLhs(), dot.getLhsBatch(), dot.getLhsContract(), dot.getRhs(),
         dot.getRhsBatch(), dot.getRhsContract(), true);
    side(dot.getRhs(), dot.getRhsBatch(), dot.getRhsContract(), dot.getLhs(),
         dot.getLhsBatch(), dot.getLhsContract(), false);
    return mlir::success();
  }

  Node &n;
  SmallVector<Operation *> ops;
  llvm::DenseSet<Value> depends;
  llvm::DenseMap<Value, Value> derivative;
};

} // namespace

LogicalResult importGradient(Node &n) {
  SmallVector<std::string> xs = n.texts("xs"), zs = n.texts("zs");
  std::string name = n.text("y", "");
  if (xs.empty() || xs.size() + zs.size() != n.size() ||
      n.resultCount() != xs.size())
    return n.fail("has " + Twine(n.size()) + " inputs and " +
                      Twine(n.resultCount()) + " results for " +
                      Twine(xs.size()) + " xs and " + Twine(zs.size()) + " zs",
                  "give an input for each and a result for each of xs");
  for (size_t i = 0; i < n.size(); ++i)
    if (n.proto.input(static_cast<int>(i)) !=
        (i < xs.size() ? xs[i] : zs[i - xs.size()]))
      return n.unsupported("derivatives at another point than where the graph "
                           "is computed");
  Value y = n.scope.values.lookup(name);
  if (!y)
    return n.unsupported("'" + name + "', which is not computed before it");
  for (Value value : {y, n[0]})
    if (!isa<FloatType>(ts::elementTypeOf(value)))
      return n.fail("derives " + ts::shapeText(value.getType()) +
                        ", which is no floating-point tensor",
                    "use floating-point tensors");
  Backward backward(n);
  backward.collect(y, ArrayRef<Value>(n.operands).take_front(xs.size()));
  if (failed(backward.run(y)))
    return failure();
  for (size_t i = 0; i < xs.size(); ++i) {
    Value d = backward.of(n[i]);
    if (failed(n.out(d ? d : n.splatLike(0, n[i]), i)))
      return failure();
  }
  return mlir::success();
}

} // namespace knapper
