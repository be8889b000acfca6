//===- AtenNode.h - What a row of the torch front end sees of its node ----===//
//
// A row is an overload and a function:
//
//   static LogicalResult importRelu(AtenNode &n) {
//     Value x = n.operand("self");
//     return n.out(n.make<ts::MaxOp>(x, n.splatLike(0, x)));
//   }
//   {"aten.relu.default", importRelu},
//
// Arguments have the names of the operator's schema. What torch says of the
// results (dtype, sizes) is known before the row runs, so type promotion is a
// conversion of the operands to the result's element type.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/common/NodeBuilder.h"
#include "llvm/Support/JSON.h"

namespace knapper {

class AtenImporter;

/// One node of a torch graph while its row imports it. One thread at a time.
class AtenNode : public NodeBuilder {
public:
  AtenNode(AtenImporter &importer, const llvm::json::Object &node,
           std::string name, std::string overload, mlir::Location loc);

  //===--------------------------------------------------------------------===//
  // Arguments, by the schema's names
  //===--------------------------------------------------------------------===//
  /// Whether the argument is given and not None.
  bool has(llvm::StringRef name) const;
  /// Whether the argument is a tensor (else a number, a list, None...).
  bool isTensor(llvm::StringRef name) const;
  /// A tensor; null for None.
  mlir::Value tensor(llvm::StringRef name);
  /// A tensor or number of the element type, 0-d for a number.
  mlir::Value operand(llvm::StringRef name, mlir::Type element);
  /// The same in the element type of result 0.
  mlir::Value operand(llvm::StringRef name) { return operand(name, element()); }
  /// A number as a 0-d tensor: a constant, or a value of the run. `otherwise`
  /// if it is not given.
  mlir::Value factor(llvm::StringRef name, mlir::Type element,
                     double otherwise);
  /// The same in the element type of `x`; null if `x` is null.
  mlir::Value factorFor(mlir::Value x, llvm::StringRef name, double otherwise) {
    return x ? factor(name, ts::elementTypeOf(x), otherwise) : mlir::Value();
  }
  /// A list of tensors; null entries for None.
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise = 0);
  double real(llvm::StringRef name, double otherwise = 0);
  /// The argument if it is a constant number; nothing if the run gives it.
  std::optional<double> known(llvm::StringRef name) const;
  bool flag(llvm::StringRef name);
  llvm::StringRef text(llvm::StringRef name);
  /// A size. Another kind of argument is an error of the node.
  ts::Dim size(llvm::StringRef name);
  llvm::SmallVector<ts::Dim> sizes(llvm::StringRef name);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  /// A list of `count` integers. A list of one is repeated. `otherwise` fills
  /// an absent one.
  llvm::SmallVector<int64_t> spread(llvm::StringRef name, size_t count,
                                    int64_t otherwise);
  /// A dim of a tensor of this rank, counted from the end where negative. Rank
  /// 0 has one dim, 0.
  int64_t dimension(llvm::StringRef name, int64_t rank);
  /// Sorted dims; all of them where the argument is None or an empty list.
  llvm::SmallVector<int64_t> dimensions(llvm::StringRef name, int64_t rank);

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//
  size_t resultCount() const { return claims.size(); }
  /// The element type and dims that torch gives a result; null if the result is
  /// no tensor.
  mlir::Type element(size_t index = 0) const;
  llvm::ArrayRef<ts::Dim> dims(size_t index = 0) const;
  /// The type in which a formula of several steps is computed: f32 for floats
  /// of fewer bits, else the result's own element type.
  mlir::Type wide(size_t index = 0);
  static mlir::Type wideOf(mlir::Type element);
  /// Whether a later node reads it.
  bool wants(size_t index) const;
  /// The type in which the operands are compared (torch's promotion).
  mlir::Type commonElement();

