#include "serving/models/DecoderConfig.h"

#include "runtime/base/Text.h"
#include "serving/models/Families.h"

#include <algorithm>

namespace knapper::serving {

// A rope makes a table of it.
constexpr int64_t mostHeadWidth = 65536;

std::span<const Family> families() {
  static constexpr Family rows[] = {
#define FAMILY(ARCHITECTURE, NAME) {ARCHITECTURE, read##NAME},
#include "serving/models/Families.def"
#undef FAMILY
  };
  return rows;
}

Expected<DecoderConfig> readDecoderConfig(const std::string &folder) {
  ASSIGN_OR_RETURN(ConfigReader config,
                   ConfigReader::open(folder + "/config.json"));
  std::vector<std::string> architectures = config.texts("architectures");
  std::string known;
  for (const Family &family : families())
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  if (architectures.size() != 1)
    return userError("names no architecture",
                     cat(config.where(), ", field 'architectures'"),
                     cat("one of: ", known));
  auto family = std::find_if(families().begin(), families().end(),
                             [&](const Family &row) {
                               return architectures.front() == row.architecture;
                             });
  if (family == families().end())
    return userError(
        cat("the architecture '", architectures.front(), "' is not known"),
        cat(config.where(), ", field 'architectures'"), cat("one of: ", known));
  DecoderConfig decoder;
  decoder.family = architectures.front();
  family->read(config, decoder);
  config.ignore({"model_type",
                 "torch_dtype",
                 "dtype",
                 "transformers_version",
                 "use_cache",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "initializer_range",
                 "attention_dropout",
                 "_name_or_path",
                 "pretraining_tp",
                 "is_llama_config",
                 "transformers.js_config",
                 "resid_pdrop",
                 "embd_pdrop",
                 "attn_pdrop",
                 "hidden_dropout",
                 "embedding_dropout",
                 "residual_dropout",
                 "id2label",
                 "label2id",
                 "tokenizer_class",
                 "keys_to_ignore_at_inference",
                 "return_dict",
                 "chunk_size_feed_forward",
                 "unk_token_id",
                 "_attn_implementation",
                 "_model_name_or_path",
                 "cache_implementation",
                 "auto_map",
                 "mlp_dropout",
                 "classifier_dropout",
                 "hidden_dropout_prob",
                 "attention_probs_dropout_prob"});
  TRY(config.finish());
  if (decoder.layers < 1 || decoder.width < 1 || decoder.heads < 1 ||
      decoder.keyHeads < 1 || decoder.heads % decoder.keyHeads != 0 ||
      decoder.headWidth < 1 || decoder.headWidth > mostHeadWidth ||
      decoder.vocabulary < 1 || decoder.inner < 1 || decoder.contextLength < 1)
    return userError("has sizes that do not fit together", config.where(),
                     cat("layers, width, heads, head width, vocabulary and "
                         "context are positive, heads a multiple of the key "
                         "heads, a head at most ",
                         mostHeadWidth, " wide"));
  if (decoder.experts != 0 &&
      (decoder.experts < 1 || decoder.experts > 1024 ||
       decoder.expertsPerToken < 1 ||
       decoder.expertsPerToken > decoder.experts || decoder.expertInner < 1))
    return userError("has experts that do not fit together", config.where(),
                     "1 to 1024 experts of a positive size, and a token goes "
                     "to one of them at least and to all at most");
  decoder.windows.resize(decoder.layers, 0);
  return decoder;
}

void readCommonFields(ConfigReader &config, DecoderConfig &decoder) {
  decoder.layers = config.layers("num_hidden_layers");
  decoder.width = config.integer("hidden_size");
  decoder.heads = config.integer("num_attention_heads");
  decoder.keyHeads = config.integer("num_key_value_heads", decoder.heads);
  decoder.headWidth = config.integer(
      "head_dim", decoder.heads > 0 ? decoder.width / decoder.heads : 0);
  decoder.vocabulary = config.integer("vocab_size");
  decoder.inner = config.integer("intermediate_size");
  decoder.contextLength = config.integer("max_position_embeddings");
  decoder.tiedHead = config.flag("tie_word_embeddings");
}

void readActivation(ConfigReader &config, DecoderConfig &decoder,
                    const char *field, const char *fallback) {
  std::string name = config.text(field, fallback);
  if (name == "silu" || name == "swish")
    decoder.activation = Activation::silu;
  else if (name == "gelu")
    decoder.activation = Activation::gelu;
  else if (name == "gelu_new" || name == "gelu_pytorch_tanh")
    decoder.activation = Activation::geluTanh;
  else if (name == "relu")
    decoder.activation = Activation::relu;
  else
    config.fail(field, cat("is '", name, "'"),
                "silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

void checkRope(ConfigReader &config, const DecoderConfig &decoder, Rope &rope,
               double share) {
  // Also of a share that no integer holds.
  bool isShare = share > 0 && share <= 1;
  rope.dims = isShare ? static_cast<int64_t>(share * decoder.headWidth) : 0;
  if (rope.dims < 2 || rope.dims > decoder.headWidth || rope.dims % 2 != 0 ||
      !(rope.theta > 1))
    return config.fail("rope_parameters", cat("rotates ", rope.dims, " of ",
                                              decoder.headWidth, " dims"));
  auto half = static_cast<size_t>(rope.dims / 2);
  if (rope.scaling == RopeScaling::longrope &&
      (rope.shortFactors.size() != half || rope.longFactors.size() != half))
    config.fail("rope_parameters",
                cat("has ", rope.shortFactors.size(), " short and ",
                    rope.longFactors.size(), " long factors"),
                cat(half, " of each"));
}

void readRope(ConfigReader &config, DecoderConfig &decoder) {
  Rope &rope = decoder.rope;
  double share = config.real("partial_rotary_factor", 1);
  rope.theta = config.real("rope_theta", 10000);
  config.expect("rope_interleaved", false);
  for (const char *name : {"rope_scaling", "rope_parameters"})
    readRopeObject(config, name, static_cast<double>(decoder.contextLength),
                   rope, share);
  checkRope(config, decoder, rope, share);
}

void readWindows(ConfigReader &config, DecoderConfig &decoder,
                 int64_t fallback) {
  int64_t window = config.integer(
      "sliding_window", config.mentions("sliding_window") ? 0 : fallback);
  if (window < 0)
    config.fail("sliding_window", cat("is ", window),
                "null for no window, or 0 or more");
  decoder.windows.assign(decoder.layers, 0);
  std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) {
    std::fill(decoder.windows.begin(), decoder.windows.end(), window);
    return;
  }
  if (types.size() != decoder.windows.size())
    return config.fail("layer_types", cat("has ", types.size(), " entries for ",
                                          decoder.layers, " layers"));
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] == "sliding_attention")
      decoder.windows[i] = window;
    else if (types[i] != "full_attention")
      config.fail("layer_types", cat("names '", types[i], "'"),
                  "full_attention or sliding_attention");
}

} // namespace knapper::serving
