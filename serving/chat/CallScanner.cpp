#include "serving/chat/CallScanner.h"

namespace knapper::serving {
namespace {

using Json = OrderedJson;
using Kind = AnswerPiece::Kind;

bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// Finds the end of a JSON value by its brackets and strings.
class ValueScanner {
public:
  /// False once `c` stands behind the value.
  bool push(char c) {
    if (over)
      return false;
    if (inString) {
      inString = escaped || c != '"';
      escaped = !escaped && c == '\\';
      over = !inString && depth == 0;
      return true;
    }
    if (depth == 0 && begun && (c == ',' || c == '}' || c == ']' || isSpace(c)))
      return false; // behind a number or a word
    begun = true;
    inString = c == '"';
    depth += c == '{' || c == '[';
    if (c == '}' || c == ']')
      over = --depth <= 0;
    return true;
  }
  bool ended() const { return over; }

private:
  int depth = 0;
  bool inString = false, escaped = false, begun = false, over = false;
};

/// {"name": ..., "arguments": {...}}, one or a list of them.
class JsonCalls final : public CallScanner {
public:
  JsonCalls(bool isList, const ToolSchemas &tools)
      : tools(tools), isList(isList),
        place(isList ? Place::list : Place::object) {}

  bool begun() const override { return given; }
  bool told() const override { return isTold; }
  void finish(std::vector<AnswerPiece> &pieces) override {
    if (given)
      tell(pieces);
  }

  State push(char c, std::vector<AnswerPiece> &pieces) override {
    switch (place) {
    case Place::list:
      if (isSpace(c))
        return State::more;
      if (c == '[' && name.empty()) {
        place = Place::object;
        return State::more;
      }
      place = Place::named;
      [[fallthrough]];
    case Place::named: // name[ARGS]{...}
      return pushNamed(c, pieces);
    case Place::object:
      if (c == '{')
        place = Place::key;
      return c == '{' || isSpace(c) ? State::more : State::broken;
    case Place::key:
      return pushKey(c, pieces);
    case Place::colon:
      if (c == ':')
        place = Place::value, value = {}, valueText.clear();
      return c == ':' || isSpace(c) ? State::more : State::broken;
    case Place::value:
      return pushValue(c, pieces);
    case Place::comma:
      if (c == ',') {
        place = Place::key;
        return State::more;
      }
      return c == '}'     ? endCall(pieces)
             : isSpace(c) ? State::more
                          : State::broken;
    case Place::next: // call of a list
      if (c == ',')
        place = Place::object;
      return c == ']'                 ? State::done
             : c == ',' || isSpace(c) ? State::more
                                      : State::broken;
    }
    return State::broken;
  }

private:
  enum class Place : uint8_t {
    list,
    named,
    object,
    key,
    colon,
    value,
    comma,
    next
  };

  State pushNamed(char c, std::vector<AnswerPiece> &pieces) {
    constexpr std::string_view mark = "[ARGS]";
    if (!given) {
      name += c;
      if (!name.ends_with(mark))
        return name.size() < 256 ? State::more : State::broken;
      name.resize(name.size() - mark.size());
      // An id may stand between them.
      name.resize(std::min(name.find("[CALL_ID]"), name.size()));
      return begin() ? State::more : State::broken;
    }
    if (valueText.empty() && isSpace(c))
      return State::more;
    if (valueText.empty() && c != '{')
      return State::broken;
    if (!value.push(c))
      return State::broken;
    valueText += c;
    tell(pieces);
    pieces.push_back({Kind::callArguments, std::string(1, c)});
    if (!value.ended())
      return State::more;
    argumentsSeen = true;
    if (!Json::accept(valueText))
      return State::broken;
    pieces.push_back({Kind::callEnd, {}});
    return State::done;
  }

  State pushKey(char c, std::vector<AnswerPiece> &pieces) {
    if (valueText.empty() && isSpace(c))
      return State::more;
    if (valueText.empty() && c == '}' && key.empty())
      return endCall(pieces);
    if (valueText.empty() && c != '"')
      return State::broken;
    valueText += c;
    value.push(c);
    if (!value.ended())
      return valueText.size() < 256 ? State::more : State::broken;
    Json read = Json::parse(valueText, nullptr, false);
    if (!read.is_string())
      return State::broken;
    key = read.get<std::string>();
    value = {};
    valueText.clear();
    place = Place::colon;
    bool known = key == "name" || isArguments() || key == "id" || key == "type";
    return known ? State::more : State::broken;
  }

  State pushValue(char c, std::vector<AnswerPiece> &pieces) {
    if (valueText.empty() && isSpace(c))
      return State::more;
    if (valueText.empty() && isArguments() && (c != '{' || argumentsSeen))
      return State::broken;
    if (!value.push(c)) {
      if (State state = endValue(pieces); state != State::more)
        return state;
      return push(c, pieces); // as `comma`
    }
    valueText += c;
    if (isArguments() && given) {
      tell(pieces);
      pieces.push_back({Kind::callArguments, std::string(1, c)});
    }
    return value.ended() ? endValue(pieces) : State::more;
  }

  State endValue(std::vector<AnswerPiece> &pieces) {
    place = Place::comma;
    if (isArguments()) {
      argumentsSeen = true;
      arguments = std::move(valueText);
      if (!Json::accept(arguments))
        return State::broken;
    } else if (key == "name") {
      Json read = Json::parse(valueText, nullptr, false);
      if (!read.is_string() || given)
        return State::broken;
      name = read.get<std::string>();
      if (!begin())
        return State::broken;
      if (argumentsSeen) {
        tell(pieces);
        pieces.push_back({Kind::callArguments, arguments});
      }
    }
    value = {};
    valueText.clear();
    return State::more;
  }

