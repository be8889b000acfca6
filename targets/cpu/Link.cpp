#include "targets/cpu/Link.h"

#include "runtime/base/ForkMutex.h"

#include "lld/Common/Driver.h"
#include "llvm/Object/ELFObjectFile.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <system_error>
#include <thread>
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

/// Whether as many files can be opened as lld has open at one time.
bool hasDescriptors() {
  std::vector<MemoryFile> spare;
  for (int i = 0; i < 4; ++i)
    if (!spare.emplace_back("spare").write({}))
      return false;
  return true;
}

/// Where lld writes the image: a pipe that lld opens by a path. It writes
/// other files under a temporary name beside them, which a process that is
/// ended would leave there.
class ImagePipe {
public:
  ImagePipe() {
    if (pipe2(ends, O_CLOEXEC) != 0)
      return;
    try {
      reader = std::thread([this] { drain(); });
    } catch (const std::system_error &) {
      errno = EAGAIN;
    }
  }
  ~ImagePipe() {
    (void)finish();
    if (ends[0] >= 0)
      close(ends[0]);
  }
  ImagePipe(const ImagePipe &) = delete;
  bool made() const { return reader.joinable(); }
  std::string path() const {
    return "/proc/self/fd/" + std::to_string(ends[1]);
  }
  /// What was written, once lld has ended; empty when memory ran out.
  std::string finish() {
    if (ends[1] >= 0)
      close(std::exchange(ends[1], -1));
    ended = true;
    if (reader.joinable())
      reader.join();
    return std::move(bytes);
  }

private:
  void drain() noexcept {
    char buffer[65536];
    bool fits = true;
    pollfd input = {ends[0], POLLIN, 0};
    for (;;) {
      // Where memory ran out inside lld, its descriptor may have stayed open.
      bool last = ended;
      int ready = poll(&input, 1, 50);
      if (ready <= 0 && last)
        return;
      if (ready <= 0)
        continue;
      ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n == 0 || (n < 0 && errno != EINTR))
        return;
      try {
        if (n > 0 && fits)
          bytes.append(buffer, static_cast<size_t>(n));
      } catch (const std::bad_alloc &) {
        fits = false; // lld still has to get rid of the rest
        bytes.clear();
      }
    }
  }

  int ends[2] = {-1, -1};
  std::atomic<bool> ended = false; ///< nothing more is written
  std::string bytes;
  std::thread reader;
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

Expected<KernelImage> linkImage(std::span<const std::string> objects,
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
                                        "--no-dependent-libraries",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--threads=1",
                                        "-Bsymbolic"};
  for (const std::string &root : roots)
    arguments.push_back("--undefined=" + root);
  // lld keeps one state a process. A child made meanwhile would keep the pipe
  // open, too, and its reader waiting.
  std::unique_lock lock(forkMutex<KernelImage>());
  ImagePipe output;
  if (!output.made())
    return deviceError("cannot make a pipe for linking: " +
                       std::string(strerror(errno)));
  arguments.insert(arguments.end(), {"-o", output.path()});
  for (const std::string &object : objects) {
    files.emplace_back("object");
    if (!files.back().write(object))
      return deviceError("cannot hold an object file in memory: " +
                         std::string(strerror(errno)));
    arguments.push_back(files.back().path());
  }
  // lld takes a refusal for a defect of what it links.
  if (!hasDescriptors())
    return deviceError("cannot open files for linking: " +
                           std::string(strerror(EMFILE)),
                       "", "raise the limit of open files");
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  // What lld allocates for a thread lives as long as the thread does.
  lld::Result result{};
  std::exception_ptr thrown;
  try {
    std::thread([&] {
      try {
        result = lld::lldMain(pointers, stream, stream,
                              {{lld::Gnu, &lld::elf::link}});
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
  } catch (const std::system_error &) {
    return deviceError("cannot make a thread for linking: " +
                       std::string(strerror(EAGAIN)));
  }
  if (thrown)
    std::rethrow_exception(thrown);
  if (result.retCode != 0 &&
      llvm::StringRef(messages).contains(strerror(ENOMEM)))
    return deviceError("out of memory for linking kernels: " + messages, "",
                       "free memory, or raise this process's limit");
  if (result.retCode != 0)
    return internalError("linking kernels failed: " + messages);

  KernelImage image;
  image.code = output.finish();
  lock.unlock();
  if (image.code.empty())
    return deviceError("out of memory for the linked image");
  auto file = llvm::object::ELF64LEFile::create(image.code);
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
