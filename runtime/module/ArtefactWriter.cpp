#include "runtime/module/ArtefactWriter.h"

#include "runtime/base/Checked.h"
#include "runtime/base/SystemError.h"
#include "runtime/module/Format.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace knapper {
namespace {

Error writeError(const std::string &path, int number) {
  std::string what = "cannot write: " + systemErrorText(number);
  if (number == ENOSPC || number == EDQUOT)
    return deviceError(what, path, "free some space on this file system");
  if (number == EACCES || number == ENOENT || number == EROFS ||
      number == ENOTDIR || number == EISDIR || number == ENAMETOOLONG)
    return userError(what, path, "give a path in a folder that can be written");
  return deviceError(what, path);
}

} // namespace

ArtefactWriter::ArtefactWriter(int fd, std::string path, std::string temporary)
    : fd(fd), path(std::move(path)), temporary(std::move(temporary)) {}

ArtefactWriter::~ArtefactWriter() {
  if (fd >= 0)
    close(fd);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

static std::string temporaryName(const std::string &path) {
  static std::atomic<unsigned> counter{0};
  return path + "." + std::to_string(getpid()) + "." +
         std::to_string(counter++) + ".tmp";
}

/// A file without a name in the folder of `path`: a process that is ended
/// leaves nothing behind. -1 where that is not possible.
static int openNameless(const std::string &path) {
  if (access("/proc/self/fd", X_OK) != 0)
    return -1; // no way to give it a name
  size_t slash = path.rfind('/');
  std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

Expected<std::unique_ptr<ArtefactWriter>>
ArtefactWriter::create(std::string path) {
  if (int fd = openNameless(path); fd >= 0)
    return std::unique_ptr<ArtefactWriter>(
        new ArtefactWriter(fd, std::move(path), {}));
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = temporaryName(path);
    int fd =
        open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
      return std::unique_ptr<ArtefactWriter>(
          new ArtefactWriter(fd, std::move(path), std::move(temporary)));
    if (errno != EEXIST)
      return writeError(path, errno);
  }
  return writeError(path, EEXIST);
}

Expected<std::unique_ptr<ArtefactWriter>> ArtefactWriter::createInMemory() {
  int fd = memfd_create("knapper", MFD_CLOEXEC);
  if (fd < 0)
    return writeError("memory", errno);
  return std::unique_ptr<ArtefactWriter>(new ArtefactWriter(fd, {}, {}));
}

Status ArtefactWriter::writeAt(uint64_t offset, const void *data,
                               uint64_t bytes) {
  auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return writeError(path.empty() ? "memory" : path,
                        written < 0 ? errno : ENOSPC);
    from += written;
    offset += written;
    bytes -= written;
  }
  return success();
}

uint64_t ArtefactWriter::reserveConstant(uint64_t bytes) {
  std::lock_guard lock(mutex);
  uint64_t offset = alignUp(constantsEnd, kConstantAlignment);
  constantsEnd = offset + bytes;
  return offset;
}

Expected<WrittenConstant>
ArtefactWriter::writeConstant(uint64_t offset,
                              std::span<const std::byte> bytes) {
  // The constants section comes first in the file, right after the prelude.
  if (Status s =
          writeAt(kSectionAlignment + offset, bytes.data(), bytes.size());
      !s)
    return s.takeError();
  return WrittenConstant{offset, bytes.size(),
                         hashBytes(bytes.data(), bytes.size())};
}

Expected<WrittenConstant>
ArtefactWriter::addConstant(std::span<const std::byte> bytes) {
  return writeConstant(reserveConstant(bytes.size()), bytes);
}

void ArtefactWriter::addCode(uint32_t target, std::span<const std::byte> elf) {
  pending.push_back({fb::SectionKind::code, target, {elf.begin(), elf.end()}});
}

void ArtefactWriter::addSection(fb::SectionKind kind,
                                std::span<const std::byte> bytes) {
  pending.push_back({kind, 0, {bytes.begin(), bytes.end()}});
}

Expected<uint64_t> ArtefactWriter::finish(fb::ArtefactT header) {
  uint64_t end = kSectionAlignment;
  header.sections.clear();
  auto record = [&](fb::SectionKind kind, uint32_t target, uint64_t bytes,
                    uint64_t hash) {
    auto section = std::make_unique<fb::SectionT>();
    section->kind = kind;
    section->target = target;
    section->offset = end;
    section->bytes = bytes;
    section->hash = hash;
    header.sections.push_back(std::move(section));
    end = alignUp(end + bytes, kSectionAlignment);
  };
  if (constantsEnd > 0)
    record(fb::SectionKind::constants, 0, constantsEnd, 0);
  for (const Pending &p : pending) {
    if (Status s = writeAt(end, p.bytes.data(), p.bytes.size()); !s)
      return s.takeError();
    record(p.kind, p.target, p.bytes.size(),
           hashBytes(p.bytes.data(), p.bytes.size()));
  }

  flatbuffers::FlatBufferBuilder builder(64 * 1024);
  builder.Finish(fb::Artefact::Pack(builder, &header),
                 fb::ArtefactIdentifier());
  Prelude prelude = {};
  memcpy(prelude.magic, kMagic, sizeof kMagic);
  prelude.format = kFormatVersion;
  prelude.headerOffset = end;
  prelude.headerBytes = builder.GetSize();
  prelude.headerHash = hashBytes(builder.GetBufferPointer(), builder.GetSize());
  if (Status s = writeAt(end, builder.GetBufferPointer(), builder.GetSize());
      !s)
    return s.takeError();
  if (Status s = writeAt(0, &prelude, sizeof prelude); !s)
    return s.takeError();
  if (!path.empty()) {
    // A link cannot replace a file, a rename can.
    std::string self = "/proc/self/fd/" + std::to_string(fd);
    for (int attempt = 0; temporary.empty(); ++attempt) {
      std::string name = temporaryName(path);
      if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(),
                 AT_SYMLINK_FOLLOW) == 0)
        temporary = std::move(name);
      else if (errno != EEXIST || attempt == 100)
        return writeError(path, errno);
    }
    if (rename(temporary.c_str(), path.c_str()) != 0)
      return writeError(path, errno);
    temporary.clear();
  }
  return end + builder.GetSize();
}

int ArtefactWriter::takeFd() { return std::exchange(fd, -1); }

} // namespace knapper
