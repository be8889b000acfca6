#include "serving/tokenizer/Tokenizer.h"

#include "runtime/base/InputFile.h"
#include "serving/tokenizer/ByteAlphabet.h"
#include "serving/tokenizer/Detokenizer.h"
#include "serving/tokenizer/ParseJson.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

#include <cstring>

namespace knapper::serving {

using Json = nlohmann::json;

/// What one thread needs to encode: buffers, and the tokens of words that it
/// has met.
struct Tokenizer::Scratch {
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0, tokens = 0; ///< offsets
    uint16_t length = 0, count = 0;
  };
  static constexpr size_t slotCount = 1 << 15;
  std::vector<Slot> slots{slotCount};
  std::string texts;
  std::vector<int32_t> tokens;
  size_t used = 0;
  Pieces pieces;
  std::string normalized, spelt;

  void forget() {
    slots.assign(slotCount, {});
    texts.clear();
    tokens.clear();
    used = 0;
  }
};

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

Expected<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string &path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  ASSIGN_OR_RETURN(std::string text, file.read());
  Expected<std::unique_ptr<Tokenizer>> made = parse(text);
  if (!made) {
    Error error = made.takeError();
    error.where = path;
    return error;
  }
  return made;
}

/// Whether the model says that its lists are of the kinds which LongLists has.
static bool hasLongLists(const Json &json) {
  auto model = json.find("model"); // no place in what is no object
  if (model == json.end())
    return false;
  auto type = model->find("type");
  return type != model->end() && (*type == "BPE" || *type == "WordPiece");
}

Expected<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view text) {
  std::optional<LongLists> lists = takeLongLists(text);
  ASSIGN_OR_RETURN(Json json,
                   parseJson<Json>(lists ? std::string_view(lists->rest) : text,
                                   "tokenizer.json"));
  if (lists && !hasLongLists(json)) {
    lists.reset();
    ASSIGN_OR_RETURN(json, parseJson<Json>(text, "tokenizer.json"));
  }
  if (!json.is_object())
    return userError("it is not a JSON object", "tokenizer.json");
  std::unique_ptr<Tokenizer> made(new Tokenizer);
  LongLists none;
  TRY(made->read(json, lists ? *lists : none));
  return made;
}

Status Tokenizer::read(const Json &json, LongLists &lists) {
  auto section = [&](const char *key) { return json.value(key, Json()); };
  ASSIGN_OR_RETURN(normalizer, Normalizer::read(section("normalizer")));
  ASSIGN_OR_RETURN(preTokenizer, PreTokenizer::read(section("pre_tokenizer")));
  auto entry = json.find("model");
  ASSIGN_OR_RETURN(
      model, TokenModel::read(entry == json.end() ? Json() : *entry, lists));
  ASSIGN_OR_RETURN(
      added, AddedTokens::read(section("added_tokens"), normalizer.get()));
  ASSIGN_OR_RETURN(tokenDecoder, TokenDecoder::read(section("decoder")));
  TRY(readPostProcessor(section("post_processor")));
  for (const std::vector<int32_t> *list : {&before, &after})
    for (int32_t id : *list)
      if (id < 0 || id >= size())
        return userError(
            "the post_processor adds a token that is not in the "
            "vocabulary" +
                (id < 0 ? std::string() : ": " + std::to_string(id)),
            "tokenizer.json",
            "add it to added_tokens, or take it out of the "
            "post_processor");
  special.resize(size());
  for (const AddedToken &token : added.all())
    special[token.id] = token.special;
  return success();
}

/// -1 for what is no token's.
static int32_t tokenNumber(const Json &json) {
  auto number = json.get<int64_t>();
  return number >= 0 && number < Vocabulary::mostTokens
             ? static_cast<int32_t>(number)
             : -1;
}