  State endCall(std::vector<AnswerPiece> &pieces) {
    if (!given)
      return State::broken;
    tell(pieces);
    if (!argumentsSeen)
      pieces.push_back({Kind::callArguments, "{}"});
    pieces.push_back({Kind::callEnd, {}});
    if (!isList)
      return State::done;
    given = isTold = argumentsSeen = false;
    name.clear(), key.clear(), valueText.clear(), arguments.clear();
    value = {};
    place = Place::next;
    return State::more;
  }

  bool begin() {
    while (!name.empty() && isSpace(name.back()))
      name.pop_back();
    given = tools.contains(name);
    return given;
  }

  /// Not before arguments begin: a stream cannot take a name back.
  void tell(std::vector<AnswerPiece> &pieces) {
    if (!isTold)
      pieces.push_back({Kind::callBegin, name});
    isTold = true;
  }

  bool isArguments() const { return key == "arguments" || key == "parameters"; }

  const ToolSchemas &tools;
  const bool isList;
  Place place;
  ValueScanner value;
  std::string valueText, key, name, arguments;
  bool given = false, isTold = false, argumentsSeen = false;
};

/// <function=name> <parameter=p> value </parameter> </function>.
class ParameterCalls final : public CallScanner {
public:
  explicit ParameterCalls(const ToolSchemas &tools) : tools(tools) {}
  bool begun() const override { return schema != nullptr; }

  State push(char c, std::vector<AnswerPiece> &pieces) override {
    if (held.empty() && !inValue && isSpace(c))
      return State::more;
    held += c;
    if (inValue) {
      constexpr std::string_view close = "</parameter>";
      if (!held.ends_with(close))
        return State::more;
      held.resize(held.size() - close.size());
      add(pieces);
      return State::more;
    }
    constexpr std::string_view function = "<function=",
                               parameter = "<parameter=", end = "</function>";
    auto maybe = [&](std::string_view mark) {
      std::string_view text = held;
      return text.substr(0, mark.size()) == mark.substr(0, text.size());
    };
    if (schema && held == end) {
      pieces.push_back({Kind::callArguments, any ? "}" : "{}"});
      pieces.push_back({Kind::callEnd, {}});
      return State::done;
    }
    bool fits = schema ? maybe(parameter) || maybe(end) : maybe(function);
    if (!fits || held.size() > 256)
      return State::broken;
    std::string_view mark = schema ? parameter : function;
    if (c != '>' || held.size() <= mark.size())
      return State::more;
    std::string read = held.substr(mark.size(), held.size() - mark.size() - 1);
    held.clear();
    if (schema) {
      name = std::move(read);
      inValue = true;
      return State::more;
    }
    auto found = tools.find(read);
    if (found == tools.end())
      return State::broken;
    schema = &found->second;
    pieces.push_back({Kind::callBegin, std::move(read)});
    return State::more;
  }

private:
  void add(std::vector<AnswerPiece> &pieces) {
    // The format has line ends around a value that are not part of it.
    if (held.starts_with('\n'))
      held.erase(0, 1);
    if (held.ends_with('\n'))
      held.pop_back();
    std::string text = any ? ", " : "{";
    any = true;
    text += Json(name).dump() + ": " +
            valueOf(held).dump(-1, ' ', false, Json::error_handler_t::replace);
    pieces.push_back({Kind::callArguments, std::move(text)});
    held.clear();
    inValue = false;
  }

  /// Whether a value is nested deeper than one may be written back: a text of
  /// brackets alone would need a stack of its length.
  static bool isDeep(const std::string &text) {
    constexpr int64_t most = 64;
    int64_t depth = 0;
    for (char c : text) {
      depth += (c == '[' || c == '{') - (c == ']' || c == '}');
      if (depth > most)
        return true;
    }
    return false;
  }

  /// Values are written bare: the schema says what they are.
  Json valueOf(const std::string &text) const {
    const Json none;
    const Json *type = &none;
    if (schema->is_object() && schema->contains("properties") &&
        (*schema)["properties"].is_object() &&
        (*schema)["properties"].contains(name)) {
      const Json &property = (*schema)["properties"][name];
      if (property.is_object() && property.contains("type"))
        type = &property["type"];
      else if (property.is_object())
        type = nullptr; // alternatives: what parses is a value
    }
    if (type && (type->is_null() || *type == "string"))
      return text;
    if (isDeep(text))
      return text;
    Json read = Json::parse(text, nullptr, false);
    bool textAllowed =
        type && type->is_array() &&
        std::find(type->begin(), type->end(), "string") != type->end();
    if (read.is_discarded() || (textAllowed && read.is_string()))
      return text;
    return read;
  }

  const ToolSchemas &tools;
  const Json *schema = nullptr;
  std::string held, name;
  bool inValue = false, any = false;
};

} // namespace

std::unique_ptr<CallScanner> makeCallScanner(const ToolFormat &format,
                                             const ToolSchemas &tools) {
  if (format.body == ToolFormat::Body::parameters)
    return std::make_unique<ParameterCalls>(tools);
  return std::make_unique<JsonCalls>(format.body == ToolFormat::Body::list,
                                     tools);
}

} // namespace knapper::serving
