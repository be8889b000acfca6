#include "serving/chat/TemplateText.h"

#include "serving/chat/TemplateBudget.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace knapper::serving {

static jinja::string escaped(jinja::string text) {
  for (jinja::string_part &part : text.parts) {
    std::string made;
    for (char c : part.val)
      switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '\'':
        made += "&#39;";
        break;
      case '"':
        made += "&#34;";
        break;
      default:
        made += c;
      }
    part.val = std::move(made);
  }
  return text;
}

jinja::string concatenated(const jinja::string &left,
                           const jinja::string &right) {
  bool safe = left.safe || right.safe;
  jinja::string made = safe && !left.safe ? escaped(left) : left;
  made.append(safe && !right.safe ? escaped(right) : right);
  made.safe = safe;
  return made;
}

/// Parts of one kind are one.
static void add(jinja::string &text, std::string_view more, bool input) {
  if (more.empty())
    return;
  if (text.parts.empty() || text.parts.back().is_input != input)
    text.parts.push_back({input, ""});
  text.parts.back().val += more;
}

jinja::string replaced(const jinja::string &text, const std::string &old,
                       const jinja::string &by) {
  if (old.empty())
    return text;
  std::string whole = text.str();
  std::vector<bool> isInput;
  isInput.reserve(whole.size());
  for (const jinja::string_part &part : text.parts)
    isInput.insert(isInput.end(), part.val.size(), part.is_input);
  jinja::string other, made;
  for (const jinja::string_part &part : by.parts)
    add(other, part.val, part.is_input);
  made.safe = text.safe;
  auto keep = [&](size_t begin, size_t end) {
    for (size_t at = begin, next; at < end; at = next) {
      for (next = at + 1; next < end && isInput[next] == isInput[at];)
        ++next;
      add(made, std::string_view(whole).substr(at, next - at), isInput[at]);
    }
  };
  size_t done = 0;
  for (size_t at; (at = whole.find(old, done)) != std::string::npos;
       done = at + old.size()) {
    keep(done, at);
    auto from = isInput.begin() + static_cast<ptrdiff_t>(at);
    auto to = from + static_cast<ptrdiff_t>(old.size());
    bool input = std::find(from, to, true) != to;
    TemplateBudget::charge(other.length() + 64 * other.parts.size());
    for (const jinja::string_part &part : other.parts)
      add(made, part.val, part.is_input || input);
  }
  keep(done, whole.size());
  return made;
}

} // namespace knapper::serving
