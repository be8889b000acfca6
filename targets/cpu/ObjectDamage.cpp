#include "targets/cpu/ObjectDamage.h"
#include "runtime/base/Text.h"

#include "llvm/Support/MathExtras.h"

#include <optional>

namespace knapper {
namespace {

using File = llvm::object::ELF64LEFile;
using Section = llvm::object::ELF64LE::Shdr;
using Symbol = llvm::object::ELF64LE::Sym;
using namespace llvm::ELF;

constexpr uint64_t kMostZeros = 16 << 20; // as many as a code's file may have
constexpr uint64_t kMostAlignment = 1 << 16;

/// Which bytes around its place lld reads and writes for a relocation.
struct Reach {
  uint64_t before = 0, bytes = 4;
};

/// None for those of thread-local data, which no kernel may have, and for those
/// that there are not.
std::optional<Reach> reachOf(uint32_t type) {
  switch (type) {
  case R_X86_64_NONE:
    return Reach{0, 0};
  case R_X86_64_8:
  case R_X86_64_PC8:
    return Reach{0, 1};
  case R_X86_64_16:
  case R_X86_64_PC16:
    return Reach{0, 2};
  case R_X86_64_32:
  case R_X86_64_32S:
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
  case R_X86_64_GOT32:
  case R_X86_64_GOTPC32:
  case R_X86_64_GOTPCREL:
  case R_X86_64_SIZE32:
    return Reach{0, 4};
  case R_X86_64_GOTPCRELX:
    return Reach{2, 4}; // of an instruction that may become another
  case R_X86_64_REX_GOTPCRELX:
    return Reach{3, 4};
  case R_X86_64_64:
  case R_X86_64_PC64:
  case R_X86_64_GOT64:
  case R_X86_64_GOTOFF64:
  case R_X86_64_GOTPC64:
  case R_X86_64_GOTPCREL64:
  case R_X86_64_PLTOFF64:
  case R_X86_64_SIZE64:
    return Reach{0, 8};
  default:
    return std::nullopt;
  }
}

/// Of the relocations of a section that a program has.
std::string damageOf(const File &file, const Section &section,
                     const Section &target) {
  auto relocations = file.relas(section);
  if (!relocations)
    return llvm::toString(relocations.takeError());
  for (const auto &relocation : *relocations) {
    uint32_t type = relocation.getType(/*isMips64EL=*/false);
    std::optional<Reach> reach = reachOf(type);
    if (!reach)
      return cat("a relocation of type ", type, ", which no kernel has");
    uint64_t at = relocation.r_offset;
    if (at < reach->before || at > target.sh_size ||
        target.sh_size - at < reach->bytes)
      return cat("a relocation of byte ", at, " in a section of ",
                 uint64_t(target.sh_size));
  }
  return {};
}

/// Of section `number` of `sections`.
std::string damageOf(const File &file, llvm::ArrayRef<Section> sections,
                     size_t number) {
  const Section &section = sections[number];
  auto linksTo = [&](unsigned type) {
    return section.sh_link < sections.size() &&
           sections[section.sh_link].sh_type == type;
  };
  // A section without bytes in the file gets some in an image.
  if (section.sh_type == SHT_NOBITS && section.sh_size > kMostZeros)
    return "more zeros than a kernel can use";
  if (section.sh_addralign > kMostAlignment ||
      (section.sh_addralign && !llvm::isPowerOf2_64(section.sh_addralign)))
    return "an alignment that no section has";
  if (section.sh_type != SHT_NOBITS) {
    auto bytes = file.getSectionContents(section);
    if (!bytes)
      return llvm::toString(bytes.takeError());
  }
  switch (section.sh_type) {
  case SHT_SYMTAB:
    if (!linksTo(SHT_STRTAB) || section.sh_entsize != sizeof(Symbol) ||
        section.sh_info > section.sh_size / sizeof(Symbol))
      return "a broken table of symbols";
    break;
  case SHT_REL:
    return "relocations without addends, which x86-64 does not have";
  case SHT_RELA:
    if (!linksTo(SHT_SYMTAB) || section.sh_info == 0 ||
        section.sh_info >= sections.size())
      return "relocations of no section, or by no symbols";
    if (sections[section.sh_info].sh_flags & SHF_ALLOC)
      return damageOf(file, section, sections[section.sh_info]);
    break;
  case SHT_GROUP:
  case SHT_SYMTAB_SHNDX:
    if (!linksTo(SHT_SYMTAB))
      return "no table of symbols that it belongs to";
    break;
  default:
    break;
  }
  return {};
}

} // namespace

std::string damageOf(const File &file) {
  if (file.getHeader().e_phnum != 0)
    return "it has program headers, which no relocatable object has";
  auto read = file.sections();
  if (!read)
    return llvm::toString(read.takeError());
  llvm::ArrayRef<Section> sections(read->begin(), read->end());
  unsigned tables = 0;
  for (size_t number = 1; number < sections.size(); ++number) {
    if (std::string what = damageOf(file, sections, number); !what.empty())
      return cat("section ", number, " has ", what);
    tables += sections[number].sh_type == SHT_SYMTAB;
  }
  return tables > 1 ? "it has several tables of symbols" : "";
}

} // namespace knapper
