// The dialects that MLIR's bytecode reader asks what StableHLO means.
#include "frontends/stablehlo/Vhlo.h"
#include "frontends/stablehlo/Container.h"
#include "frontends/stablehlo/HloText.h"
#include "frontends/stablehlo/VhloBytecode.h"
#include "frontends/stablehlo/VhloTables.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeReaderConfig.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/IR/ExtensibleDialect.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace knapper {

constexpr std::string_view magic("ML\xefR");

bool isHloBytecode(std::string_view bytes) {
  return bytes.substr(0, magic.size()) == magic;
}

std::string_view findHloBytecode(std::string_view bytes) {
  size_t at = bytes.find(magic);
  if (at == bytes.npos)
    return {};
  std::string_view found = bytes.substr(at);
  // Before a vector of a flatbuffer stands its size.
  if (at >= sizeof(uint32_t)) {
    uint32_t size =
        llvm::support::endian::read32le(found.data() - sizeof(uint32_t));
    if (size <= found.size())
      found = found.substr(0, size);
  }
  return found;
}

/// A dialect whose ops are rows of a table.
class HloDialect : public ExtensibleDialect {
public:
  HloDialect(StringRef name, MLIRContext *context, TypeID id,
             ArrayRef<VhloOp> ops)
      : ExtensibleDialect(name, context, id) {
    for (const VhloOp &op : ops)
      for (unsigned version = op.first; version <= op.last; ++version)
        addOp((op.name + (version ? "_v" + Twine(version) : Twine())).str(),
              op.attributes);
  }

  ArrayRef<StringRef> attributesOf(StringRef op) const {
    auto found = attributes.find(op);
    return found == attributes.end() ? ArrayRef<StringRef>() : found->second;
  }

  const char *begin = nullptr; ///< of the buffer that is read

private:
  void addOp(const std::string &name, StringRef names);

  llvm::StringMap<SmallVector<StringRef>> attributes;
};

namespace {

/// Properties are the row's attributes, one after the other.
struct ReadRow : BytecodeOpInterface::ExternalModel<ReadRow, HloDialect> {
  static LogicalResult readProperties(DialectBytecodeReader &reader,
                                      OperationState &state) {
    auto *dialect = static_cast<HloDialect *>(state.name.getDialect());
    for (StringRef name : dialect->attributesOf(state.name.getStringRef())) {
      Attribute attribute;
      if (failed(reader.readAttribute(attribute)))
        return failure();
      state.addAttribute(name, attribute);
    }
    return mlir::success();
  }
  void writeProperties(Operation *, DialectBytecodeWriter &) const {}
};

} // namespace

void HloDialect::addOp(const std::string &name, StringRef names) {
  SmallVector<StringRef> list;
  if (!names.empty())
    names.split(list, ' ');
  registerDynamicOp(DynamicOpDefinition::get(
      name, this, [](Operation *) { return mlir::success(); },
      [](Operation *) { return mlir::success(); }));
  std::string full = (getNamespace() + "." + name).str();
  RegisteredOperationName::lookup(full, getContext())
      ->attachInterface<ReadRow>();
  attributes[full] = std::move(list);
}

