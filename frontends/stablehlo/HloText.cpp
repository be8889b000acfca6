#include "frontends/stablehlo/HloText.h"
#include "frontends/common/TextNesting.h"
#include "frontends/stablehlo/HloTextForms.h"
#include "frontends/stablehlo/VhloTables.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace knapper {
namespace {

constexpr StringRef blanks = " \t\r\n";

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// An op of any operands, results and regions, which keeps what stands in
/// `<{...}>` until it is flattened.
class TextOp : public OperationName::Impl {
public:
  TextOp(StringRef name, Dialect *dialect, TypeID id)
      : Impl(name, dialect, id, detail::InterfaceMap()) {}

  LogicalResult foldHook(Operation *, ArrayRef<Attribute>,
                         SmallVectorImpl<OpFoldResult> &) override {
    return failure();
  }
  void getCanonicalizationPatterns(RewritePatternSet &,
                                   MLIRContext *) override {}
  bool hasTrait(TypeID) override { return false; }
  OperationName::ParseAssemblyFn getParseAssemblyFn() override {
    StringRef op = getName().getValue();
    return [op](OpAsmParser &parser, OperationState &state) {
      return parseHloForm(op.split('.').second, parser, state);
    };
  }
  void populateDefaultAttrs(const OperationName &, NamedAttrList &) override {}
  void printAssembly(Operation *op, OpAsmPrinter &printer, StringRef) override {
    printer.printGenericOp(op);
  }
  LogicalResult verifyInvariants(Operation *) override {
    return mlir::success();
  }
  LogicalResult verifyRegionInvariants(Operation *) override {
    return mlir::success();
  }
  std::optional<Attribute> getInherentAttr(Operation *, StringRef) override {
    return std::nullopt;
  }
  void setInherentAttr(Operation *, StringAttr, Attribute) override {}
  void populateInherentAttrs(Operation *, NamedAttrList &) override {}
  LogicalResult
  verifyInherentAttrs(OperationName, NamedAttrList &,
                      function_ref<InFlightDiagnostic()>) override {
    return mlir::success();
  }
  int getOpPropertyByteSize() override { return sizeof(Attribute); }
  void initProperties(OperationName, OpaqueProperties storage,
                      OpaqueProperties init) override {
    new (storage.as<void *>())
        Attribute(init ? *init.as<Attribute *>() : Attribute());
  }
  void deleteProperties(OpaqueProperties) override {}
  void populateDefaultProperties(OperationName, OpaqueProperties) override {}
  LogicalResult
  setPropertiesFromAttr(OperationName, OpaqueProperties storage,
                        Attribute attribute,
                        function_ref<InFlightDiagnostic()>) override {
    *storage.as<Attribute *>() = attribute;
    return mlir::success();
  }
  Attribute getPropertiesAsAttr(Operation *op) override {
    return *op->getPropertiesStorage().as<Attribute *>();
  }
  void copyProperties(OpaqueProperties to, OpaqueProperties from) override {
    *to.as<Attribute *>() = *from.as<Attribute *>();
  }
  bool compareProperties(OpaqueProperties x, OpaqueProperties y) override {
    return *x.as<Attribute *>() == *y.as<Attribute *>();
  }
  llvm::hash_code hashProperties(OpaqueProperties storage) override {
    return hash_value(*storage.as<Attribute *>());
  }
};

//===----------------------------------------------------------------------===//
// Dialects
//===----------------------------------------------------------------------===//

class TextDialect : public Dialect {
public:
  TextDialect(StringRef name, MLIRContext *context, TypeID id)
      : Dialect(name, context, id) {}

  Attribute parseAttribute(DialectAsmParser &parser, Type) const override {
    return parseHloAttribute(parser);
  }
  /// Tokens (isHloToken) and futures: values that are no tensors.
  Type parseType(DialectAsmParser &parser) const override {
    if (parser.getFullSymbolSpec() == "token")
      return TupleType::get(getContext());
    return NoneType::get(getContext());
  }
  void printAttribute(Attribute, DialectAsmPrinter &) const override {}
  void printType(Type, DialectAsmPrinter &) const override {}

protected:
  void addOp(StringRef name) {
    RegisteredOperationName::insert(
        std::make_unique<TextOp>((getNamespace() + "." + name).str(), this,
                                 TypeID::get<TextOp>()),
        {});
  }
};

/// Functions that JAX and others write before they are lowered; the importer
/// knows those that have a row.
class ChloText : public TextDialect {
public:
  explicit ChloText(MLIRContext *context)
      : TextDialect(getDialectNamespace(), context, TypeID::get<ChloText>()) {
    for (StringRef name : hloChloOps())
      addOp(name);
  }
  static constexpr StringRef getDialectNamespace() { return "chlo"; }
};

class StableHloText : public TextDialect {
public:
  explicit StableHloText(MLIRContext *context)
      : TextDialect(getDialectNamespace(), context,
                    TypeID::get<StableHloText>()) {
    StringRef last;
    for (const VhloOp &op : vhloOps())
      if (op.name != last && op.name != "func" && op.name != "call")
        addOp(last = op.name);
  }
  static constexpr StringRef getDialectNamespace() { return "stablehlo"; }
};

} // namespace

bool isHloText(std::string_view begin) {
  StringRef text(begin.data(), begin.size());
  StringRef rest = text.ltrim(blanks);
  bool opens = false;
  for (StringRef word :
       {"module", "func", "\"builtin.module\"", "#", "//", "!"})
    opens |= rest.starts_with(word);
  // A program that gives its arguments back has functions alone.
  return opens && (text.contains("stablehlo.") ||
                   (text.contains("func.func") && !text.contains("ts.")));
}

Expected<OwningOpRef<ModuleOp>> readHloText(MLIRContext &context,
                                            std::string_view text,
                                            const std::string &where) {
  StringRef bytes(text.data(), text.size());
  const std::string hint = "give what lowered.as_text() of JAX writes";
  TRY(checkNesting(bytes, where, hint));
  context.loadDialect<StableHloText, ChloText, func::FuncDialect>();
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!problem.empty())
      return mlir::success();
    llvm::raw_string_ostream out(problem);
    if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      out << "line " << at.getLine() << ", column " << at.getColumn() << ": ";
    out << diagnostic.str();
    return mlir::success();
  });
  bool unregistered = context.allowsUnregisteredDialects();
  // Attributes of other projects' stand on functions and calls.
  context.allowUnregisteredDialects();
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, config);
  context.allowUnregisteredDialects(unregistered);
  if (!module || !(module)->getOperation()->getRegion(0).hasOneBlock())
    return userError("cannot be read as StableHLO text: " +
                         (problem.empty() ? "it holds no module" : problem),
                     where, hint);
  (module)->walk([](Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    if (dialect == StableHloText::getDialectNamespace() ||
        dialect == ChloText::getDialectNamespace())
      flattenHlo(op);
  });
  return module;
}

} // namespace knapper