Status Tokenizer::readPostProcessor(const Json &json) {
  if (json.is_null())
    return success();
  ASSIGN_OR_RETURN(std::string type, textOf(json, "type", "post_processor"));
  auto damaged = [&] {
    return userError("the post_processor '" + type + "' is damaged",
                     "tokenizer.json");
  };
  if (type == "ByteLevel") // corrects offsets, which we have none of
    return success();
  if (type == "Sequence") {
    for (const Json &step : json.value("processors", Json::array()))
      TRY(readPostProcessor(step));
    return success();
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (auto [key, list] :
         {std::pair("cls", &before), std::pair("sep", &after)}) {
      const Json pair = json.value(key, Json());
      if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_integer())
        return damaged();
      list->push_back(tokenNumber(pair[1]));
    }
    return success();
  }
  if (type != "TemplateProcessing")
    return unknownKind("post_processor", type);
  bool seen = false;
  const Json tokens = json.value("special_tokens", Json::object());
  for (const Json &item : json.value("single", Json::array())) {
    if (!item.is_object() || item.size() != 1)
      return damaged();
    if (item.contains("Sequence")) {
      seen = true;
      continue;
    }
    const Json entry = item.value("SpecialToken", Json());
    ASSIGN_OR_RETURN(std::string name, textOf(entry, "id", "post_processor"));
    const Json token = tokens.is_object() ? tokens.value(name, Json()) : Json();
    const Json ids = token.is_object() ? token.value("ids", Json()) : Json();
    if (!ids.is_array())
      return damaged();
    for (const Json &id : ids) {
      if (!id.is_number_integer())
        return damaged();
      (seen ? after : before).push_back(tokenNumber(id));
    }
  }
  return success();
}

std::unique_ptr<Tokenizer::Scratch> Tokenizer::take() const {
  std::lock_guard lock(mutex);
  if (idle.empty())
    return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(idle.back());
  idle.pop_back();
  return scratch;
}

Expected<std::vector<int32_t>>
Tokenizer::encode(std::string_view text, const EncodeOptions &options) const {
  if (size_t good = validUtf8(text); good != text.size())
    return userError("the text is not UTF-8 at byte " + std::to_string(good));
  std::unique_ptr<Scratch> scratch = take();
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.addSpecialTokens)
    ids = before;
  Status status;
  added.split(text, false, options.parseSpecialTokens, options.literal,
              [&](size_t begin, size_t end, int32_t id) {
                if (id >= 0)
                  ids.push_back(id);
                else if (status)
                  status =
                      encodePart(text.substr(begin, end - begin), begin == 0,
                                 options, *scratch, ids);
              });
  if (options.addSpecialTokens)
    ids.insert(ids.end(), after.begin(), after.end());
  {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(scratch));
  }
  TRY(std::move(status));
  return ids;
}

Status Tokenizer::encodePart(std::string_view text, bool first,
                             const EncodeOptions &options, Scratch &scratch,
                             std::vector<int32_t> &ids) const {
  constexpr size_t often = 4096; // pieces between two questions
  auto isStopped = [&] { return options.stopped && options.stopped(); };
  auto ended = [] {
    return userError("the text was given up before all of it was tokens",
                     "deadline");
  };
  if (isStopped())
    return ended();
  if (normalizer) {
    // Where its first character goes the text is no longer the beginning.
    if (first && preTokenizer && !text.empty()) {
      scratch.normalized = text.substr(0, utf8Length(text.front()));
      TRY(normalizer->apply(scratch.normalized));
      first = !scratch.normalized.empty();
    }
    scratch.normalized = text;
    TRY(normalizer->apply(scratch.normalized));
    text = scratch.normalized;
  }
  // In a normalised text the places of the user's bytes are lost.
  bool normalizedSpecial =
      options.parseSpecialTokens && options.literal.empty();
  Status status;
  added.split(text, true, normalizedSpecial, {},
              [&](size_t begin, size_t end, int32_t id) {
                if (id >= 0) {
                  ids.push_back(id);
                  return;
                }
                if (!status)
                  return;
                std::string_view part = text.substr(begin, end - begin);
                if (!preTokenizer) {
                  encodePiece(part, false, scratch, ids);
                  return;
                }
                Pieces &pieces = scratch.pieces;
                pieces.texts.clear();
                pieces.bytes = false;
                pieces.failed.clear();
                pieces.list.assign(1, {part, first && begin == 0});
                preTokenizer->split(pieces);
                if (!pieces.failed.empty())
                  status = userError(
                      "a regular expression of the tokenizer gave up on the "
                      "text: it takes too many steps",
                      "tokenizer.json, '" + pieces.failed + "'",
                      "a shorter text");
                for (size_t i = 0; i < pieces.list.size() && status; ++i) {
                  const Pieces::Piece &piece = pieces.list[i];
                  if (!piece.text.empty())
                    encodePiece(piece.text, pieces.bytes, scratch, ids);
                  if (i % often == often - 1 && isStopped())
                    status = ended();
                }
              });
  return status;
}

