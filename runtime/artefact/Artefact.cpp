#include "runtime/artefact/Artefact.h"

#include "runtime/base/Checked.h"
#include "runtime/base/DType.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"
#include "runtime/base/Threads.h"
#include "runtime/artefact/Format.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace knapper {
namespace {

constexpr uint64_t kMaxHeader = uint64_t(256) << 20;

Error fileError(const std::string &name, const char *verb, int number) {
  std::string what = cat("cannot ", verb, ": ", systemErrorText(number));
  if (number == ENOMEM)
    return deviceError(what, name);
  return userError(what, name, "check the path and its permissions");
}

std::string hex(uint64_t value) {
  char buffer[20];
  snprintf(buffer, sizeof buffer, "0x%llx",
           static_cast<unsigned long long>(value));
  return buffer;
}

/// Maps a file for reading; MAP_FAILED and errno where that fails. A large one
/// begins at the place of a huge page: so parts of the file that the system
/// keeps in huge pages are mapped by them.
void *mapFile(int fd, uint64_t bytes) {
  constexpr uint64_t huge = kHugePageBytes;
  void *anywhere = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes < huge || anywhere == MAP_FAILED)
    return anywhere;
  if (reinterpret_cast<uint64_t>(anywhere) % huge != 0) {
    void *room = mmap(nullptr, bytes + huge, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
      return anywhere;
    uint64_t begin = reinterpret_cast<uint64_t>(room);
    uint64_t aligned = alignUp(begin, huge),
             end = alignUp(aligned + bytes, 4096);
    void *there = mmap(reinterpret_cast<void *>(aligned), bytes, PROT_READ,
                       MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (there == MAP_FAILED) {
      munmap(room, bytes + huge);
      return anywhere;
    }
    munmap(anywhere, bytes);
    if (aligned != begin)
      munmap(room, aligned - begin);
    if (uint64_t last = alignUp(begin + bytes + huge, 4096); end != last)
      munmap(reinterpret_cast<void *>(end), last - end);
    anywhere = there;
  }
  madvise(anywhere, bytes, MADV_HUGEPAGE); // a wish: no error if refused
  return anywhere;
}

/// Less is hashed in the time that looking for a mark takes.
constexpr uint64_t kWorthMarking = 16 << 20;

struct FileDescriptor {
  int fd;
  ~FileDescriptor() { close(fd); }
};

} // namespace

Expected<std::shared_ptr<const Artefact>>
Artefact::load(const std::string &path, const ArtefactLoadOptions &options) {
  // A pipe without a writer would be waited for.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fileError(path, "open", errno);
  FileDescriptor file{fd};
  return loadFd(fd, path, options);
}

Expected<std::shared_ptr<const Artefact>>
Artefact::loadFd(int fd, const std::string &name,
                 const ArtefactLoadOptions &options) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return fileError(name, "read", errno);
  if (!S_ISREG(info.st_mode))
    return userError("not a regular file", name, "give a .knap file");
  std::shared_ptr<Artefact> artefact(new Artefact);
  artefact->fileName = name;
  if (info.st_size > 0) {
    void *memory = mapFile(fd, info.st_size);
    if (memory == MAP_FAILED)
      return fileError(name, "map", errno);
    artefact->base = static_cast<const std::byte *>(memory);
    artefact->size = info.st_size;
    artefact->state = FileState(info);
  }
  if (Status s = artefact->verify(options); !s)
    return s.takeError();
  return std::shared_ptr<const Artefact>(std::move(artefact));
}

Expected<std::shared_ptr<const Artefact>>
Artefact::loadMemory(std::span<const std::byte> bytes,
                     const ArtefactLoadOptions &options) {
  std::shared_ptr<Artefact> artefact(new Artefact);
  artefact->fileName = "memory";
  if (!bytes.empty()) {
    void *memory = mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return deviceError(
          cat("cannot allocate ", bytes.size(),
              " bytes for the artefact: ", systemErrorText(errno)),
          "memory");
    memcpy(memory, bytes.data(), bytes.size());
    mprotect(memory, bytes.size(), PROT_READ);
    artefact->base = static_cast<const std::byte *>(memory);
    artefact->size = bytes.size();
  }
  if (Status s = artefact->verify(options); !s)
    return s.takeError();
  return std::shared_ptr<const Artefact>(std::move(artefact));
}

Artefact::~Artefact() {
  if (base)
    munmap(const_cast<std::byte *>(base), size);
}

