// Reductions, arg-reductions, scans, sorts.
#include "frontends/onnx/RuntimeSizes.h"
#include "frontends/onnx/WideFloat.h"

using namespace mlir;

namespace knapper {
namespace {

using K = ts::ReduceKind;

/// The axes, from the attribute or the input; nothing on failure.
std::optional<SmallVector<int64_t>> axesOf(Node &n) {
  SmallVector<int64_t> axes = n.integers("axes");
  if (n.has(1)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[1], "axes");
    if (!given)
      return std::nullopt;
    axes = *given;
  }
  int64_t rank = ts::rankOf(n[0]);
  if (axes.empty() && !n.flag("noop_with_empty_axes", false))
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  axes = n.normalAxes(axes, rank);
  if (n.failed())
    return std::nullopt;
  return axes;
}

/// `body` over axes that are known at run time only. One axis folds the dims
/// around it. With several, each dim d is split into two: where it is reduced,
/// 1 and d, otherwise d and 1; the second of all pairs are the axes.
template <typename Fn> LogicalResult reductionAtRunTime(Node &n, Fn &&body) {
  SmallVector<ts::Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  std::optional<RuntimeAxes> axes = RuntimeAxes::of(n, n[1], rank);
  if (!axes)
    return failure();
  Value sizes = n.sizesTensor(dims), one = n.integerScalar(1, n.b.getI64Type());
  Value kept = n.select(axes->isListed(), one, sizes);
  SmallVector<ts::Dim> result;
  if (n.flag("keepdims", true))
    result = symbolsOf(n, kept, rank, "kept");
  else
    result =
        symbolsOf(n, axes->without(n, sizes), rank - axes->count(), "kept");
  SmallVector<ts::Dim> split;
  SmallVector<int64_t> reduced;
  if (axes->count() == 1) {
    split = axes->foldAround(n, dims);
    reduced = {1};
  } else {
    SmallVector<ts::Dim> outer = symbolsOf(n, kept, rank, "outer"),
                         inner = symbolsOf(
                             n, n.select(axes->isListed(), sizes, one), rank,
                             "inner");
    for (auto [a, b] : llvm::zip(outer, inner)) {
      split.append({a, b});
      reduced.push_back(static_cast<int64_t>(split.size()) - 1);
    }
  }
  if (split.size() > 32)
    return n.unsupported("several axes that depend on data, of rank " +
                         Twine(rank));
  Value x = n.reshape(n[0], split);
  if (!x)
    return failure();
  return n.out(n.reshape(body(x, ArrayRef<int64_t>(reduced), false), result));
}

template <typename Fn> LogicalResult reduction(Node &n, Fn &&body) {
  if (!isNumbers(n, n[1]))
    return reductionAtRunTime(n, body);
  std::optional<SmallVector<int64_t>> axes = axesOf(n);
  if (!axes)
    return failure();
  return n.out(body(n[0], ArrayRef<int64_t>(*axes), n.flag("keepdims", true)));
}

template <K kind> LogicalResult importReduce(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    K used = kind;
    if (ts::elementTypeOf(x).isInteger(1)) // of booleans: any, all
      used = kind == K::max   ? K::logical_or
             : kind == K::min ? K::logical_and
                              : kind;
    return n.reduce(used, x, axes, keep);
  });
}

LogicalResult importReduceMean(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return axes.empty() ? x : n.mean(x, axes, keep);
  });
}

LogicalResult importReduceL1(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return n.reduce(K::add, n.make<ts::AbsOp>(x), axes, keep);
  });
}

Value sumOfSquares(Node &n, Value x, ArrayRef<int64_t> axes, bool keep) {
  return n.reduce(K::add, n.make<ts::MulOp>(x, x), axes, keep);
}

LogicalResult importReduceL2(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return inWideFloat(n, x, [&](Value f) {
      return n.make<ts::SqrtOp>(sumOfSquares(n, f, axes, keep));
    });
  });
}

LogicalResult importReduceSumSquare(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return sumOfSquares(n, x, axes, keep);
  });
}

LogicalResult importReduceLogSum(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return inWideFloat(n, x, [&](Value f) {
      return n.make<ts::LogOp>(n.reduce(K::add, f, axes, keep));
    });
  });
}

/// log(sum(e^(x - m))) + m with m the largest; 0 where that is infinite.
LogicalResult importReduceLogSumExp(Node &n) {
  return reduction(n, [&](Value x, ArrayRef<int64_t> axes, bool keep) {
    return inWideFloat(n, x, [&](Value f) -> Value {
      Value largest = n.reduce(K::max, f, axes, true);
      Value infinite = n.make<ts::IsInfOp>(largest, bool(true), bool(true));
      largest = n.select(infinite, n.scalarFor(f, 0), largest);
      Value sum =
          n.reduce(K::add, n.make<ts::ExpOp>(n.sub(f, largest)), axes, true);
      Value result = n.add(n.make<ts::LogOp>(sum), largest);
      if (keep || !result)
        return result;
      SmallVector<ts::Dim> dims;
      for (auto [i, dim] : llvm::enumerate(ts::dimsOf(f)))
        if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
          dims.push_back(dim);
      return n.reshape(result, dims);
    });
  });
}

