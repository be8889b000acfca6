// A .knap file mapped into memory, with its outer structure verified: prelude,
// header, sections and their hashes, targets and kernels. What programs say is
// checked by Program::decode.
#pragma once

#include "runtime/artefact/WholeFiles.h"
#include "runtime/artefact/artefact_generated.h"
#include "runtime/base/Error.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// When the constants' hashes are compared. Only what is compared is known to
/// be whole; damage is a UserError.
enum class ConstantChecks : uint8_t {
  beforeUse, // each before the first launch that reads it; a device with memory
             // of its own reads all when a module is loaded. Not again where
             // the same state of the file was found whole (WholeFiles.h)
  atLoad,    // all of them, which reads all weights
  none,
};

struct ArtefactLoadOptions {
  ConstantChecks constants = ConstantChecks::beforeUse;
  int32_t threads = 1; // that hash at load
};

/// A piece of a constant and the hash that it must have.
struct ConstantPiece {
  const std::byte *data;
  uint64_t bytes, hash;
  const fb::Buffer *constant;
  bool isWhole() const;
};

/// Immutable after loading; any thread may read it. Everything handed out
/// (strings of the header, sections) lives as long as the Artefact. Nothing in
/// the file is trusted: damage is a UserError that names file and offset.
class Artefact {
public:
  /// Maps the file; nothing is copied, weights are not touched. The file must
  /// not be changed in place while it is loaded (replacing it by rename is
  /// safe).
  static Expected<std::shared_ptr<const Artefact>>
  load(const std::string &path, const ArtefactLoadOptions &options = {});
  /// Copies the bytes.
  static Expected<std::shared_ptr<const Artefact>>
  loadMemory(std::span<const std::byte> bytes,
             const ArtefactLoadOptions &options = {});
  /// Maps an open file, for instance ArtefactWriter::takeFd; the descriptor
  /// stays the caller's and may be closed afterwards. `name` is for messages.
  static Expected<std::shared_ptr<const Artefact>>
  loadFd(int fd, const std::string &name,
         const ArtefactLoadOptions &options = {});
  ~Artefact();
  Artefact(const Artefact &) = delete;
  Artefact &operator=(const Artefact &) = delete;

  const fb::Artefact &header() const { return *root; }
  /// Path, or "memory".
  const std::string &name() const { return fileName; }
  /// The whole file.
  std::span<const std::byte> bytes() const { return {base, size}; }
  /// The constants section; empty if there is none.
  std::span<const std::byte> constants() const { return constantBytes; }
  /// The code section of a target; empty if there is none.
  std::span<const std::byte> code(uint32_t target) const;
  /// The first section of a kind and index; empty if there is none.
  std::span<const std::byte> section(fb::SectionKind kind,
                                     uint32_t target = 0) const;

  /// Whether constants are still to be compared with their hashes before use.
  bool checksBeforeUse() const { return !constantsTrusted; }
  /// Appends the pieces of a constant of this file.
  Status addPieces(const fb::Buffer &constant,
                   std::vector<ConstantPiece> &pieces) const;
  /// Hashes all, on up to `threads` threads; damage is a UserError that names
  /// the first piece that is not whole.
  Status checkPieces(std::span<const ConstantPiece> pieces,
                     int32_t threads) const;

  /// Remembers that all constants were found whole, for later processes.
  void markWhole() const;

  /// A UserError about damage at `at`, a pointer into the file.
  Error damaged(const void *at, std::string what) const;

  /// Writes the file to `path`: atomically, never half of it.
  Status save(const std::string &path) const;

private:
  Artefact() = default;
  Status verify(const ArtefactLoadOptions &options);
  Status verifySections();
  Status verifyKernels();
  Status verifyConstants(int32_t threads);

  std::string fileName;
  const std::byte *base = nullptr;
  size_t size = 0;
  const fb::Artefact *root = nullptr;
  std::span<const std::byte> constantBytes;
  bool constantsTrusted = false;
  FileState state;
};

/// Number of entries; 0 for an absent vector.
template <typename V> uint32_t count(const V *vector) {
  return vector ? vector->size() : 0;
}
/// "" for an absent string.
inline const char *text(const flatbuffers::String *string) {
  return string ? string->c_str() : "";
}

} // namespace knapper
