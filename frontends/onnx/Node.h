//===- Node.h - What an operator's row sees of its node -------------------===//
//
// A row of an operator family is {domain, name, since, inputs, function}:
//
//   static LogicalResult importRelu(Node &n) {
//     return n.out(n.make<ts::MaxOp>(n[0], n.splatLike(0, n[0])));
//   }
//   {"", "Relu", 13, 1, 1, importRelu},
//
// Errors are sticky: a helper that fails records the error and gives a null
// value, and every helper passes null operands on. So a row only checks where
// it looks into a value; what `out` returns carries the failure.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Importer.h"
#include "runtime/operators/Operator.h"

namespace knapper {

/// An operand of `Node::make` that may be absent.
struct Optional {
  mlir::Value value;
  operator mlir::Value() const { return value; }
};

class Node {
public:
  Node(Importer &importer, OnnxScope &scope, const onnx::NodeProto &proto,
       std::string name, std::string domain, int64_t opset);

  //===--------------------------------------------------------------------===//
  // Operands and results
  //===--------------------------------------------------------------------===//
  size_t size() const { return operands.size(); }
  /// Null when the optional operand is absent.
  mlir::Value operator[](size_t index) const {
    return index < operands.size() ? operands[index] : mlir::Value();
  }
  bool has(size_t index) const { return bool((*this)[index]); }
  llvm::ArrayRef<mlir::Value> all() const { return operands; }
  llvm::SmallVector<mlir::Value> operands;

  /// Sets result 0 (or `index`); fails when `value` is null.
  mlir::LogicalResult out(mlir::Value value, size_t index = 0);
  /// The model reads (or could read) result `index`.
  bool wants(size_t index) const;
  size_t resultCount() const { return proto.output_size(); }
  /// The model's name of a result; the node's where it has none.
  const std::string &resultName(size_t index) const {
    const std::string &given = proto.output(static_cast<int>(index));
    return given.empty() ? name : given;
  }
  llvm::SmallVector<mlir::Value> results;

  //===--------------------------------------------------------------------===//
  // Attributes; a wrong kind is an error of the node
  //===--------------------------------------------------------------------===//
  bool hasAttr(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  /// An integer that is 0 or 1; another one is an error of the node.
  bool flag(llvm::StringRef name, bool otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  llvm::SmallVector<std::string> texts(llvm::StringRef name);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  llvm::SmallVector<double> reals(llvm::StringRef name);
  const onnx::TensorProto *tensor(llvm::StringRef name);
  const onnx::GraphProto *graph(llvm::StringRef name);
  /// Attribute `name`, made non-negative by `rank`.
  int64_t axis(llvm::StringRef name, int64_t otherwise, int64_t rank);
  int64_t normalAxis(int64_t axis, int64_t rank);
  /// Attribute "axes" in its order, non-negative; all axes without it.
  llvm::SmallVector<int64_t> axesOrAll(int64_t rank);
  /// The type that attribute "output_datatype" names, FLOAT without it. Null
  /// when we lack it, which is said.
  mlir::Type outputDatatype();
  /// All of them as a ts.external has them. Null when one is of a kind that
  /// operators of the host do not take, which is said.
  mlir::DictionaryAttr parameters();
  /// Sorted, distinct.
  llvm::SmallVector<int64_t> normalAxes(llvm::ArrayRef<int64_t> axes,
                                        int64_t rank);

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
  std::string where() const;

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
  mlir::RankedTensorType type(llvm::ArrayRef<ts::Dim> dims,
                              mlir::Type element);

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
  llvm::SmallVector<mlir::Value> broadcastAll(llvm::ArrayRef<mlir::Value> values);
  /// Dims that the shapes broadcast to.
  llvm::SmallVector<ts::Dim>
  broadcastDims(llvm::ArrayRef<llvm::SmallVector<ts::Dim>> shapes);
  /// One-directional: `value`'s dims stand at the end of `dims`.
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<ts::Dim> dims);
  /// `value`'s dim i becomes dim `at[i]` of `dims`.
  mlir::Value broadcastAt(mlir::Value value, llvm::ArrayRef<int64_t> at,
                          llvm::ArrayRef<ts::Dim> dims);
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
                            mlir::DictionaryAttr parameters,
                            llvm::ArrayRef<bool> present,
                            mlir::ValueRange inputs,
                            llvm::ArrayRef<llvm::StringRef> symbols,
                            mlir::TypeRange types);