Error Artefact::damaged(const void *at, std::string what) const {
  uint64_t offset = static_cast<const std::byte *>(at) - base;
  return userError(
      cat("the artefact is damaged at offset ", hex(offset), ": ", what),
      fileName, "compile the model again, or copy the file again");
}

Status Artefact::verify(const ArtefactLoadOptions &options) {
  Prelude prelude;
  if (size < sizeof prelude || memcmp(base, kMagic, sizeof kMagic) != 0)
    return userError("not a Knapper artefact: it does not begin with the "
                     "magic bytes (offset 0x0)",
                     fileName, "give a .knap file made by knapper compile");
  memcpy(&prelude, base, sizeof prelude);
  if (prelude.format != kFormatVersion)
    return userError(
        cat("the artefact has format ", prelude.format,
            " (offset 0x8), this runtime reads format ", kFormatVersion),
        fileName,
        prelude.format > kFormatVersion
            ? "use a newer runtime, or compile the model with this version"
            : "compile the model again with this version");
  if (prelude.flags != 0)
    return damaged(base + 12, cat("unknown flags ", hex(prelude.flags)));
  for (size_t i = 0; i < sizeof prelude.zero; ++i)
    if (prelude.zero[i] != 0)
      return damaged(base + 40 + i, "padding that is not zero");
  if (prelude.headerOffset % kSectionAlignment != 0 ||
      prelude.headerOffset < kSectionAlignment ||
      prelude.headerBytes > kMaxHeader ||
      !inside(prelude.headerOffset, prelude.headerBytes, size))
    return damaged(base + 16, cat("the header at ", hex(prelude.headerOffset),
                                  " of ", prelude.headerBytes,
                                  " bytes lies outside the file of ", size));
  const std::byte *header = base + prelude.headerOffset;
  if (hashBytes(header, prelude.headerBytes) != prelude.headerHash)
    return damaged(header, "the hash of the header does not match");
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(header),
                                 prelude.headerBytes);
  if (!fb::VerifyArtefactBuffer(verifier))
    return damaged(header, "the header is not a well-formed FlatBuffer");
  root = fb::GetArtefact(header);
  if (Status s = verifySections(); !s)
    return s;
  if (Status s = verifyKernels(); !s)
    return s;
  constantsTrusted =
      options.constants != ConstantChecks::beforeUse ||
      (constantBytes.size() >= kWorthMarking && state.isKnownWhole());
  if (options.constants != ConstantChecks::atLoad)
    return success();
  if (Status s = verifyConstants(options.threads); !s)
    return s;
  markWhole();
  return success();
}

void Artefact::markWhole() const {
  if (constantBytes.size() >= kWorthMarking)
    state.markWhole();
}

Status Artefact::verifySections() {
  uint32_t targets = count(root->targets());
  for (uint32_t i = 0; i < count(root->sections()); ++i) {
    const fb::Section *s = root->sections()->Get(i);
    if (s->kind() > fb::SectionKind::MAX)
      return damaged(
          s, cat("section ", i, " is of unknown kind ", unsigned(s->kind())));
    if (s->offset() % kSectionAlignment != 0 ||
        s->offset() < kSectionAlignment ||
        !inside(s->offset(), s->bytes(), size))
      return damaged(s,
                     cat("section ", i, " at ", hex(s->offset()), " of ",
                         s->bytes(), " bytes lies outside the file of ", size));
    if (s->kind() == fb::SectionKind::code && s->target() >= targets)
      return damaged(s, cat("section ", i, " is code for target ", s->target(),
                            " of ", targets));
    std::span<const std::byte> bytes(base + s->offset(), s->bytes());
    if (s->kind() == fb::SectionKind::constants) {
      if (constantBytes.data())
        return damaged(s, "a second constants section");
      constantBytes = bytes;
      continue;
    }
    // The model itself is read by few; whoever does compares its hash.
    if (s->kind() == fb::SectionKind::source_map)
      continue;
    if (hashBytes(bytes.data(), bytes.size()) != s->hash())
      return damaged(bytes.data(), cat("the hash of section ", i, " (",
                                       fb::EnumNameSectionKind(s->kind()),
                                       ") does not match"));
  }
  return success();
}