template <K kind> LogicalResult importArg(Node &n) {
  int64_t axis = n.axis("axis", 0, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  Value x = n[0];
  SmallVector<ts::Dim> dims = ts::dimsOf(x);
  ts::Dim &size = dims[axis];
  if (size.isConstant(0))
    return n.fail("nothing to choose from: dim " + Twine(axis) + " is empty",
                  "give at least one element");
  // A symbolic size of 0 is refused when it is bound.
  if (!size.asConstant() && !n.importer.assumeAtLeast(size, 1)) {
    size = size.max(n.dim(1));
    x = n.castDims(x, dims);
  }
  Value index = n.make<ts::ArgReduceOp>(kind, x, uint64_t(axis),
                                        n.flag("select_last_index", false));
  if (n.flag("keepdims", true) && index) {
    dims[axis] = n.dim(1);
    index = n.reshape(index, dims);
  }
  return n.out(index);
}

template <K kind> LogicalResult importCumulative(Node &n) {
  bool exclusive = n.flag("exclusive", false),
       reverse = n.flag("reverse", false);
  SmallVector<ts::Dim> dims = ts::dimsOf(n[0]);
  if (!isNumbers(n, n[1]) && lengthOf(n[1]) == 1) {
    auto axes = RuntimeAxes::of(n, n[1], static_cast<int64_t>(dims.size()));
    if (!axes)
      return failure();
    Value x = n.reshape(n[0], axes->foldAround(n, dims));
    return n.out(n.reshape(
        n.make<ts::ScanOp>(kind, x, uint64_t(1), exclusive, reverse), dims));
  }
  std::optional<SmallVector<int64_t>> axis = n.numbers(n[1], "the axis");
  if (!axis)
    return failure();
  if (axis->size() != 1)
    return n.fail("the axis must be one number", "give a scalar");
  int64_t dim = n.normalAxis((*axis)[0], static_cast<int64_t>(dims.size()));
  return n.out(
      n.make<ts::ScanOp>(kind, n[0], uint64_t(dim), exclusive, reverse));
}

LogicalResult importTopK(Node &n) {
  std::optional<SmallVector<ts::Dim>> k = sizesOrSymbols(n, n[1], "K");
  if (!k)
    return failure();
  if (k->size() != 1)
    return n.fail("K must hold one number", "give a 1-D tensor of one element");
  int64_t axis = n.axis("axis", -1, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  // Sizes below k are refused when they are bound.
  Value x = n[0];
  SmallVector<ts::Dim> dims = ts::dimsOf(x);
  ts::Dim &size = dims[axis];
  if (!(size.asConstant() && (*k)[0].asConstant()) &&
      !n.importer.assumeAtLeast(size - (*k)[0], 0)) {
    require(n, (*k)[0], ts::ComparePredicate::le, size,
            "K is above the size of the axis");
    size = size.max((*k)[0]);
    x = n.castDims(x, dims);
    if (!x)
      return failure();
  }
  Operation *op = n.makeOp<ts::TopKOp>(2, x, (*k)[0].attr(), uint64_t(axis),
                                       n.flag("largest", true));
  if (!op)
    return failure();
  return mlir::success(succeeded(n.out(op->getResult(0), 0)) &&
                       succeeded(n.out(op->getResult(1), 1)));
}

constexpr OpRow rows[] = {
    {"", "ArgMax", 1, 1, 1, importArg<K::max>},
    {"", "ArgMin", 1, 1, 1, importArg<K::min>},
    {"", "CumProd", 26, 2, 2, importCumulative<K::mul>},
    {"", "CumSum", 11, 2, 2, importCumulative<K::add>},
    {"", "ReduceL1", 1, 1, 2, importReduceL1},
    {"", "ReduceL2", 1, 1, 2, importReduceL2},
    {"", "ReduceLogSum", 1, 1, 2, importReduceLogSum},
    {"", "ReduceLogSumExp", 1, 1, 2, importReduceLogSumExp},
    {"", "ReduceMax", 1, 1, 2, importReduce<K::max>},
    {"", "ReduceMean", 1, 1, 2, importReduceMean},
    {"", "ReduceMin", 1, 1, 2, importReduce<K::min>},
    {"", "ReduceProd", 1, 1, 2, importReduce<K::mul>},
    {"", "ReduceSum", 1, 1, 2, importReduce<K::add>},
    {"", "ReduceSumSquare", 1, 1, 2, importReduceSumSquare},
    {"", "TopK", 10, 2, 2, importTopK},
};

} // namespace

ArrayRef<OpRow> reductionRows() { return rows; }

} // namespace knapper
