#include "tools/knapper/KernelCode.h"

#include "runtime/artefact/Artefact.h"

#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrAnalysis.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

#include <cstring>

extern "C" void LLVMInitializeX86TargetInfo();
extern "C" void LLVMInitializeX86TargetMC();
extern "C" void LLVMInitializeX86Disassembler();

namespace knapper::cli {
namespace {

using Codes = std::map<std::string, KernelCode>; // by kernel
using ElfFile = llvm::object::ELF64LEObjectFile;

/// Instructions of x86-64 as text and numbers.
class Disassembler {
public:
  Disassembler() {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
    llvm::Triple triple("x86_64-unknown-linux-gnu");
    std::string error;
    const llvm::Target *target =
        llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target)
      return;
    registers.reset(target->createMCRegInfo(triple));
    info.reset(target->createMCAsmInfo(*registers, triple, options));
    subtarget.reset(target->createMCSubtargetInfo(triple, "x86-64-v4", ""));
    instructions.reset(target->createMCInstrInfo());
    context = std::make_unique<llvm::MCContext>(
        triple, info.get(), registers.get(), subtarget.get());
    decoder.reset(target->createMCDisassembler(*subtarget, *context));
    analysis.reset(target->createMCInstrAnalysis(instructions.get()));
    constexpr unsigned intelSyntax = 1;
    printer.reset(target->createMCInstPrinter(triple, intelSyntax, *info,
                                              *instructions, *registers));
  }
  bool made() const { return decoder && analysis && printer; }

  bool decode(llvm::ArrayRef<uint8_t> bytes, uint64_t address,
              llvm::MCInst &instruction, uint64_t &size) {
    return decoder->getInstruction(instruction, size, bytes, address,
                                   llvm::nulls()) ==
           llvm::MCDisassembler::Success;
  }
  /// Where a branch or call goes.
  std::optional<uint64_t> branch(const llvm::MCInst &instruction,
                                 uint64_t address, uint64_t size) {
    uint64_t target = 0;
    if ((analysis->isBranch(instruction) || analysis->isCall(instruction)) &&
        analysis->evaluateBranch(instruction, address, size, target))
      return target;
    return std::nullopt;
  }
  /// What an instruction refers to by its distance from it.
  std::optional<uint64_t> memory(const llvm::MCInst &instruction,
                                 uint64_t address, uint64_t size) {
    return analysis->evaluateMemoryOperandAddress(instruction, subtarget.get(),
                                                  address, size);
  }
  /// Bytes that it reads or writes there; 0 when it only takes the address.
  size_t width(const llvm::MCInst &instruction, uint64_t address) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    printer->printInst(&instruction, address, "", *subtarget, stream);
    static constexpr std::pair<const char *, size_t> widths[] = {
        {"zmmword", 64}, {"ymmword", 32}, {"xmmword", 16}, {"qword", 8},
        {"dword", 4},    {"word", 2},     {"byte", 1}};
    for (auto [name, bytes] : widths)
      if (text.find(std::string(name) + " ptr") != std::string::npos)
        return bytes;
    return 0;
  }

private:
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> info;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> decoder;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

struct CodeFunction {
  std::string name;
  uint64_t begin = 0, end = 0;
};

class ImageReader {
public:
  ImageReader(const ElfFile &file, Disassembler &disassembler)
      : file(file), disassembler(disassembler) {}

  llvm::Expected<Codes> read() {
    for (const llvm::object::ELFSymbolRef symbol : file.symbols()) {
      auto type = symbol.getType();
      if (!type || *type != llvm::object::SymbolRef::ST_Function) {
        llvm::consumeError(type.takeError());
        continue;
      }
      auto name = symbol.getName();
      auto address = symbol.getAddress();
      if (!name)
        return name.takeError();
      if (!address)
        return address.takeError();
      functions.push_back({name->str(), *address, *address + symbol.getSize()});
    }
    Codes codes;
    for (const CodeFunction &function : functions)
      codes[function.name] = normalised(function);
    return codes;
  }

private:
  /// What the image has at an address; shorter where it ends.
  llvm::ArrayRef<uint8_t> at(uint64_t address, uint64_t size) const {
    for (const llvm::object::SectionRef &section : file.sections()) {
      uint64_t begin = section.getAddress(), bytes = section.getSize();
      if (begin == 0 || address < begin || address - begin >= bytes)
        continue;
      auto content = section.getContents();
      if (!content) {
        llvm::consumeError(content.takeError());
        return {};
      }
      llvm::StringRef part = content->substr(address - begin, size);
      return {part.bytes_begin(), part.size()};
    }
    return {};
  }

