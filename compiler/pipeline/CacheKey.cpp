#include "compiler/pipeline/CacheKey.h"
#include "compiler/kernels/UserKernels.h"
#include "compiler/pipeline/TensorText.h"
#include "knapper/knapper.h"
#include "runtime/artefact/WholeFiles.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace knapper {
namespace {

std::string hashText(const void *data, size_t size) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(data, size));
  std::string hex;
  for (unsigned char byte : digest.digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

/// The state of an open file whose hash takes a while; else of none.
FileState stateOf(const InputFile &file) {
  constexpr off_t large = 16 << 20;
  struct stat info = {};
  if (fstat(file.descriptor(), &info) != 0 || info.st_size < large)
    return {};
  return FileState(info);
}

/// Of large files once in each of their states: the weights of a model are
/// read by every start otherwise. `always`: also of those whose hash is kept,
/// which must be the same.
Expected<std::string> hashFile(const std::string &path, bool always) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  constexpr const char *folder = "hashes";
  FileState state = stateOf(file);
  std::string kept = state.keptLine(folder);
  if (!always && !kept.empty())
    return kept;
  auto buffer =
      llvm::MemoryBuffer::getOpenFile(file.descriptor(), path, file.bytes(),
                                      /*RequiresNullTerminator=*/false);
  if (buffer.getError() == std::errc::not_enough_memory)
    return deviceError("cannot be read: " + buffer.getError().message(), path,
                       "free memory");
  if (!buffer)
    return userError("cannot be read: " + buffer.getError().message(), path,
                     "check the path and its permissions");
  std::string hash =
      hashText((*buffer)->getBufferStart(), (*buffer)->getBufferSize());
  bool unwritten = stateOf(file) == state;
  if (unwritten && !kept.empty() && kept != hash)
    return userError("reads otherwise than when it was hashed first, and no "
                     "write since then is noted: its medium may be damaged",
                     path,
                     "copy it again from its source, or touch it if a program "
                     "wrote it through a shared mapping");
  if (unwritten)
    state.keepLine(folder, hash);
  return hash;
}

/// The build-id of the program or library that this code is in, or how its file
/// looks: two builds of one version are two compilers.
struct BuildQuery {
  std::string text;
};
int findBuild(dl_phdr_info *info, size_t, void *argument) {
  auto address = reinterpret_cast<uintptr_t>(&findBuild);
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    here |= segment.p_type == PT_LOAD && address >= begin &&
            address < begin + segment.p_memsz;
  }
  if (!here)
    return 0;
  std::string &text = static_cast<BuildQuery *>(argument)->text;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE)
      continue;
    auto *at =
        reinterpret_cast<const char *>(info->dlpi_addr + segment.p_vaddr);
    const char *end = at + segment.p_memsz;
    while (end - at >= ptrdiff_t(sizeof(ElfW(Nhdr)))) {
      ElfW(Nhdr) note;
      memcpy(&note, at, sizeof note);
      const char *name = at + sizeof note;
      const char *data = name + (note.n_namesz + 3) / 4 * 4;
      if (data > end || note.n_descsz > size_t(end - data))
        break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          memcmp(name, "GNU", 4) == 0)
        text = hashText(data, note.n_descsz);
      at = data + (note.n_descsz + 3) / 4 * 4;
    }
  }
  struct stat status;
  const char *path =
      info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
  if (text.empty() && stat(path, &status) == 0) {
    int64_t look[3] = {status.st_size, status.st_mtim.tv_sec,
                       status.st_mtim.tv_nsec};
    text = hashText(look, sizeof look);
  }
  return 1;
}

std::string compilerText() {
  static const std::string text = [] {
    BuildQuery query;
    dl_iterate_phdr(findBuild, &query);
    return cat("knapper ", knapper_version(), " build ",
               query.text.substr(0, 16));
  }();
  return text;
}

/// Options that leave the artefact as it is, or whose path does.
bool changesNothing(std::string_view name) {
  static constexpr std::string_view names[] = {
      "threads",      "records",     "kernels",     "stop-after",  "start-from",
      "model-format", "print-after", "dump-dir",    "verify-each", "cache",
      "cache-dir",    "cache-bytes", "verify-files"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string textOf(const std::string &value) {
  std::string text; // as lists: spaces mean nothing
  for (const std::string &part : splitList(value))
    text += (text.empty() ? "" : ",") + part;
  return text;
}
std::string textOf(int64_t value) { return std::to_string(value); }
std::string textOf(bool value) { return value ? "true" : "false"; }

} // namespace

Expected<bool> isCacheable(const CompileInput &input, const Options &options) {
  if (!options.cache || !options.stopAfter.empty() ||
      !options.startFrom.empty() || !options.printAfter.empty() ||
      !options.dumpDir.empty() || options.verifyEach)
    return false;
  ASSIGN_OR_RETURN(bool text, isText(input, options));
  return !text || !input.dataFiles.empty() || input.namesNoFile;
}

Expected<CacheKey> cacheKey(const CompileInput &input, const Options &options) {
  std::vector<std::string> files = input.dataFiles;
  std::string frontEndName = "mlir";
  ASSIGN_OR_RETURN(bool text, isText(input, options));
  if (!text) {
    ASSIGN_OR_RETURN(const FrontEnd *frontEnd, frontEndOf(input, options));
    ASSIGN_OR_RETURN(files, otherFilesOf(*frontEnd, modelOf(input)));
    frontEndName = frontEnd->name();
  }
  CacheKey key;
  if (input.path.empty()) {
    key.fields.push_back(
        {"model", hashText(input.bytes.data(), input.bytes.size())});
  } else {
    ASSIGN_OR_RETURN(std::string hash,
                     hashFile(input.path, options.verifyFiles));
    key.fields.push_back({"model", std::move(hash)});
  }
  std::string data; // the names are part of the model
  for (const std::string &path : files) {
    ASSIGN_OR_RETURN(std::string hash, hashFile(path, options.verifyFiles));
    data += (data.empty() ? "" : " ") + hash;
  }
  key.fields.push_back({"external-data", std::move(data)});
  // Two front ends may read the same bytes.
  key.fields.push_back({"front-end", std::move(frontEndName)});
  key.fields.push_back({"compiler", compilerText()});
  if (!options.records.empty()) { // what it says, not where it lies
    ASSIGN_OR_RETURN(std::string hash,
                     hashFile(options.records, options.verifyFiles));
    key.fields.push_back({"records", std::move(hash)});
  }
  if (input.userKernels) {
    std::string text = userKernelsText(*input.userKernels);
    key.fields.push_back({"kernels", hashText(text.data(), text.size())});
  }
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP)                       \
  if (!changesNothing(NAME))                                                   \
    key.fields.push_back({NAME, textOf(options.FIELD)});
#include "compiler/options/Options.def"
#undef OPTION
  // The artefact says what it was made from.
  key.fields.push_back({"name", input.name()});
  return key;
}

} // namespace knapper
