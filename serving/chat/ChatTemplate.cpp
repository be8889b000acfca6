#include "serving/chat/ChatTemplate.h"

#include "serving/chat/TemplateBudget.h"

#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace knapper::serving {

using Json = OrderedJson;

struct ChatTemplate::Program {
  std::string source;
  jinja::program statements;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program)
    : program(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;
ChatTemplate &ChatTemplate::operator=(ChatTemplate &&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

namespace {

constexpr size_t largestTemplate = 1 << 20;

jinja::value valueOf(const Json &json, bool input) {
  if (json.is_boolean())
    return jinja::mk_val<jinja::value_bool>(json.get<bool>());
  if (json.is_number_integer())
    return jinja::mk_val<jinja::value_int>(json.get<int64_t>());
  if (json.is_number_float())
    return jinja::mk_val<jinja::value_float>(json.get<double>());
  if (json.is_string()) {
    auto text = jinja::mk_val<jinja::value_string>(json.get<std::string>());
    if (input)
      text->mark_input();
    return text;
  }
  if (json.is_array()) {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const Json &item : json)
      list->push_back(valueOf(item, input));
    return list;
  }
  if (json.is_object()) {
    auto object = jinja::mk_val<jinja::value_object>();
    for (auto it = json.begin(); it != json.end(); ++it)
      // Templates build control tokens of roles; there are few, all checked.
      object->insert(it.key(),
                     valueOf(it.value(), input && it.key() != "role"));
    return object;
  }
  return jinja::mk_val<jinja::value_none>();
}

/// The message without the engine's places and prefixes around it.
std::string reasonOf(std::string message) {
  for (const char *mark : {"Error: ", "Jinja Exception: "})
    if (size_t at = message.rfind(mark); at != std::string::npos)
      message = message.substr(at + std::string_view(mark).size());
  return message;
}

} // namespace

Expected<ChatTemplate> ChatTemplate::parse(const std::string &source) {
  if (source.size() > largestTemplate)
    return userError("the chat template is larger than 1 MiB");
  try {
    TemplateBudget budget({.depth = 400});
    auto program = std::make_unique<Program>();
    jinja::lexer lexer;
    jinja::lexer_result tokens = lexer.tokenize(source);
    program->source = source;
    program->statements = jinja::parse_from_tokens(tokens);
    return ChatTemplate(std::move(program));
  } catch (const std::exception &error) {
    return userError(std::string("the chat template cannot be read: ") +
                     error.what());
  } catch (...) {
    return userError("the chat template cannot be read");
  }
}

Expected<RenderedChat>
ChatTemplate::render(const Json &variables,
                     const std::map<std::string, std::string> &names) const {
  try {
    TemplateBudget budget({});
    jinja::context context(program->source);
    for (const auto &[name, text] : names)
      context.set_val(name, jinja::mk_val<jinja::value_string>(text));
    for (auto it = variables.begin(); it != variables.end(); ++it)
      context.set_val(it.key(), valueOf(it.value(), true));
    jinja::runtime runtime(context);
    jinja::value_string made = jinja::runtime::gather_string_parts(
        runtime.execute(program->statements));
    RenderedChat chat;
    for (const jinja::string_part &part : made->val_str.parts) {
      size_t begin = chat.text.size();
      chat.text += part.val;
      if (part.is_input && !part.val.empty())
        chat.literal.push_back({begin, chat.text.size()});
    }
    return chat;
  } catch (const std::bad_alloc &) { // the template refuses nothing
    throw;
  } catch (const std::exception &error) {
    return userError("the chat template refuses the conversation: " +
                     reasonOf(error.what()));
  } catch (...) {
    return userError("the chat template fails");
  }
}

} // namespace knapper::serving
