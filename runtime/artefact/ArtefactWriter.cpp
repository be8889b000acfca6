#include "runtime/artefact/ArtefactWriter.h"

#include "runtime/base/Checked.h"
#include "runtime/artefact/Format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace knapper {

ArtefactWriter::ArtefactWriter(int memory, std::optional<OutputFile> file)
    : memory(memory), file(std::move(file)) {}

ArtefactWriter::~ArtefactWriter() {
  if (memory >= 0)
    close(memory);
}

Expected<std::unique_ptr<ArtefactWriter>>
ArtefactWriter::create(std::string path) {
  Expected<OutputFile> file = OutputFile::create(std::move(path));
  if (!file)
    return file.takeError();
  return std::unique_ptr<ArtefactWriter>(
      new ArtefactWriter(-1, std::move(*file)));
}

Expected<std::unique_ptr<ArtefactWriter>> ArtefactWriter::createInMemory() {
  int fd = memfd_create("knapper", MFD_CLOEXEC);
  if (fd < 0)
    return OutputFile::writeError("memory", errno);
  return std::unique_ptr<ArtefactWriter>(new ArtefactWriter(fd, {}));
}

Status ArtefactWriter::writeAt(uint64_t offset, const void *data,
                               uint64_t bytes) {
  auto *from = static_cast<const std::byte *>(data);
  while (bytes > 0) {
    uint64_t within = offset % kHugePageBytes;
    uint64_t part = std::min(bytes, kHugePageBytes - within);
    if (part == kHugePageBytes) {
      part = bytes / kHugePageBytes * kHugePageBytes;
      if (Status s = writeNow(offset, from, part); !s)
        return s;
    } else {
      std::unique_lock lock(mutex);
      uint64_t number = offset / kHugePageBytes;
      Piece &piece = pieces[number];
      if (piece.bytes.size() < within + part)
        piece.bytes.resize(within + part);
      memcpy(piece.bytes.data() + within, from, part);
      piece.filled += part;
      if (piece.filled == kHugePageBytes) {
        Piece whole = std::move(piece);
        pieces.erase(number);
        lock.unlock();
        if (Status s = writeNow(number * kHugePageBytes, whole.bytes.data(),
                                kHugePageBytes);
            !s)
          return s;
      }
    }
    from += part;
    offset += part;
    bytes -= part;
  }
  return success();
}

Status ArtefactWriter::flush() {
  for (auto &[number, piece] : pieces)
    if (Status s = writeNow(number * kHugePageBytes, piece.bytes.data(),
                            piece.bytes.size());
        !s)
      return s;
  pieces.clear();
  return success();
}

Status ArtefactWriter::writeNow(uint64_t offset, const void *data,
                                uint64_t bytes) {
  int fd = file ? file->descriptor() : memory;
  auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return OutputFile::writeError(file ? file->name() : "memory",
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
  ConstantHash hash = hashConstant(bytes.data(), bytes.size());
  return WrittenConstant{offset, bytes.size(), hash.hash,
                         std::move(hash.pieces)};
}

Expected<WrittenConstant>
ArtefactWriter::addConstant(std::span<const std::byte> bytes) {
  return writeConstant(reserveConstant(bytes.size()), bytes);
}

void ArtefactWriter::addCode(uint32_t target, std::span<const std::byte> elf) {
  pending.push_back({fb::SectionKind::code, target, {elf.begin(), elf.end()}});
}

void ArtefactWriter::addSection(fb::SectionKind kind,
                                std::span<const std::byte> bytes,
                                uint32_t target) {
  pending.push_back({kind, target, {bytes.begin(), bytes.end()}});
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
  if (Status s = flush(); !s)
    return s.takeError();
  if (file)
    if (Status s = file->commit(); !s)
      return s.takeError();
  return end + builder.GetSize();
}

int ArtefactWriter::takeFd() { return std::exchange(memory, -1); }

} // namespace knapper
