// The C++ runtime linked into our libraries finds unwind tables with
// _dl_find_object, which glibc has from 2.35 on; we run on older ones. This is
// the same answer from dl_iterate_phdr: slower, and exceptions are rare here.
#include <cstdint>
#include <link.h>

namespace {

/// struct dl_find_object of glibc 2.35, x86-64.
struct FoundObject {
  unsigned long long flags;
  void *mapStart;
  void *mapEnd;
  void *linkMap;
  void *ehFrame; // the PT_GNU_EH_FRAME segment
  unsigned long long reserved[7];
};

struct Query {
  uintptr_t address;
  FoundObject *found;
};

int look(dl_phdr_info *info, size_t, void *argument) {
  Query &query = *static_cast<Query *>(argument);
  uintptr_t start = UINTPTR_MAX, end = 0, ehFrame = 0;
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME)
      ehFrame = begin;
    if (segment.p_type != PT_LOAD)
      continue;
    here |= query.address >= begin && query.address < begin + segment.p_memsz;
    start = begin < start ? begin : start;
    end = begin + segment.p_memsz > end ? begin + segment.p_memsz : end;
  }
  if (!here || ehFrame == 0)
    return 0;
  *query.found = {};
  query.found->mapStart = reinterpret_cast<void *>(start);
  query.found->mapEnd = reinterpret_cast<void *>(end);
  query.found->ehFrame = reinterpret_cast<void *>(ehFrame);
  return 1;
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) int
knapper_find_object(void *address,
                    FoundObject *found) __asm__("_dl_find_object");

extern "C" int knapper_find_object(void *address, FoundObject *found) {
  Query query{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(look, &query) == 1 ? 0 : -1;
}