  std::string functionAt(uint64_t address) const {
    for (const CodeFunction &function : functions)
      if (address >= function.begin && address < function.end)
        return function.name + "+" + std::to_string(address - function.begin);
    return {};
  }

  KernelCode normalised(const CodeFunction &function) {
    llvm::ArrayRef<uint8_t> code =
        at(function.begin, function.end - function.begin);
    KernelCode result{std::string(code.begin(), code.end()), code.size()};
    std::string leadsTo;
    for (uint64_t offset = 0; offset < code.size();) {
      llvm::MCInst instruction;
      uint64_t size = 0, address = function.begin + offset;
      if (!disassembler.decode(code.drop_front(offset), address, instruction,
                               size)) {
        offset += std::max<uint64_t>(size, 1); // compared as it is
        continue;
      }
      auto away = [&](uint64_t target) {
        return target < function.begin || target >= function.end;
      };
      if (auto target = disassembler.branch(instruction, address, size)) {
        if (away(*target)) {
          clear(result.bytes, offset, size, *target - address - size);
          leadsTo += functionAt(*target) + '\n';
        }
      } else if (auto data = disassembler.memory(instruction, address, size);
                 data && away(*data)) {
        clear(result.bytes, offset, size, *data - address - size);
        llvm::ArrayRef<uint8_t> constant =
            at(*data, disassembler.width(instruction, address));
        leadsTo.append(constant.begin(), constant.end());
      }
      offset += size;
    }
    result.bytes += leadsTo;
    return result;
  }

  /// Sets the four bytes of an instruction that hold `displacement` to zero.
  static void clear(std::string &bytes, uint64_t offset, uint64_t size,
                    uint64_t displacement) {
    auto value = static_cast<uint32_t>(displacement);
    for (uint64_t i = size; i-- > sizeof value;) {
      char *field = bytes.data() + offset + i + 1 - sizeof value;
      if (memcmp(field, &value, sizeof value) == 0) {
        memset(field, 0, sizeof value);
        return;
      }
    }
  }

  const ElfFile &file;
  Disassembler &disassembler;
  std::vector<CodeFunction> functions;
};

/// The text of every entry of a PTX module, up to the next one.
Codes entriesOf(std::string_view ptx) {
  constexpr std::string_view mark = ".entry ";
  Codes codes;
  for (size_t at = ptx.find(mark); at != std::string_view::npos;) {
    size_t name = at + mark.size(), next = ptx.find(mark, name);
    size_t end = ptx.find_first_of("( \n", name);
    if (end == std::string_view::npos)
      break;
    std::string_view text = ptx.substr(name, next - name);
    codes[std::string(ptx.substr(name, end - name))] = {std::string(text),
                                                        text.size()};
    at = next;
  }
  return codes;
}

} // namespace

Expected<std::map<std::string, Codes>> kernelCodes(const Artefact &artefact) {
  std::map<std::string, Codes> all;
  Disassembler disassembler;
  if (!disassembler.made())
    return internalError("the disassembler of x86-64 is missing");
  for (uint32_t t = 0; t < count(artefact.header().targets()); ++t) {
    const fb::Target *target = artefact.header().targets()->Get(t);
    std::span<const std::byte> code = artefact.code(t);
    std::string_view bytes(reinterpret_cast<const char *>(code.data()),
                           code.size());
    Codes &codes = all[text(target->isa())];
    if (!bytes.starts_with("\177ELF")) {
      codes = entriesOf(bytes);
      continue;
    }
    auto file = ElfFile::create(
        llvm::MemoryBufferRef({bytes.data(), bytes.size()}, ""));
    llvm::Error error = file.takeError();
    if (!error) {
      if (auto read = ImageReader(*file, disassembler).read())
        codes = std::move(*read);
      else
        error = read.takeError();
    }
    if (error)
      return userError(
          "the code for " + std::string(text(target->isa())) +
              " cannot be read: " + llvm::toString(std::move(error)),
          artefact.name(), "compile the model again");
  }
  return all;
}

} // namespace knapper::cli