  ts::Dim dim(int64_t value) const {
    return ts::Dim::constant(importer.context, value);
  }

  Importer &importer;
  OnnxScope &scope;
  const onnx::NodeProto &proto;
  std::string name, domain;
  int64_t opset;
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
  const onnx::AttributeProto *attribute(llvm::StringRef name,
                                        onnx::AttributeProto::AttributeType type);
};

/// One operator. `until` is the last opset it holds for.
struct OpRow {
  const char *domain, *name;
  int since;
  int minInputs, maxInputs; ///< maxInputs -1: any number
  mlir::LogicalResult (*import)(Node &);
  int until = INT32_MAX;
};

inline constexpr int anyNumber = -1;

// The families; a file each.
llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> matMulRows();
llvm::ArrayRef<OpRow> convRows();
llvm::ArrayRef<OpRow> poolRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> softmaxRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> sliceRows();
llvm::ArrayRef<OpRow> gatherRows();
llvm::ArrayRef<OpRow> constantRows();
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> lossRows();
llvm::ArrayRef<OpRow> quantizeRows();
llvm::ArrayRef<OpRow> resizeRows();
llvm::ArrayRef<OpRow> controlRows();
llvm::ArrayRef<OpRow> oldOpsetRows();
llvm::ArrayRef<OpRow> flexAttentionRows();
llvm::ArrayRef<OpRow> linearAttentionRows();
llvm::ArrayRef<OpRow> classicalRows();
llvm::ArrayRef<OpRow> treeRows();
llvm::ArrayRef<OpRow> textRows();
llvm::ArrayRef<OpRow> randomRows();
llvm::ArrayRef<OpRow> samplingRows();
llvm::ArrayRef<OpRow> selectionRows();
llvm::ArrayRef<OpRow> suppressionRows();
llvm::ArrayRef<OpRow> spectralRows();
llvm::ArrayRef<OpRow> trainingRows();
llvm::ArrayRef<OpRow> recurrentRows();
llvm::ArrayRef<OpRow> sequenceRows();
llvm::ArrayRef<OpRow> contribAttentionRows();
llvm::ArrayRef<OpRow> contribLayerRows();
llvm::ArrayRef<OpRow> contribProductRows();
llvm::ArrayRef<OpRow> contribQuantizedRows();
llvm::ArrayRef<OpRow> contribOtherRows();

/// Whether the operator's inputs may be sequences or absent optionals. Those
/// exist while a model is imported only: a sequence is a value of tuple type
/// whose producer's operands are the elements, an absent optional one of type
/// none.
bool takesSequences(llvm::StringRef op);
mlir::Value makeSequence(Node &n, llvm::ArrayRef<mlir::Value> elements);
/// The elements, or nothing (and an error) when the value is no sequence.
std::optional<llvm::SmallVector<mlir::Value>> elementsOf(Node &n,
                                                         mlir::Value value);

/// The scope of a subgraph that is an attribute of the node.
OnnxScope innerScope(Node &n, llvm::StringRef part);

/// A node whose operator somebody registered: its shape function says what the
/// results are.
mlir::LogicalResult importExternal(Node &n, const Operator &op);

/// The row for an operator, or null. `known`: some opset has it.
const OpRow *findRow(llvm::StringRef domain, llvm::StringRef name,
                     int64_t opset, bool *known = nullptr);

} // namespace knapper
