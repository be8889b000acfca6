#include "serving/http/Embeddings.h"

#include "runtime/base/Json.h"

namespace knapper::serving {

using Json = FieldReader::Json;

const std::vector<FieldRow> &embeddingFields() {
  static const std::vector<FieldRow> rows = {
      {"input", {}},
      {"model", {}},
      {"encoding_format", {}},
      {"dimensions", {}},
      {"user", {}},
      {"add_special_tokens", {}},
      {"truncate_prompt_tokens", {}},
  };
  return rows;
}

namespace {

constexpr size_t mostTexts = 2048;

void readInput(FieldReader &fields, const RequestContext &context,
               EmbeddingRequest &request) {
  const char *kinds = "must be a text, a list of texts, a list of tokens or a "
                      "list of such lists";
  const Json *input = fields.find("input");
  EncodeOptions options;
  options.stopped = context.stopped;
  options.addSpecialTokens = fields.flag("add_special_tokens", true);
  // A text is a user's: what it spells are no control tokens.
  options.parseSpecialTokens = false;
  if (!input || !(input->is_string() || input->is_array()) || input->empty())
    return fields.fail("input", kinds);
  bool alone = input->is_string() || input->front().is_number();
  size_t count = alone ? 1 : input->size();
  if (count > mostTexts)
    return fields.fail("input", "must not hold more than 2048 texts");
  for (size_t i = 0; i < count && fields.ok(); ++i) {
    std::string place =
        count == 1 ? "input" : "input[" + std::to_string(i) + "]";
    const Json &item = alone ? *input : (*input)[i];
    std::vector<int32_t> ids;
    if (item.is_string()) {
      auto made =
          context.texts.tokenizer().encode(item.get<std::string>(), options);
      if (!made)
        return fields.fail(ApiError::from(made.error(), place));
      ids = std::move(*made);
    } else if (item.is_array()) {
      for (const Json &token : item) {
        if (!token.is_number_unsigned() ||
            token.get<uint64_t>() >=
                static_cast<uint64_t>(context.limits.vocabulary))
          return fields.fail(place,
                             "must hold tokens of 0 to " +
                                 std::to_string(context.limits.vocabulary - 1));
        ids.push_back(token.get<int32_t>());
      }
    } else {
      return fields.fail("input", kinds);
    }
    request.texts.push_back(std::move(ids));
  }
}

void readLength(FieldReader &fields, const RequestContext &context,
                EmbeddingRequest &request) {
  std::optional<int64_t> truncate =
      fields.integer("truncate_prompt_tokens", 1, context.limits.contextLength);
  for (size_t i = 0; i < request.texts.size() && fields.ok(); ++i) {
    std::vector<int32_t> &text = request.texts[i];
    std::string place = request.texts.size() == 1
                            ? "input"
                            : "input[" + std::to_string(i) + "]";
    if (text.empty())
      return fields.fail(place, "has no tokens");
    // The first ones, and the last: it marks the end of a text.
    if (truncate && text.size() > static_cast<size_t>(*truncate))
      text.erase(text.begin() + *truncate - 1, text.end() - 1);
    if (text.size() <= static_cast<size_t>(context.limits.contextLength))
      continue;
    ApiError error;
    error.param = place;
    error.code = "context_length_exceeded";
    error.message = "'" + place + "' has " + std::to_string(text.size()) +
                    " tokens and the context " +
                    std::to_string(context.limits.contextLength) +
                    "; shorten it, or ask for 'truncate_prompt_tokens'";
    return fields.fail(std::move(error));
  }
}

std::string base64(const float *numbers, size_t count) {
  constexpr char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto *bytes = reinterpret_cast<const unsigned char *>(numbers);
  size_t size = count * sizeof(float);
  std::string text;
  for (size_t i = 0; i < size; i += 3) {
    uint32_t group = uint32_t(bytes[i]) << 16;
    group |= i + 1 < size ? uint32_t(bytes[i + 1]) << 8 : 0;
    group |= i + 2 < size ? uint32_t(bytes[i + 2]) : 0;
    text += letters[group >> 18];
    text += letters[group >> 12 & 63];
    text += i + 1 < size ? letters[group >> 6 & 63] : '=';
    text += i + 2 < size ? letters[group & 63] : '=';
  }
  return text;
}

} // namespace

std::optional<EmbeddingRequest>
readEmbeddingRequest(const std::string &body, const RequestContext &context,
                     int32_t width, ApiError &error) {
  std::optional<Json> json = parseBody(body, error);
  if (!json)
    return std::nullopt;
  FieldReader fields(*json);
  EmbeddingRequest request;
  fields.checkNames(embeddingFields());
  checkModel(fields, context.model);
  std::string format = fields.text("encoding_format").value_or("float");
  request.base64 = format == "base64";
  if (format != "float" && format != "base64")
    fields.fail("encoding_format", "must be \"float\" or \"base64\"");
  if (auto dimensions = fields.integer("dimensions", 1, INT32_MAX);
      dimensions && *dimensions != width)
    fields.fail("dimensions",
                "must be " + std::to_string(width) + ", as the model has",
                "unsupported_field");
  request.user = fields.text("user").value_or("");
  readInput(fields, context, request);
  if (fields.ok())
    readLength(fields, context, request);
  if (fields.failure()) {
    error = *fields.failure();
    return std::nullopt;
  }
  return request;
}

std::string embeddingAnswer(const EmbeddingRequest &request,
                            const std::vector<float> &vectors,
                            const std::string &model) {
  JsonWriter writer;
  writer.beginObject().field("object", "list").key("data").beginArray();
  size_t width = vectors.size() / request.texts.size();
  int64_t tokens = 0;
  for (size_t i = 0; i < request.texts.size(); ++i) {
    const float *numbers = vectors.data() + i * width;
    writer.beginObject()
        .field("object", "embedding")
        .field("index", static_cast<uint64_t>(i))
        .key("embedding");
    if (request.base64) {
      writer.value(base64(numbers, width));
    } else {
      writer.beginArray();
      for (size_t j = 0; j < width; ++j)
        writer.value(static_cast<double>(numbers[j]));
      writer.endArray();
    }
    writer.endObject();
    tokens += static_cast<int64_t>(request.texts[i].size());
  }
  writer.endArray().field("model", model).key("usage").beginObject();
  writer.field("prompt_tokens", tokens).field("total_tokens", tokens);
  return writer.endObject().endObject().take();
}

} // namespace knapper::serving
