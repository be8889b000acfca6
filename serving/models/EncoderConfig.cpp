#include "serving/models/EncoderConfig.h"

#include "runtime/base/Text.h"
#include "serving/models/JsonFile.h"

#include <algorithm>
#include <filesystem>

namespace knapper::serving {

using Json = nlohmann::json;

namespace {

constexpr const char *architectures[] = {"BertModel", "BertForMaskedLM"};

bool exists(const std::string &path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The type of a module of sentence-transformers without its packages.
std::string lastName(const std::string &type) {
  return type.substr(type.rfind('.') + 1);
}

Status readPooling(const std::string &folder, EncoderConfig &encoder) {
  ASSIGN_OR_RETURN(ConfigReader config,
                   ConfigReader::open(folder + "/config.json"));
  struct Row {
    const char *field;
    Pooling pooling;
  };
  constexpr Row rows[] = {{"pooling_mode_mean_tokens", Pooling::mean},
                          {"pooling_mode_max_tokens", Pooling::max},
                          {"pooling_mode_cls_token", Pooling::first}};
  int found = 0;
  for (const Row &row : rows)
    if (config.flag(row.field)) {
      ++found;
      encoder.pooling = row.pooling;
    }
  // The newer form names it.
  if (std::string mode = config.text("pooling_mode", ""); !mode.empty()) {
    ++found;
    if (mode == "mean")
      encoder.pooling = Pooling::mean;
    else if (mode == "max")
      encoder.pooling = Pooling::max;
    else if (mode == "cls")
      encoder.pooling = Pooling::first;
    else
      config.fail("pooling_mode", cat("is '", mode, "'"), "mean, max or cls");
  }
  if (int64_t width = config.integer(config.has("embedding_dimension")
                                         ? "embedding_dimension"
                                         : "word_embedding_dimension",
                                     encoder.width);
      width != encoder.width)
    config.fail("word_embedding_dimension", cat("is ", width),
                cat(encoder.width));
  config.ignore({"include_prompt"});
  TRY(config.finish());
  if (found != 1)
    return userError(cat("asks for ", found, " ways of pooling"),
                     config.where(), "mean, max or cls tokens, one of them");
  return success();
}

Status readModules(const std::string &folder, EncoderConfig &encoder) {
  std::string path = folder + "/modules.json";
  ASSIGN_OR_RETURN(Json modules, readJsonFile(path));
  if (!modules.is_array())
    return userError("is no list of modules", path);
  size_t place = 0;
  for (const Json &module : modules) {
    if (!module.is_object() || !module.contains("type") ||
        !module["type"].is_string())
      return userError("has a module without a type", path);
    std::string type = lastName(module["type"].get<std::string>());
    std::string part = module.contains("path") && module["path"].is_string()
                           ? module["path"].get<std::string>()
                           : std::string();
    if (type == "Transformer" && place == 0)
      ; // config.json
    else if (type == "Pooling" && place == 1)
      TRY(readPooling(folder + "/" + part, encoder));
    else if (type == "Normalize" && place == 2)
      encoder.normalised = true;
    else
      return userError(cat("has the module '", type, "' at place ", place),
                       path,
                       "Transformer, Pooling and Normalize, in this order");
    ++place;
  }
  return success();
}

} // namespace

Expected<bool> isEncoder(const std::string &folder) {
  ASSIGN_OR_RETURN(ConfigReader config,
                   ConfigReader::open(folder + "/config.json"));
  std::vector<std::string> names = config.texts("architectures");
  return names.size() == 1 &&
         std::find(std::begin(architectures), std::end(architectures),
                   names.front()) != std::end(architectures);
}

Expected<EncoderConfig> readEncoderConfig(const std::string &folder) {
  ASSIGN_OR_RETURN(ConfigReader config,
                   ConfigReader::open(folder + "/config.json"));
  EncoderConfig encoder;
  std::vector<std::string> names = config.texts("architectures");
  encoder.family = names.empty() ? "" : names.front();
  encoder.layers = config.integer("num_hidden_layers");
  encoder.width = config.integer("hidden_size");
  encoder.heads = config.integer("num_attention_heads");
  encoder.inner = config.integer("intermediate_size");
  encoder.vocabulary = config.integer("vocab_size");
  encoder.tokenTypes = config.integer("type_vocab_size", 2);
  encoder.contextLength = config.integer("max_position_embeddings");
  encoder.normEpsilon = config.real("layer_norm_eps", 1e-12);
  std::string activation = config.text("hidden_act", "gelu");
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh")
    encoder.activation = Activation::geluTanh;
  else if (activation != "gelu")
    config.fail("hidden_act", cat("is '", activation, "'"),
                "gelu, gelu_new or gelu_pytorch_tanh");
  config.expect("position_embedding_type", "absolute");
  config.expect("is_decoder", false);
  config.expect("add_cross_attention", false);
  config.ignore({"model_type", "torch_dtype", "dtype", "transformers_version",
                 "use_cache", "pad_token_id", "bos_token_id", "eos_token_id",
                 "initializer_range", "_name_or_path", "classifier_dropout",
                 "hidden_dropout_prob", "attention_probs_dropout_prob",
                 "gradient_checkpointing", "id2label", "label2id",
                 "tie_word_embeddings", "chunk_size_feed_forward"});
  TRY(config.finish());
  if (encoder.layers < 1 || encoder.layers > mostLayers || encoder.width < 1 ||
      encoder.heads < 1 || encoder.width % encoder.heads != 0 ||
      encoder.inner < 1 || encoder.vocabulary < 1 || encoder.tokenTypes < 1 ||
      encoder.contextLength < 1)
    return userError("has sizes that do not fit together", config.where(),
                     cat("positive sizes, at most ", mostLayers,
                         " layers, the width a multiple of the heads"));
  encoder.longest = encoder.contextLength;
  if (exists(folder + "/modules.json"))
    TRY(readModules(folder, encoder));
  std::string sentence = folder + "/sentence_bert_config.json";
  if (exists(sentence)) {
    ASSIGN_OR_RETURN(ConfigReader limits, ConfigReader::open(sentence));
    encoder.longest = std::min(
        encoder.longest, limits.integer("max_seq_length", encoder.longest));
    limits.expect("do_lower_case", false);
    limits.ignore(
        {"transformer_task", "modality_config", "module_output_name"});
    TRY(limits.finish());
    if (encoder.longest < 1)
      return userError("is not positive",
                       cat(sentence, ", field 'max_seq_length'"),
                       cat("1 to ", encoder.contextLength));
  }
  return encoder;
}

} // namespace knapper::serving
