// An .npz file is a zip archive of .npy files.
#include "runtime/base/Checked.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"
#include "tools/knapper/Array.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

namespace knapper::cli {
namespace {

template <typename T> T read(std::string_view bytes, size_t at) {
  T value = 0;
  if (inside(at, sizeof(T), bytes.size()))
    memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

Error damaged(const std::string &where, const char *what) {
  return userError(what, where, "save it again with numpy.savez");
}

struct ZipEntry {
  std::string_view name, packed;
  uint16_t method;
  uint32_t checksum;
  uint64_t size;
};

/// Sizes above 4 GiB are in an extra field, in the order of what is too large.
void readZip64(std::string_view extra, uint64_t &size, uint64_t &packed,
               uint64_t &offset) {
  while (extra.size() >= 4) {
    auto id = read<uint16_t>(extra, 0), length = read<uint16_t>(extra, 2);
    if (id == 1) {
      size_t at = 4;
      for (uint64_t *value : {&size, &packed, &offset})
        if (*value == UINT32_MAX) {
          *value = read<uint64_t>(extra, at);
          at += 8;
        }
      return;
    }
    extra.remove_prefix(std::min<size_t>(extra.size(), 4u + length));
  }
}

Expected<std::vector<ZipEntry>> readDirectory(std::string_view file,
                                              const std::string &where) {
  size_t end = file.rfind(std::string_view("PK\5\6", 4));
  if (end == std::string_view::npos || file.size() - end < 22)
    return damaged(where, "is not an .npz file, or is cut short");
  uint64_t count = read<uint16_t>(file, end + 10);
  uint64_t at = read<uint32_t>(file, end + 16);
  if (end >= 20 && file.substr(end - 20, 4) == std::string_view("PK\6\7", 4)) {
    uint64_t end64 = read<uint64_t>(file, end - 12);
    if (!inside(end64, 56, file.size()))
      return damaged(where, "has a directory outside the file");
    count = read<uint64_t>(file, end64 + 32);
    at = read<uint64_t>(file, end64 + 48);
  }
  std::vector<ZipEntry> entries;
  for (uint64_t i = 0; i < count; ++i) {
    if (!inside(at, 46, file.size()) ||
        file.substr(at, 4) != std::string_view("PK\1\2", 4))
      return damaged(where, "has a directory that is cut short");
    uint64_t packed = read<uint32_t>(file, at + 20);
    uint64_t size = read<uint32_t>(file, at + 24);
    uint64_t offset = read<uint32_t>(file, at + 42);
    uint64_t names = read<uint16_t>(file, at + 28);
    uint64_t extra = read<uint16_t>(file, at + 30);
    uint64_t comment = read<uint16_t>(file, at + 32);
    if (!inside(at + 46, names + extra + comment, file.size()))
      return damaged(where, "has a directory that is cut short");
    readZip64(file.substr(at + 46 + names, extra), size, packed, offset);
    if (!inside(offset, 30, file.size()))
      return damaged(where, "has an entry outside the file");
    uint64_t data = offset + 30 + read<uint16_t>(file, offset + 26) +
                    read<uint16_t>(file, offset + 28);
    if (!inside(data, packed, file.size()))
      return damaged(where, "has an entry outside the file");
    entries.push_back({file.substr(at + 46, names), file.substr(data, packed),
                       read<uint16_t>(file, at + 10),
                       read<uint32_t>(file, at + 16), size});
    at += 46 + names + extra + comment;
  }
  return entries;
}

Expected<std::string> inflateEntry(const ZipEntry &entry,
                                   const std::string &where) {
  // Deflate packs 1032 to one at best.
  if (entry.size / 1032 > entry.packed.size() + 1)
    return damaged(where, "has an entry of an impossible size");
  std::string content(entry.size, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return deviceError("out of memory", where);
  stream.next_in =
      reinterpret_cast<Bytef *>(const_cast<char *>(entry.packed.data()));
  stream.next_out = reinterpret_cast<Bytef *>(content.data());
  uint64_t in = entry.packed.size(), out = content.size();
  int code = Z_OK;
  while (code == Z_OK) { // its counters have 32 bits
    constexpr uint64_t most = 1u << 30;
    auto stepIn = static_cast<uInt>(std::min(in, most));
    auto stepOut = static_cast<uInt>(std::min(out, most));
    stream.avail_in = stepIn;
    stream.avail_out = stepOut;
    code = inflate(&stream, Z_NO_FLUSH);
    in -= stepIn - stream.avail_in;
    out -= stepOut - stream.avail_out;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || out != 0)
    return damaged(where, "has an entry that does not unpack");
  return content;
}

uint32_t checksumOf(uint32_t start, const void *data, size_t size) {
  return static_cast<uint32_t>(
      crc32_z(start, static_cast<const Bytef *>(data), size));
}

template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

/// A file that takes its name when it is complete.
class ArrayFile {
public:
  explicit ArrayFile(const std::string &path)
      : path(path), temporary(cat(path, ".", getpid(), ".tmp")),
        fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0666)),
        code(fd < 0 ? errno : 0), opened(fd >= 0) {}
  ~ArrayFile() {
    if (fd >= 0) {
      close(fd);
      unlink(temporary.c_str());
    }
  }
  ArrayFile(const ArrayFile &) = delete;

  void write(const void *data, size_t size) {
    auto *bytes = static_cast<const char *>(data);
    while (size > 0 && !code) {
      ssize_t done = ::write(fd, bytes, size);
      if (done < 0 && errno == EINTR)
        continue;
      if (done < 0) {
        code = errno;
        return;
      }
      bytes += done;
      size -= done;
      written += done;
    }
  }
  void write(std::string_view text) { write(text.data(), text.size()); }

  Status finish() {
    if (!code && rename(temporary.c_str(), path.c_str()) != 0)
      code = errno;
    if (!code) {
      close(fd);
      fd = -1;
      return success();
    }
    std::string what = "cannot be written: " + systemErrorText(code);
    return opened ? deviceError(what, path)
                  : userError(what, path, "choose another file with -o");
  }

  uint64_t written = 0;

private:
  std::string path, temporary;
  int fd, code;
  bool opened;
};

} // namespace

Expected<std::vector<std::pair<std::string, Array>>>
readNpz(std::string_view file, const std::string &where) {
  ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, readDirectory(file, where));
  std::vector<std::pair<std::string, Array>> arrays;
  for (const ZipEntry &entry : entries) {
    std::string name(entry.name);
    if (name.ends_with(".npy"))
      name.resize(name.size() - 4);
    std::string place = cat(where, " entry '", name, "'");
    std::string storage;
    std::string_view content = entry.packed;
    if (entry.method == 8) {
      ASSIGN_OR_RETURN(std::string unpacked, inflateEntry(entry, place));
      storage = std::move(unpacked);
      content = storage;
    } else if (entry.method != 0) {
      return damaged(place, "is packed in an unknown way");
    }
    if (checksumOf(0, content.data(), content.size()) != entry.checksum)
      return damaged(place, "is damaged: its checksum differs");
    ASSIGN_OR_RETURN(Array array, readNpy(content, place));
    arrays.emplace_back(std::move(name), std::move(array));
  }
  return arrays;
}

