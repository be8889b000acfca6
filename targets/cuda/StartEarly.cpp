#include "targets/cuda/StartEarly.h"

#include <algorithm>

namespace knapper {
namespace {

constexpr std::string_view kWait = "griddepcontrol.wait;";

/// The next line of `text` with its end, which is taken off.
std::string_view takeLine(std::string_view &text) {
  size_t end = text.find('\n');
  size_t size = end == text.npos ? text.size() : end + 1;
  std::string_view line = text.substr(0, size);
  text.remove_prefix(size);
  return line;
}

std::string_view stripped(std::string_view line) {
  size_t begin = line.find_first_not_of(" \t\n");
  return begin == line.npos ? std::string_view() : line.substr(begin);
}

/// What may stand before a kernel waits for those before it: what touches no
/// memory of the device, in straight code.
bool mayGoAhead(std::string_view line) {
  line = stripped(line);
  if (line.starts_with("@")) // of an instruction that has a condition
    line =
        stripped(line.substr(std::min(line.find_first_of(" \t"), line.size())));
  if (line.starts_with("{") && line != "{\n")
    return false;
  for (std::string_view allowed :
       {"ld.param", "ld.shared", "st.shared", "cp.async.bulk.prefetch.L2"})
    if (line.starts_with(allowed))
      return true;
  for (std::string_view refused :
       {"ld", "st", "atom", "red", "cp.", "call", "bra", "ret", "$"})
    if (line.starts_with(refused))
      return false;
  return true;
}

/// `line`, but a read of memory that nobody writes ("nc") as one of memory that
/// others may write: the assembler moves the former before the wait.
std::string ordered(std::string_view line) {
  constexpr std::string_view unordered = "ld.global.nc";
  std::string result(line);
  if (size_t at = line.find(unordered); at != line.npos)
    result.replace(at, unordered.size(), "ld.global");
  return result;
}

/// A kernel's body, behind its first brace up to the last.
std::string startBodyEarly(std::string_view body) {
  std::string declarations, before, after;
  bool begun = false, waits = false, straight = true;
  while (!body.empty()) {
    std::string_view line = takeLine(body), content = stripped(line);
    begun |= !content.empty() && !content.starts_with(".") &&
             !content.starts_with("//");
    if (!begun)
      declarations += line;
    else if (!waits && content.starts_with(kWait))
      waits = true;
    else
      (waits ? after : before) += ordered(line);
    if (begun && !waits)
      straight &= mayGoAhead(line);
  }
  std::string wait = "\t" + std::string(kWait) + "\n";
  bool itsOwn = waits && straight;
  return declarations + "\tgriddepcontrol.launch_dependents;\n" +
         (itsOwn ? before + wait : wait + before) + after;
}

} // namespace

std::string startEarly(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    size_t entry = text.find(".entry ");
    size_t open = entry == text.npos ? text.npos : text.find("\n{\n", entry);
    size_t close = open == text.npos ? text.npos : text.find("\n}\n", open);
    if (close == text.npos)
      return result.append(text);
    size_t begin = open + 3, end = close + 1;
    result += text.substr(0, begin);
    result += startBodyEarly(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return result;
}

} // namespace knapper
