//===- NodeBuilder.h - Building tensor IR for one node of a graph --------===//
//
// What the front ends share. A `GraphBuilder` is one import: the builder, the
// symbols and what is known of small integer tensors. A `NodeBuilder` is one
// node of it: ops are made with inferred types, bounded and verified one by
// one, and broadcasting, reshaping and casting follow the rules of tensor IR.
//
// Errors are sticky: a helper that fails records the error and gives a null
// value, and every helper passes null operands on. So a row of a front end only
// checks where it looks into a value.
//
// Threads: an object is used by one thread at a time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "ir/tensor/SymbolicValue.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/base/Error.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace knapper {

/// What the nodes of one import share.
class GraphBuilder {
public:
  explicit GraphBuilder(mlir::MLIRContext &context)
      : context(&context), b(&context) {}

  /// A symbol that no input names, called `hint` or `hint_1`...
  ts::Dim freshSymbol(llvm::StringRef hint);
  /// Says that the size, a bare symbol, is computed when the program runs, so
  /// that it broadcasts where it turns out to be 1.
  void mayBeOne(ts::Dim symbol);
  bool isMaybeOne(ts::Dim dim) const;
  /// `symbolicValue` of the tensor.
  std::optional<llvm::SmallVector<ts::Dim>> sizes(mlir::Value value);
  /// Every symbol with its minimum: the module's `ts.symbols`.
  mlir::ArrayAttr symbolsAttr() const;

  mlir::MLIRContext *context;
  mlir::OpBuilder b;
  std::string diagnostic; ///< what MLIR said last

protected:
  llvm::MapVector<mlir::StringAttr, int64_t> symbols; ///< with their minimum
  llvm::StringSet<> reservedNames; ///< of symbols that inputs will name
  llvm::StringSet<> maybeOnes;     ///< names of symbols (mayBeOne)
  ts::SymbolicValueCache valueCache;
};

/// An operand of `NodeBuilder::make` that may be absent.
struct Optional {
  mlir::Value value;
  operator mlir::Value() const { return value; }
};

class NodeBuilder {
public:
  NodeBuilder(GraphBuilder &shared, mlir::Location loc)
      : shared(shared), b(shared.b), loc(loc) {}
  virtual ~NodeBuilder() = default;

