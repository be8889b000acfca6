// Writes a .knap file: constants streamed as they are made, code and other
// sections, then the header. The counterpart of Artefact.
#pragma once

#include "runtime/base/OutputFile.h"
#include "runtime/artefact/artefact_generated.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// Where a constant lies: what a constant Buffer of the header records.
struct WrittenConstant {
  uint64_t offset = 0; // from the start of the constants section
  uint64_t bytes = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> pieces; // see ConstantHash

  void recordIn(fb::BufferT &buffer) const {
    buffer.constant_offset = offset;
    buffer.constant_bytes = bytes;
    buffer.constant_hash = hash;
    buffer.piece_hashes = pieces;
  }
};

/// Constants reach the file in pieces of whole huge pages: where the system
/// keeps such pieces in huge pages, the mapped weights are read up to twice as
/// fast.
///
/// Usage: create or createInMemory, addConstant (any number, any thread),
/// addCode / addSection, finish. Nothing appears under the final name before
/// finish; an abandoned writer removes its temporary file. Failed system calls
/// are DeviceErrors, a folder that cannot be written a UserError.
class ArtefactWriter {
public:
  /// The file is assembled beside `path` and renamed to it by finish.
  static Expected<std::unique_ptr<ArtefactWriter>> create(std::string path);
  /// The file lives in anonymous memory (`takeFd` after finish).
  static Expected<std::unique_ptr<ArtefactWriter>> createInMemory();
  ~ArtefactWriter();
  ArtefactWriter(const ArtefactWriter &) = delete;
  ArtefactWriter &operator=(const ArtefactWriter &) = delete;

  /// Writes one constant at the next 64-byte boundary. Thread-safe: hashing and
  /// writing run concurrently; which offset a constant gets depends on the
  /// order of calls. Use reserveConstant first where the file must not depend
  /// on scheduling.
  Expected<WrittenConstant> addConstant(std::span<const std::byte> bytes);

  /// Takes the space of a constant now, for writeConstant from any thread
  /// later; returns its offset in the constants section.
  uint64_t reserveConstant(uint64_t bytes);
  /// Fills a reserved constant; `bytes` is all of it.
  Expected<WrittenConstant> writeConstant(uint64_t offset,
                                          std::span<const std::byte> bytes);

  /// One ELF shared object: the code of header.targets[target]. Copied.
  void addCode(uint32_t target, std::span<const std::byte> elf);
  /// Any other section (report: JSON text, of program `target`). Copied.
  void addSection(fb::SectionKind kind, std::span<const std::byte> bytes,
                  uint32_t target = 0);

  /// Completes the file: header.sections is filled here, everything else is
  /// the caller's. Returns the size of the file. Call once.
  Expected<uint64_t> finish(fb::ArtefactT header);

  /// In-memory files only, after finish: the descriptor, now the caller's.
  int takeFd();

private:
  ArtefactWriter(int memory, std::optional<OutputFile> file);
  /// Writes what is whole pieces; the rest waits in `pieces` for the other
  /// constants that share its piece.
  Status writeAt(uint64_t offset, const void *data, uint64_t bytes);
  Status writeNow(uint64_t offset, const void *data, uint64_t bytes);
  Status flush();

  struct Pending {
    fb::SectionKind kind;
    uint32_t target;
    std::vector<std::byte> bytes;
  };
  int memory; // the anonymous file, or -1
  std::optional<OutputFile> file;
  std::mutex mutex; // guards constantsEnd and pieces
  uint64_t constantsEnd = 0;
  struct Piece {
    std::vector<std::byte> bytes;
    uint64_t filled = 0; // gaps that alignment leaves are never filled
  };
  std::map<uint64_t, Piece> pieces; // by offset in the file, / kHugePageBytes
  std::vector<Pending> pending;
};

} // namespace knapper