void Tokenizer::encodePiece(std::string_view piece, bool bytes,
                            Scratch &scratch, std::vector<int32_t> &ids) const {
  auto compute = [&] {
    if (!bytes) {
      model->tokenize(piece, ids);
      return;
    }
    scratch.spelt.clear();
    appendByteCharacters(scratch.spelt, piece);
    model->tokenize(scratch.spelt, ids);
  };
  if (piece.size() > TokenModel::longestCached) {
    compute();
    return;
  }
  if (2 * scratch.used > Scratch::slotCount)
    scratch.forget();
  // Bytes and characters are spelt apart, so that one word has two hashes.
  uint64_t hash = (hashText(piece) ^ (bytes ? 0 : 0x5bd1e995)) | 1;
  size_t i = hash >> 20 & (Scratch::slotCount - 1);
  for (; scratch.slots[i].hash != 0; i = (i + 1) & (Scratch::slotCount - 1)) {
    const Scratch::Slot &slot = scratch.slots[i];
    if (slot.hash == hash && slot.length == piece.size() &&
        memcmp(scratch.texts.data() + slot.text, piece.data(), piece.size()) ==
            0) {
      const int32_t *tokens = scratch.tokens.data() + slot.tokens;
      ids.insert(ids.end(), tokens, tokens + slot.count);
      return;
    }
  }
  size_t start = ids.size();
  compute();
  scratch.slots[i] = {hash, static_cast<uint32_t>(scratch.texts.size()),
                      static_cast<uint32_t>(scratch.tokens.size()),
                      static_cast<uint16_t>(piece.size()),
                      static_cast<uint16_t>(ids.size() - start)};
  scratch.texts += piece;
  scratch.tokens.insert(scratch.tokens.end(), ids.begin() + start, ids.end());
  ++scratch.used;
}

std::string Tokenizer::decode(const std::vector<int32_t> &ids,
                              bool skipSpecialTokens) const {
  return std::move(*decode(ids, skipSpecialTokens, {}));
}

Expected<std::string>
Tokenizer::decode(const std::vector<int32_t> &ids, bool skipSpecialTokens,
                  const std::function<bool()> &stopped) const {
  constexpr size_t often = 4096; // tokens between two questions
  Detokenizer stream(*this, skipSpecialTokens, Detokenizer::Mode::whole);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % often == 0 && stopped && stopped())
      return userError("the tokens were given up before all of them were text",
                       "deadline");
    text += stream.push(ids[i]);
  }
  text += stream.finish();
  return text;
}

int32_t Tokenizer::size() const {
  int32_t size = model->vocabulary.size();
  for (const AddedToken &token : added.all())
    size = std::max(size, token.id + 1);
  return size;
}

std::string_view Tokenizer::tokenText(int32_t id) const {
  if (const AddedToken *token = added.find(id))
    return token->shown;
  return model->vocabulary.text(id);
}

bool Tokenizer::isSpecial(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < special.size() && special[id];
}

int32_t Tokenizer::tokenOf(std::string_view text) const {
  if (const AddedToken *token = added.find(text))
    return token->id;
  return model->vocabulary.find(text);
}

} // namespace knapper::serving