  //===--------------------------------------------------------------------===//
  // Errors
  //===--------------------------------------------------------------------===//
  /// The graph is wrong.
  mlir::LogicalResult fail(const llvm::Twine &what,
                           const llvm::Twine &hint = "");
  /// The graph is right, we lack something; importing goes on, to report all.
  mlir::LogicalResult unsupported(const llvm::Twine &reason);
  bool failed() const { return error || missing; }
  std::optional<Error> error;
  std::optional<std::string> missing;
  /// The node, for messages.
  virtual std::string where() const = 0;

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//
  /// An op whose result type is inferred.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    mlir::Operation *op = makeOp<Op>(1, args...);
    return op ? mlir::Value(op->getResult(0)) : mlir::Value();
  }
  template <typename Op, typename... Args>
  mlir::Operation *makeOp(unsigned results, Args &&...args) {
    if ((isNull(args) || ...))
      return nullptr;
    mlir::OperationState state(loc, Op::getOperationName());
    llvm::SmallVector<mlir::Type> types(results, placeholder());
    Op::build(b, state, mlir::TypeRange(types), args...);
    return create(state, /*infer=*/true);
  }
  /// An op with a given result type.
  template <typename Op, typename... Args>
  mlir::Value makeAs(mlir::Type type, Args &&...args) {
    if (!type || (isNull(args) || ...))
      return {};
    mlir::OperationState state(loc, Op::getOperationName());
    Op::build(b, state, mlir::TypeRange(type), args...);
    mlir::Operation *op = create(state, /*infer=*/false);
    return op ? mlir::Value(op->getResult(0)) : mlir::Value();
  }

  /// A tensor type, or null (and an error) when it is unreasonably large.
  mlir::RankedTensorType type(llvm::ArrayRef<ts::Dim> dims, mlir::Type element);

  mlir::Value constant(mlir::DenseElementsAttr data);
  /// A 0-d constant; converted to the element type.
  mlir::Value scalar(double value, mlir::Type element);
  mlir::Value integerScalar(int64_t value, mlir::Type element);
  /// A constant of the shape and element type of `like`.
  mlir::Value splatLike(double value, mlir::Value like);
  /// A 1-d i64 tensor of sizes.
  mlir::Value sizesTensor(llvm::ArrayRef<ts::Dim> dims);
  /// A size as a 0-d tensor of the element type.
  mlir::Value sizeScalar(ts::Dim size, mlir::Type element);

  /// Multidirectional broadcasting to one shape.
  llvm::SmallVector<mlir::Value>
  broadcastAll(llvm::ArrayRef<mlir::Value> values);
  /// Dims that the shapes broadcast to.
  llvm::SmallVector<ts::Dim>
  broadcastDims(llvm::ArrayRef<llvm::SmallVector<ts::Dim>> shapes);
  /// One-directional: `value`'s dims stand at the end of `dims`.
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<ts::Dim> dims);
  /// `value`'s dim i becomes dim `at[i]` of `dims`.
  mlir::Value broadcastAt(mlir::Value value, llvm::ArrayRef<int64_t> at,
                          llvm::ArrayRef<ts::Dim> dims);
  /// `value` with `size` elements along `axis`, where it has as many or 1.
  mlir::Value broadcastDim(mlir::Value value, int64_t axis, ts::Dim size);
  /// To other dims of equal count; a check at run time when not provable.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<ts::Dim> dims);
  /// The same tensor seen with `dims`; checked at run time where not provable.
  mlir::Value castDims(mlir::Value value, llvm::ArrayRef<ts::Dim> dims);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value convert(mlir::Value value, mlir::Type element);
  /// `count` elements of dim `dim` from `start` on.
  mlir::Value sliceDim(mlir::Value value, int64_t dim, ts::Dim start,
                       ts::Dim count, int64_t step = 1);
  mlir::Value reduce(ts::ReduceKind kind, mlir::Value value,
                     llvm::ArrayRef<int64_t> dims, bool keep);
  /// Sum over the dims divided by their count.
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keep);

  // Elementwise shorthands; operands are broadcast.
  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    llvm::SmallVector<mlir::Value> v = broadcastAll({x, y});
    return make<Op>(v[0], v[1]);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return binary<ts::AddOp>(x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return binary<ts::SubOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return binary<ts::MulOp>(x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return binary<ts::DivOp>(x, y);
  }
  mlir::Value compare(ts::ComparePredicate predicate, mlir::Value x,
                      mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// With a constant of x's element type.
  mlir::Value add(mlir::Value x, double y) { return add(x, scalarFor(x, y)); }
  mlir::Value mul(mlir::Value x, double y) { return mul(x, scalarFor(x, y)); }
  mlir::Value scalarFor(mlir::Value like, double value);

  //===--------------------------------------------------------------------===//
  // Known values
  //===--------------------------------------------------------------------===//
  /// Elements of a small integer tensor as sizes. When they depend on data,
  /// `unsupported` is recorded and nothing is returned.
  std::optional<llvm::SmallVector<ts::Dim>> sizes(mlir::Value value,
                                                  llvm::StringRef what);
  /// The same, all numbers.
  std::optional<llvm::SmallVector<int64_t>> numbers(mlir::Value value,
                                                    llvm::StringRef what);
  /// The elements of a small constant as numbers.
  std::optional<llvm::SmallVector<double>> realNumbers(mlir::Value value,
                                                       llvm::StringRef what);

  /// A fresh symbol that is given the value of a 0-d i64 tensor at run time;
  /// the run fails where it is negative. Named after `hint`.
  ts::Dim bindSize(mlir::Value value, llvm::StringRef hint);

  /// Runs an operator of the host's. `present`: which of its operands are
  /// `inputs`; `symbols`: fresh ones among the dims of `types`.
  mlir::Operation *external(llvm::StringRef domain, llvm::StringRef op,
                            int64_t version, mlir::DictionaryAttr parameters,
                            llvm::ArrayRef<bool> present,
                            mlir::ValueRange inputs,
                            llvm::ArrayRef<llvm::StringRef> symbols,
                            mlir::TypeRange types);

  ts::Dim dim(int64_t value) const {
    return ts::Dim::constant(shared.context, value);
  }
  /// `axis` counted from the end where negative; an error outside the rank.
  int64_t normalAxis(int64_t axis, int64_t rank);
  /// Sorted, distinct.
  llvm::SmallVector<int64_t> normalAxes(llvm::ArrayRef<int64_t> axes,
                                        int64_t rank);

  GraphBuilder &shared;
  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  template <typename T> static bool isNull(const T &argument) {
    if constexpr (std::is_convertible_v<T, mlir::ValueRange> &&
                  !std::is_convertible_v<T, mlir::Value>) {
      for (mlir::Value value : mlir::ValueRange(argument))
        if (!value)
          return true;
    }
    return false;
  }
  static bool isNull(const mlir::Value &value) { return !value; }
  mlir::Type placeholder();
  mlir::Operation *create(mlir::OperationState &state, bool infer);
};

} // namespace knapper