  /// Calls an operator of the runtime on the host (runtime/operators). Null if
  /// an input is null.
  mlir::Operation *host(llvm::StringRef op, mlir::ValueRange inputs,
                        llvm::ArrayRef<mlir::Type> types,
                        llvm::ArrayRef<mlir::NamedAttribute> parameters = {});
  /// Binds a size that the data decides: the symbol that torch has for dim
  /// `dim` of result `index` (or a new one) gets the value of a 0-d i64 tensor.
  ts::Dim bindClaimed(mlir::Value value, size_t index, size_t dim);

  /// Indices of an operator that counts from the front only: those below zero,
  /// which ts counts from the end, are outside of every dim.
  mlir::Value fromFront(mlir::Value index);

  /// Sets a result. A `value` of a wider type is converted to torch's element
  /// type. Fails if `value` is null: an error was reported.
  mlir::LogicalResult out(mlir::Value value, size_t index = 0);
  llvm::SmallVector<mlir::Value> results;

  /// The node's subgraph `index`. Null, with an error, if there is none.
  const llvm::json::Object *graph(size_t index);

  std::string where() const override;

  /// As `convert`; floats of eight bits overflow as torch says.
  mlir::Value converted(mlir::Value value, mlir::Type element);

  AtenImporter &importer;
  std::string name, overload;

private:
  const llvm::json::Value *argument(llvm::StringRef name) const;
  mlir::Value number(const llvm::json::Value &value, mlir::Type element);
  ts::Dim sizeOf(const llvm::json::Value &value, llvm::StringRef name);

  struct Claim {
    mlir::Type element;
    llvm::SmallVector<ts::Dim> dims;
    bool used = true;
  };
  const llvm::json::Object &node;
  const llvm::json::Object *arguments;
  llvm::SmallVector<Claim> claims;
};

/// How one overload is imported.
struct AtenRow {
  const char *overload;
  mlir::LogicalResult (*import)(AtenNode &);
};

/// log(sum(e^x)) over dims, which stay with size 1; of infinities too.
mlir::Value logSumExp(AtenNode &n, mlir::Value x, llvm::ArrayRef<int64_t> dims);

// The rows of each family; a family is a file.
llvm::ArrayRef<AtenRow> atenUnaryRows();
llvm::ArrayRef<AtenRow> atenActivationRows();
llvm::ArrayRef<AtenRow> atenBinaryRows();
llvm::ArrayRef<AtenRow> atenShapeRows();
llvm::ArrayRef<AtenRow> atenSliceRows();
llvm::ArrayRef<AtenRow> atenCreationRows();
llvm::ArrayRef<AtenRow> atenReductionRows();
llvm::ArrayRef<AtenRow> atenMatMulRows();
llvm::ArrayRef<AtenRow> atenConvolutionRows();
llvm::ArrayRef<AtenRow> atenNormalizationRows();
llvm::ArrayRef<AtenRow> atenAttentionRows();
llvm::ArrayRef<AtenRow> atenIndexRows();
llvm::ArrayRef<AtenRow> atenOrderRows();
llvm::ArrayRef<AtenRow> atenSpecialRows();
llvm::ArrayRef<AtenRow> atenBitsRows();
llvm::ArrayRef<AtenRow> atenFactorRows();
llvm::ArrayRef<AtenRow> atenFourierRows();
llvm::ArrayRef<AtenRow> atenSolveRows();
llvm::ArrayRef<AtenRow> atenDistanceRows();
llvm::ArrayRef<AtenRow> atenAdaptivePoolRows();
llvm::ArrayRef<AtenRow> atenEmbeddingRows();
llvm::ArrayRef<AtenRow> atenSelectionRows();
llvm::ArrayRef<AtenRow> atenBackwardRows();
llvm::ArrayRef<AtenRow> atenGroupedRows();
llvm::ArrayRef<AtenRow> atenControlRows();

/// The row of an overload, or null.
const AtenRow *findAtenRow(llvm::StringRef overload);

} // namespace knapper