Status Artefact::verifyKernels() {
  uint32_t targets = count(root->targets());
  for (uint32_t i = 0; i < count(root->kernels()); ++i) {
    const fb::Kernel *kernel = root->kernels()->Get(i);
    if (count(kernel->codes()) > targets)
      return damaged(kernel, cat("kernel ", i, " has ", count(kernel->codes()),
                                 " codes for ", targets, " targets"));
    for (uint32_t c = 0; c < count(kernel->codes()); ++c) {
      const fb::KernelCode *code = kernel->codes()->Get(c);
      if (code->target() >= targets)
        return damaged(code, cat("kernel ", i, " has code for target ",
                                 code->target(), " of ", targets));
      if (this->code(code->target()).empty())
        return damaged(code,
                       cat("kernel ", i, " has code for target ",
                           code->target(), ", which has no code section"));
    }
  }
  return success();
}

bool ConstantPiece::isWhole() const { return hashBytes(data, bytes) == hash; }

Status Artefact::addPieces(const fb::Buffer &constant,
                           std::vector<ConstantPiece> &pieces) const {
  uint64_t bytes = constant.constant_bytes();
  if (!inside(constant.constant_offset(), bytes, constantBytes.size()))
    return damaged(&constant, cat("constant '", text(constant.name()),
                                  "' lies outside the constants section"));
  const std::byte *data = constantBytes.data() + constant.constant_offset();
  const auto *hashes = constant.piece_hashes();
  if (count(hashes) == 0) {
    pieces.push_back({data, bytes, constant.constant_hash(), &constant});
    return success();
  }
  if (count(hashes) != bytes / kHashPieceBytes + (bytes % kHashPieceBytes != 0))
    return damaged(&constant,
                   cat("constant '", text(constant.name()), "' of ", bytes,
                       " bytes has ", count(hashes), " hashes"));
  for (uint32_t i = 0; i < count(hashes); ++i) {
    uint64_t at = i * kHashPieceBytes;
    pieces.push_back({data + at, std::min(kHashPieceBytes, bytes - at),
                      hashes->Get(i), &constant});
  }
  return success();
}

Status Artefact::checkPieces(std::span<const ConstantPiece> pieces,
                             int32_t threads) const {
  std::atomic<size_t> next{0}, firstDamaged{pieces.size()};
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < firstDamaged.load();)
      if (!pieces[i].isWhole()) {
        size_t first = firstDamaged.load();
        while (i < first && !firstDamaged.compare_exchange_weak(first, i)) {
        }
      }
  };
  // A thread is worth some megabytes.
  size_t worth = 1 + pieces.size() / 8;
  runOnThreads(std::min<size_t>(worth, std::max(threads, 1)), work);
  if (firstDamaged == pieces.size())
    return success();
  const ConstantPiece &piece = pieces[firstDamaged];
  return damaged(piece.data,
                 cat("the hash of constant '", text(piece.constant->name()),
                     "' does not match"));
}

Status Artefact::verifyConstants(int32_t threads) {
  std::vector<ConstantPiece> pieces;
  for (uint32_t p = 0; p < count(root->programs()); ++p) {
    const fb::Program *program = root->programs()->Get(p);
    for (uint32_t i = 0; i < count(program->buffers()); ++i)
      if (const fb::Buffer *b = program->buffers()->Get(i);
          b->kind() == fb::BufferKind::constant)
        if (Status s = addPieces(*b, pieces); !s)
          return s;
  }
  return checkPieces(pieces, threads);
}

std::span<const std::byte> Artefact::code(uint32_t target) const {
  return section(fb::SectionKind::code, target);
}

std::span<const std::byte> Artefact::section(fb::SectionKind kind,
                                             uint32_t target) const {
  for (uint32_t i = 0; i < count(root->sections()); ++i) {
    const fb::Section *s = root->sections()->Get(i);
    if (s->kind() == kind && s->target() == target)
      return {base + s->offset(), s->bytes()};
  }
  return {};
}

Status Artefact::save(const std::string &path) const {
  Expected<OutputFile> file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  // In whole huge pages, from memory that is there: so the file is kept in huge
  // pages too (see ArtefactWriter).
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.assign(base + at, base + std::min(size, at + kHugePageBytes));
    for (size_t done = 0; done < piece.size();) {
      ssize_t n =
          write(file->descriptor(), piece.data() + done, piece.size() - done);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return OutputFile::writeError(path, n < 0 ? errno : ENOSPC);
      done += n;
    }
  }
  return file->commit();
}

} // namespace knapper
