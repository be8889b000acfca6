#include "targets/cpu/Link.h"

#include "lld/Common/Driver.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace knapper {
namespace {

/// An unnamed file in memory that lld can open by a path.
class MemoryFile {
public:
  explicit MemoryFile(const char *name) : fd(memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd >= 0)
      close(fd);
  }
  MemoryFile(MemoryFile &&other) : fd(std::exchange(other.fd, -1)) {}

  bool write(const std::string &bytes) {
    size_t at = 0;
    while (fd >= 0 && at < bytes.size()) {
      ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
      if (n <= 0)
        return false;
      at += n;
    }
    return fd >= 0;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
};

/// A private folder for the one file that lld insists on creating itself.
class OutputFolder {
public:
  OutputFolder() {
    std::error_code error;
    path = (std::filesystem::temp_directory_path(error) / "knapper-XXXXXX")
               .string();
    made = !error && mkdtemp(path.data());
  }
  ~OutputFolder() {
    std::error_code error;
    if (made)
      std::filesystem::remove_all(path, error);
  }
  OutputFolder(const OutputFolder &) = delete;
  bool made = false;
  std::string path;
};

/// Why the image cannot be mapped as it is; empty if it can.
std::string check(const llvm::object::ELF64LEFile &file) {
  auto headers = file.program_headers();
  if (!headers)
    return llvm::toString(headers.takeError());
  for (const auto &header : *headers) {
    if (header.p_type == llvm::ELF::PT_TLS)
      return "has thread-local data";
    if (header.p_type == llvm::ELF::PT_LOAD &&
        (header.p_flags & llvm::ELF::PF_W))
      return "has writable data";
  }
  auto sections = file.sections();
  if (!sections)
    return llvm::toString(sections.takeError());
  for (const auto &section : *sections)
    if ((section.sh_type == llvm::ELF::SHT_RELA ||
         section.sh_type == llvm::ELF::SHT_REL ||
         section.sh_type == llvm::ELF::SHT_RELR) &&
        section.sh_size)
      return "needs relocations at load";
  return {};
}

} // namespace

Expected<LinkedImage> linkImage(std::span<const std::string> objects,
                                std::span<const std::string> roots) {
  std::vector<MemoryFile> files;
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-z",
                                        "defs",
                                        "-z",
                                        "text",
                                        "-z",
                                        "separate-code",
                                        "-z",
                                        "rodynamic",
                                        "-z",
                                        "norelro",
                                        "-z",
                                        "max-page-size=4096",
                                        "--gc-sections",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--threads=1",
                                        "-Bsymbolic"};
  for (const std::string &root : roots)
    arguments.push_back("--undefined=" + root);
  OutputFolder folder;
  if (!folder.made)
    return deviceError("cannot create a temporary folder for linking: " +
                           std::string(strerror(errno)),
                       "", "set TMPDIR to a folder that can be written");
  std::string output = folder.path + "/image";
  arguments.insert(arguments.end(), {"-o", output});
  for (const std::string &object : objects) {
    files.emplace_back("object");
    if (!files.back().write(object))
      return deviceError("cannot hold an object file in memory: " +
                         std::string(strerror(errno)));
    arguments.push_back(files.back().path());
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());

  std::string messages;
  {
    // lld keeps one state a process.
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    llvm::raw_string_ostream stream(messages);
    lld::Result result =
        lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0)
      return internalError("linking kernels failed: " + messages);
  }

  LinkedImage image;
  auto bytes = llvm::MemoryBuffer::getFile(output);
  if (!bytes)
    return deviceError("cannot read the linked image: " +
                       bytes.getError().message());
  image.elf = (*bytes)->getBuffer().str();
  auto file = llvm::object::ELF64LEFile::create(image.elf);
  if (!file)
    return internalError("linked image: " + llvm::toString(file.takeError()));
  if (std::string why = check(*file); !why.empty())
    return internalError("linked image " + why);
  auto sections = file->sections();
  if (!sections)
    return internalError(llvm::toString(sections.takeError()));
  std::map<std::string, uint64_t> all;
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_SYMTAB)
      continue;
    auto symbols = file->symbols(&section);
    auto names = file->getStringTableForSymtab(section);
    if (!symbols || !names)
      return internalError("linked image has a broken symbol table");
    for (const auto &symbol : *symbols)
      if (symbol.getType() == llvm::ELF::STT_FUNC)
        if (auto name = symbol.getName(*names))
          all[name->str()] = symbol.st_value;
  }
  for (const std::string &root : roots) {
    auto found = all.find(root);
    if (found == all.end())
      return internalError("kernel '" + root + "' is not in the linked image");
    image.entries[root] = found->second;
  }
  return image;
}

} // namespace knapper
