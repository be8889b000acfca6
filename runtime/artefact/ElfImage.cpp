#include "runtime/artefact/ElfImage.h"

#include "runtime/base/Checked.h"
#include "runtime/base/SystemError.h"

#include <cerrno>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>

namespace knapper {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxImage = uint64_t(1) << 31;
constexpr unsigned kMaxSegments = 64;

/// Copies a T from the file; headers in it need not be aligned.
template <typename T>
bool readAt(std::span<const std::byte> from, uint64_t offset, T &out) {
  if (!inside(offset, sizeof(T), from.size()))
    return false;
  memcpy(&out, from.data() + offset, sizeof(T));
  return true;
}

/// What makes an object need a dynamic linker; nullptr if nothing does.
/// `image` is indexed by virtual address.
const char *needsLinker(std::span<const std::byte> image,
                        const Elf64_Phdr &dynamic) {
  uint64_t symbols = 0, hash = 0, gnuHash = 0;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_memsz;
       at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!readAt(image, dynamic.p_vaddr + at, entry))
      return "a dynamic section outside its segments";
    switch (entry.d_tag) {
    case DT_NULL:
      at = dynamic.p_memsz;
      break;
    case DT_RELASZ:
    case DT_RELSZ:
    case DT_PLTRELSZ:
    case DT_RELRSZ:
      if (entry.d_un.d_val != 0)
        return "relocations";
      break;
    case DT_TEXTREL:
      return "text relocations";
    case DT_NEEDED:
      return "other libraries";
    case DT_INIT:
    case DT_FINI:
    case DT_INIT_ARRAYSZ:
    case DT_FINI_ARRAYSZ:
    case DT_PREINIT_ARRAYSZ:
      if (entry.d_un.d_val != 0)
        return "initialisers";
      break;
    case DT_SYMTAB:
      symbols = entry.d_un.d_ptr;
      break;
    case DT_HASH:
      hash = entry.d_un.d_ptr;
      break;
    case DT_GNU_HASH:
      gnuHash = entry.d_un.d_ptr;
      break;
    }
  }
  // Number of leading symbols that may be undefined: all of them by the old
  // hash table, those outside the table by the new one.
  uint32_t count = 0;
  if (hash && !readAt(image, hash + 4, count))
    return "a hash table outside its segments";
  if (!hash && gnuHash && !readAt(image, gnuHash + 4, count))
    return "a hash table outside its segments";
  for (uint64_t i = 1; i < count; ++i) {
    Elf64_Sym symbol;
    if (!readAt(image, symbols + i * sizeof symbol, symbol))
      return "a symbol table outside its segments";
    if (symbol.st_shndx == SHN_UNDEF)
      return "undefined symbols";
  }
  return nullptr;
}

} // namespace

Expected<std::unique_ptr<ElfImage>>
ElfImage::load(std::span<const std::byte> elf, const std::string &where) {
  auto refuse = [&](std::string why) {
    return userError("code section " + std::move(why), where,
                     "compile the model again");
  };
  Elf64_Ehdr header;
  if (!readAt(elf, 0, header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return refuse("is not an ELF object");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN ||
      header.e_machine != EM_X86_64)
    return refuse("is not a shared object for x86-64");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > kMaxSegments)
    return refuse("has a bad program header table");

  std::vector<Elf64_Phdr> segments(header.e_phnum);
  uint64_t size = 0, previousEnd = 0;
  const Elf64_Phdr *dynamic = nullptr;
  auto isRelro = [&](const Elf64_Phdr &load) {
    for (const Elf64_Phdr &s : segments)
      if (s.p_type == PT_GNU_RELRO && s.p_vaddr <= load.p_vaddr &&
          s.p_vaddr + s.p_memsz >= load.p_vaddr + load.p_memsz)
        return true;
    return false;
  };
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr &s = segments[i];
    if (!readAt(elf, header.e_phoff + i * sizeof(Elf64_Phdr), s))
      return refuse("has a program header table outside the section");
    if (!inside(s.p_vaddr, s.p_memsz, kMaxImage))
      return refuse("has a segment outside its image");
  }
  for (const Elf64_Phdr &s : segments) {
    if (s.p_type == PT_TLS)
      return refuse("needs thread-local storage");
    if (s.p_type == PT_INTERP)
      return refuse("needs an interpreter");
    if (s.p_type == PT_DYNAMIC)
      dynamic = &s;
    if (s.p_type != PT_LOAD)
      continue;
    if (!inside(s.p_offset, s.p_filesz, elf.size()) || s.p_filesz > s.p_memsz)
      return refuse("has a segment outside the section");
    // One page belongs to one segment, so that each keeps its own protection.
    if (s.p_vaddr / kPage * kPage < previousEnd)
      return refuse("has segments that share a page");
    if ((s.p_flags & PF_W) && !isRelro(s))
      return refuse("has writable data");
    previousEnd = alignUp(s.p_vaddr + s.p_memsz, kPage);
    size = previousEnd;
  }
  if (size == 0)
    return refuse("has no segments to load");

  std::unique_ptr<ElfImage> image(new ElfImage(nullptr, 0));
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return deviceError("cannot map " + std::to_string(size) +
                           " bytes for code: " + systemErrorText(errno),
                       where);
  image->base = static_cast<std::byte *>(memory);
  image->size = size;
  for (const Elf64_Phdr &s : segments)
    if (s.p_type == PT_LOAD)
      memcpy(image->base + s.p_vaddr, elf.data() + s.p_offset, s.p_filesz);
  if (dynamic)
    if (const char *what = needsLinker({image->base, size}, *dynamic))
      return refuse(std::string("needs a dynamic linker: it has ") + what);

  // Gaps between segments stay without any permission.
  if (mprotect(memory, size, PROT_NONE) != 0)
    return deviceError("cannot protect code: " + systemErrorText(errno), where);
  for (const Elf64_Phdr &s : segments) {
    if (s.p_type != PT_LOAD || s.p_memsz == 0)
      continue;
    uint64_t begin = s.p_vaddr / kPage * kPage;
    bool executes = s.p_flags & PF_X;
    if (mprotect(image->base + begin,
                 alignUp(s.p_vaddr + s.p_memsz, kPage) - begin,
                 executes ? PROT_READ | PROT_EXEC : PROT_READ) != 0)
      return deviceError("cannot make code executable: " +
                             systemErrorText(errno),
                         where, "allow this process to map executable memory");
    if (executes)
      image->executable.push_back({s.p_vaddr, s.p_vaddr + s.p_filesz});
  }
  return image;
}

ElfImage::~ElfImage() {
  if (base)
    munmap(base, size);
}

const void *ElfImage::entry(uint64_t offset) const {
  for (Range r : executable)
    if (offset >= r.begin && offset < r.end)
      return base + offset;
  return nullptr;
}

} // namespace knapper
