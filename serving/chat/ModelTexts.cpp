#include "serving/chat/ModelTexts.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "serving/sampling/SamplingBounds.h"
#include "serving/tokenizer/ParseJson.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace knapper::serving {

using Json = OrderedJson;

namespace {

Expected<std::string> readText(const std::string &path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  return file.read();
}

/// An object; empty where the file is not there.
Expected<Json> readObject(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Json(Json::object());
  ASSIGN_OR_RETURN(std::string text, readText(path));
  ASSIGN_OR_RETURN(Json json, parseJson<Json>(text, path));
  if (!json.is_object())
    return userError("it is not a JSON object", path);
  return json;
}

/// A token is a text, or an object with its content.
std::string contentOf(const Json &json) {
  if (json.is_string())
    return json.get<std::string>();
  if (json.is_object() && json.contains("content") &&
      json["content"].is_string())
    return json["content"].get<std::string>();
  return {};
}

Expected<ChatTemplate> parseAt(const std::string &source,
                               const std::string &path) {
  Expected<ChatTemplate> parsed = ChatTemplate::parse(source);
  if (!parsed) {
    Error error = parsed.takeError();
    error.where = path;
    return error;
  }
  return parsed;
}

/// What requests that say nothing take: in the bounds of those that do, to
/// which what transformers takes beyond them is cut.
Expected<std::map<std::string, double>> readDefaults(const Json &generation,
                                                     const std::string &path) {
  std::map<std::string, double> defaults;
  for (const SamplingBound &row : samplingBounds) {
    std::string name(row.field);
    auto found = generation.find(name);
    if (!row.isOfModels || found == generation.end() || found->is_null())
      continue;
    std::string range = rangeText(row.least, row.most);
    double value = found->is_number() ? found->get<double>() : row.least - 1;
    if (row.isCut && value > row.most) {
      log(LogLevel::warning, cat(path, ": ", name,
                                 " is cut to what requests "
                                 "may ask for: ",
                                 range));
      value = row.most;
    }
    if (!row.holds(value) || (row.isWhole && value != std::floor(value)))
      return userError(cat("is ", found->dump(-1, ' ', true,
                                              Json::error_handler_t::replace)),
                       cat(path, ", field '", name, "'"),
                       cat(row.isWhole ? "an integer: " : "a number: ", range));
    defaults[name] = value;
  }
  return defaults;
}

} // namespace

Expected<std::unique_ptr<ModelTexts>>
ModelTexts::load(const std::string &folder) {
  auto made = std::make_unique<ModelTexts>();
  ASSIGN_OR_RETURN(made->texts, Tokenizer::load(folder + "/tokenizer.json"));
  std::string configPath = folder + "/tokenizer_config.json";
  ASSIGN_OR_RETURN(Json config, readObject(configPath));
  for (auto it = config.begin(); it != config.end(); ++it)
    if (it.key().ends_with("_token"))
      if (std::string content = contentOf(it.value()); !content.empty())
        made->names[it.key()] = content;
  std::string templatePath = folder + "/chat_template.jinja";
  std::error_code error;
  if (std::filesystem::exists(templatePath, error)) {
    ASSIGN_OR_RETURN(std::string source, readText(templatePath));
    ASSIGN_OR_RETURN(made->chat, parseAt(source, templatePath));
    made->findFormats(source, source);
  } else if (auto entry = config.find("chat_template"); entry != config.end()) {
    Json list = *entry;
    if (entry->is_string())
      list = Json::array({{{"name", "default"}, {"template", *entry}}});
    std::string sources[2];
    for (const Json &item : list) {
      if (!item.is_object() || !item.contains("name") ||
          !item.contains("template") || !item["template"].is_string())
        return userError("its chat_template is damaged", configPath);
      if (item["name"] != "default" && item["name"] != "tool_use")
        continue;
      std::string &source = sources[item["name"] == "tool_use"];
      source = item["template"].get<std::string>();
      ASSIGN_OR_RETURN(ChatTemplate parsed, parseAt(source, configPath));
      (item["name"] == "default" ? made->chat : made->toolChat) =
          std::move(parsed);
    }
    made->findFormats(sources[0], sources[1].empty() ? sources[0] : sources[1]);
  }
  std::string generationPath = folder + "/generation_config.json";
  ASSIGN_OR_RETURN(Json generation, readObject(generationPath));
  auto end = [&](int64_t id) {
    auto token = static_cast<int32_t>(id);
    if (id >= 0 && id < made->texts->size() &&
        std::find(made->ends.begin(), made->ends.end(), token) ==
            made->ends.end())
      made->ends.push_back(token);
  };
  const Json ends = generation.value("eos_token_id", Json());
  for (const Json &id : ends.is_array() ? ends : Json::array({ends}))
    if (id.is_number_integer())
      end(id.get<int64_t>());
  if (auto name = made->names.find("eos_token"); name != made->names.end())
    end(made->texts->tokenOf(name->second));
  ASSIGN_OR_RETURN(made->defaults, readDefaults(generation, generationPath));
  return made;
}

void ModelTexts::findFormats(const std::string &source,
                             const std::string &toolSource) {
  tools = findToolFormat(toolSource);
  reasoning = findReasoningFormat(source);
  auto mark = [&](std::string_view text) {
    int32_t id = text.empty() ? -1 : texts->tokenOf(text);
    if (id >= 0 && texts->isSpecial(id))
      marks.push_back(id);
  };
  if (tools)
    for (std::string_view text : {tools->begin, tools->end})
      mark(text);
  if (tools && tools->body == ToolFormat::Body::list)
    for (const char *text : {"[ARGS]", "[CALL_ID]"})
      mark(text);
  if (reasoning)
    for (std::string_view text : {reasoning->begin, reasoning->end})
      mark(text);
}

Expected<RenderedChat> ModelTexts::render(const Json &variables) const {
  if (!chat)
    return userError("the model has no chat template", "messages",
                     "use /v1/completions, or put a chat_template.jinja into "
                     "the model's folder");
  bool tools = variables.contains("tools") && !variables["tools"].is_null();
  return (tools && toolChat ? toolChat : chat)->render(variables, names);
}

Expected<ChatPrompt>
ModelTexts::encodeChat(const Json &variables,
                       const std::function<bool()> &stopped) const {
  ASSIGN_OR_RETURN(RenderedChat rendered, render(variables));
  EncodeOptions options;
  options.addSpecialTokens = false; // the template has them
  options.stopped = stopped;
  options.literal = std::move(rendered.literal);
  ChatPrompt prompt;
  ASSIGN_OR_RETURN(prompt.tokens, texts->encode(rendered.text, options));
  prompt.reasoning = reasoningAfter(rendered.text, reasoning);
  return prompt;
}

Status checkSameTokens(const ModelTexts &texts, const std::string &folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> other,
                   Tokenizer::load(folder + "/tokenizer.json"));
  const Tokenizer &own = texts.tokenizer();
  for (int32_t id = 0; id < std::max(own.size(), other->size()); ++id)
    if (own.tokenText(id) != other->tokenText(id))
      return userError(
          cat("has '", std::string(other->tokenText(id)), "' as token ", id,
              ", and the model that is served '",
              std::string(own.tokenText(id)), "'"),
          folder + "/tokenizer.json", "a draft model of the same vocabulary");
  return success();
}

} // namespace knapper::serving
