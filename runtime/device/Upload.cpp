#include "runtime/device/Device.h"

#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace knapper {

Status readPart(const UploadPart &part, uint64_t at, void *to, uint64_t size) {
  if (part.source) {
    memcpy(to, static_cast<const std::byte *>(part.source) + at, size);
    return success();
  }
  for (uint64_t done = 0; done < size;) {
    ssize_t count =
        pread(part.file, static_cast<std::byte *>(to) + done, size - done,
              static_cast<off_t>(part.offset + at + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return deviceError(cat("cannot be read: ", systemErrorText(errno)),
                         "a file of weights", "check the disk");
    if (count == 0)
      return userError("ends before its last tensor", "a file of weights",
                       "do not change the file while it is loaded");
    done += static_cast<uint64_t>(count);
  }
  return success();
}

Status Device::uploadAll(std::span<const UploadPart> parts, int32_t) {
  constexpr uint64_t atOnce = uint64_t(4) << 20;
  auto queue = createQueue({});
  if (!queue)
    return queue.takeError();
  std::vector<std::byte> piece;
  Status status = (*queue)->begin();
  for (const UploadPart &part : parts) {
    for (uint64_t at = 0; status && at < part.bytes; at += piece.size()) {
      piece.resize(std::min(atOnce, part.bytes - at));
      status = readPart(part, at, piece.data(), piece.size());
      if (status)
        status = (*queue)->upload(static_cast<std::byte *>(part.target) + at,
                                  piece.data(), piece.size());
    }
  }
  if (Status end = (*queue)->finish(); !end && status)
    status = std::move(end);
  return status;
}

} // namespace knapper
