#include "frontends/common/FrontEnd.h"
#include "runtime/base/InputFile.h"

#include <unistd.h>

namespace knapper {

Expected<std::string_view> ModelInput::content(std::string &read) const {
  if (path.empty())
    return bytes;
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(std::string(path)));
  ASSIGN_OR_RETURN(std::string text, file.read());
  read = std::move(text);
  return std::string_view(read);
}

Error threwError(const FrontEnd &frontEnd, std::string_view doing,
                 const ModelInput &input, std::string_view what) {
  Error error = internalError(
      "the front end '" + std::string(frontEnd.name()) + "' threw while it " +
          std::string(doing) + ": " + std::string(what),
      input.path.empty() ? "the model" : std::string(input.path));
  error.hint = "name the model's format with --model-format, or mend the front "
               "end: errors are values";
  return error;
}

Expected<std::string> FrontEnd::inspect(const ModelInput &input) const {
  return userError("models of the format " + std::string(name()) +
                       " are not inspected",
                   input.path.empty() ? "the model" : std::string(input.path),
                   "compile it: what is not supported is listed at once");
}

std::string ModelInput::begin(size_t count) const {
  if (path.empty())
    return std::string(bytes.substr(0, count));
  std::string text(count, '\0');
  Expected<InputFile> file = InputFile::open(std::string(path));
  ssize_t got = file ? pread(file->descriptor(), text.data(), count, 0) : 0;
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

} // namespace knapper