namespace {

class VhloDialect : public HloDialect {
public:
  explicit VhloDialect(MLIRContext *context)
      : HloDialect(getDialectNamespace(), context, TypeID::get<VhloDialect>(),
                   vhloOps()) {
    addInterface(makeVhloBytecode(this, &begin));
  }
  static constexpr StringRef getDialectNamespace() { return "vhlo"; }
};

class SdyDialect : public HloDialect {
public:
  explicit SdyDialect(MLIRContext *context)
      : HloDialect(getDialectNamespace(), context, TypeID::get<SdyDialect>(),
                   sdyOps()) {
    addInterface(makeSdyBytecode(this));
  }
  static constexpr StringRef getDialectNamespace() { return "sdy"; }
};

/// Ends the reading of a file in which a type or an attribute is a part of
/// itself: the reader would go round for ever.
template <typename T> class CountReads : public AttrTypeBytecodeReader<T> {
public:
  explicit CountReads(int64_t &budget) : budget(budget) {}

  LogicalResult read(DialectBytecodeReader &reader, StringRef, T &) override {
    if (budget-- > 0)
      return mlir::success();
    reader.emitError("a type or attribute is a part of itself");
    return failure();
  }

private:
  int64_t &budget;
};

/// Types of the builtin dialect that later writers have a code for: narrow
/// floats, as operands of sdy's ops have them.
class ReadLaterTypes : public AttrTypeBytecodeReader<Type> {
public:
  LogicalResult read(DialectBytecodeReader &reader, StringRef dialect,
                     Type &entry) override {
    uint64_t code = 0;
    if (dialect != "builtin" || failed(reader.readVarInt(code)))
      return mlir::success(dialect != "builtin");
    MLIRContext *context = reader.getContext();
    switch (code) {
    case 22:
      entry = Float8E5M2Type::get(context);
      break;
    case 23:
      entry = Float8E4M3Type::get(context);
      break;
    case 24:
      entry = Float8E4M3FNType::get(context);
      break;
    case 25:
      entry = Float8E5M2FNUZType::get(context);
      break;
    case 26:
      entry = Float8E4M3FNUZType::get(context);
      break;
    case 27:
      entry = Float8E4M3B11FNUZType::get(context);
      break;
    case 28:
      entry = Float8E3M4Type::get(context);
      break;
    case 29:
      entry = Float4E2M1FNType::get(context);
      break;
    case 30:
      entry = Float6E2M3FNType::get(context);
      break;
    case 31:
      entry = Float6E3M2FNType::get(context);
      break;
    case 32:
      entry = Float8E8M0FNUType::get(context);
      break;
    default: // MLIR's own reader begins again
      break;
    }
    return mlir::success();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Expected<OwningOpRef<ModuleOp>> readHloBytecode(MLIRContext &context,
                                                std::string_view bytes,
                                                const std::string &where) {
  TRY(checkHloContainer(bytes, where));
  auto *dialect = context.getOrLoadDialect<VhloDialect>();
  context.loadDialect<SdyDialect>();
  dialect->begin = bytes.data();
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
    return mlir::success();
  });
  Block block;
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  int64_t budget = 100'000 + 8 * static_cast<int64_t>(bytes.size());
  config.getBytecodeReaderConfig().attachAttributeCallback(
      std::make_unique<CountReads<Attribute>>(budget));
  config.getBytecodeReaderConfig().attachTypeCallback(
      std::make_unique<CountReads<Type>>(budget));
  config.getBytecodeReaderConfig().attachTypeCallback(
      std::make_unique<ReadLaterTypes>());
  llvm::MemoryBufferRef buffer(StringRef(bytes.data(), bytes.size()), where);
  bool read = succeeded(readBytecodeFile(buffer, &block, config)) &&
              !block.empty() && isa<ModuleOp>(block.front()) &&
              block.front().getNumRegions() == 1 &&
              block.front().getRegion(0).hasOneBlock();
  if (!read)
    return userError("cannot be read as a StableHLO program: " +
                         (problem.empty() ? "it holds no module" : problem),
                     where,
                     "give what jax.export writes, or serialise it again");
  Operation *module = &block.front();
  module->remove();
  return OwningOpRef<ModuleOp>(cast<ModuleOp>(module));
}

Expected<HloProgram> readHloProgram(MLIRContext &context,
                                    std::string_view bytes,
                                    const std::string &where) {
  context.loadDialect<quant::QuantDialect>();
  if (isHloText(bytes.substr(0, hloTextBegin))) {
    ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module,
                     readHloText(context, bytes, where));
    return HloProgram{nullptr, bytes.data(), 0, std::move(module)};
  }
  std::string_view code = findHloBytecode(bytes);
  if (code.empty())
    return userError("is no StableHLO program: it holds no MLIR bytecode, and "
                     "no text with its ops",
                     where, "give what jax.export writes");
  auto offset = static_cast<size_t>(code.data() - bytes.data());
  std::shared_ptr<llvm::MemoryBuffer> kept;
  // Sections of the format are aligned, as the reader is to see them.
  const llvm::Align alignment(64);
  if (!llvm::isAddrAligned(alignment, code.data())) {
    std::unique_ptr<llvm::WritableMemoryBuffer> aligned =
        llvm::WritableMemoryBuffer::getNewUninitMemBuffer(code.size(), where,
                                                          alignment);
    if (!aligned)
      return deviceError("there is no memory to read it", where, "free memory");
    llvm::copy(code, aligned->getBufferStart());
    code = {aligned->getBufferStart(), code.size()};
    kept = std::move(aligned);
  }
  ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module,
                   readHloBytecode(context, code, where));
  return HloProgram{std::move(kept), code.data(), offset, std::move(module)};
}

} // namespace knapper
