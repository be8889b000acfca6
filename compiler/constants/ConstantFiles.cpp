#include "compiler/constants/ConstantFiles.h"
#include "runtime/base/Checked.h"
#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;

namespace knapper {

ConstantFiles::Files::~Files() {
  for (File &file : entries)
    if (file.mapped)
      munmap(const_cast<std::byte *>(file.data), file.bytes);
}

Expected<ConstantFiles>
ConstantFiles::open(ModuleOp module, ArrayRef<std::string_view> buffers) {
  ConstantFiles result;
  result.files = std::make_shared<Files>();
  auto list = module->getAttrOfType<ArrayAttr>("ts.files");
  if (!list)
    return result;
  for (auto [i, entry] : llvm::enumerate(list.getAsRange<StringAttr>())) {
    File &file = result.files->entries.emplace_back();
    file.path = entry.str();
    if (file.path.empty()) {
      if (i < buffers.size()) {
        file.data = reinterpret_cast<const std::byte *>(buffers[i].data());
        file.bytes = buffers[i].size();
      }
      file.path = "the model in memory";
      continue;
    }
    auto fail = [&](const char *what) {
      return userError(cat(what, ": ", systemErrorText(errno)), file.path,
                       "check that the model's data files are beside it");
    };
    int fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return fail("cannot open");
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      Error error = S_ISREG(status.st_mode)
                        ? fail("cannot read")
                        : userError("is not a file", file.path);
      close(fd);
      return error;
    }
    file.bytes = static_cast<size_t>(status.st_size);
    if (file.bytes > 0) {
      void *data = mmap(nullptr, file.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
      if (data == MAP_FAILED) {
        Error error = deviceError(
            cat("cannot map ", file.bytes, " bytes: ", systemErrorText(errno)),
            file.path);
        close(fd);
        return error;
      }
      file.data = static_cast<const std::byte *>(data);
      file.mapped = true;
    }
    close(fd);
  }
  return result;
}

Expected<std::span<const std::byte>>
ConstantFiles::data(ts::WeightAttr reference) const {
  size_t count = files ? files->entries.size() : 0;
  if (reference.getFile() >= count)
    return userError(cat("'", reference.getName().getValue(),
                         "' refers to file ", reference.getFile(), " of ",
                         count),
                     {}, "compile the module with its attribute ts.files");
  const File &file = files->entries[reference.getFile()];
  if (!inside(reference.getOffset(), reference.getBytes(), file.bytes))
    return userError(cat("'", reference.getName().getValue(), "' takes ",
                         reference.getBytes(), " bytes at offset ",
                         reference.getOffset(), ", the file has ", file.bytes),
                     file.path, "the file is incomplete: fetch it again");
  return std::span(file.data + reference.getOffset(), reference.getBytes());
}

} // namespace knapper