Status writeNpy(const std::string &path, const knapper_tensor &tensor) {
  ASSIGN_OR_RETURN(std::string found, OutputFile::destination(path));
  ASSIGN_OR_RETURN(NpyFile content, NpyFile::make(tensor, path));
  ArrayFile file(found);
  file.write(content.header);
  file.write(content.elements());
  return file.finish();
}

Status writeNpz(const std::string &path,
                const std::vector<NamedTensor> &tensors) {
  ASSIGN_OR_RETURN(std::string found, OutputFile::destination(path));
  ArrayFile file(found);
  std::string directory;
  for (const auto &[name, tensor] : tensors) {
    ASSIGN_OR_RETURN(NpyFile content, NpyFile::make(tensor, path));
    std::string_view header = content.header, elements = content.elements();
    std::string entryName = name + ".npy";
    uint64_t size = header.size() + elements.size(), offset = file.written;
    if (size >= UINT32_MAX || offset >= UINT32_MAX || entryName.size() > 65535)
      return userError("would exceed the 4 GiB of an .npz file", path,
                       "write each output with -o NAME=FILE.npy");
    uint32_t checksum = checksumOf(checksumOf(0, header.data(), header.size()),
                                   elements.data(), elements.size());
    std::string common; // of the entry and of the directory
    put<uint16_t>(common, 20);
    put<uint16_t>(common, 0x0800);     // the name is UTF-8
    put<uint16_t>(common, 0);          // stored
    put<uint32_t>(common, 0x00210000); // 1980-01-01
    put<uint32_t>(common, checksum);
    put<uint32_t>(common, static_cast<uint32_t>(size));
    put<uint32_t>(common, static_cast<uint32_t>(size));
    put<uint16_t>(common, static_cast<uint16_t>(entryName.size()));
    put<uint16_t>(common, 0);
    file.write("PK\3\4" + common + entryName);
    file.write(header);
    file.write(elements);
    directory += "PK\1\2";
    put<uint16_t>(directory, 20);
    directory += common;
    directory.append(10, '\0'); // comment, disk, attributes (2+2+2+4)
    put<uint32_t>(directory, static_cast<uint32_t>(offset));
    directory += entryName;
  }
  std::string end("PK\5\6\0\0\0\0", 8);
  put<uint16_t>(end, static_cast<uint16_t>(tensors.size()));
  put<uint16_t>(end, static_cast<uint16_t>(tensors.size()));
  put<uint32_t>(end, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(end, static_cast<uint32_t>(file.written));
  put<uint16_t>(end, 0);
  file.write(directory + end);
  return file.finish();
}

} // namespace knapper::cli
