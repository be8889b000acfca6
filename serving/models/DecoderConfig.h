// What a decoder is made of: the settings of the shared blocks. A family's file
// fills it from config.json.
#pragma once

#include "runtime/base/Error.h"
#include "serving/models/Checkpoint.h"
#include "serving/models/ConfigReader.h"
#include "serving/models/RopeFrequencies.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace knapper::serving {

enum class Activation : uint8_t { silu, gelu, geluTanh, relu };
enum class NormKind : uint8_t {
  rms,        ///< x / rms(x) * weight
  rmsOnePlus, ///< x / rms(x) * (1 + weight)
  layer,      ///< (x - mean) / deviation * weight + bias
};
enum class PositionKind : uint8_t { rope, learned };

/// Names of tensors; they may also stand there without `base`. "{}" is the
/// layer's number. A projection "" is part of another one, by the order of
/// rows.
struct TensorNames {
  std::string base = "model.";
  std::string embedding = "model.embed_tokens.weight";
  std::string positions; ///< of learned positions
  std::string finalNorm = "model.norm";
  std::string head = "lm_head.weight";
  std::string layer = "model.layers.{}.";
  std::string inputNorm = "input_layernorm"; ///< "": none before attention
  std::string query = "self_attn.q_proj", key = "self_attn.k_proj",
              value = "self_attn.v_proj";
  std::string queryKeyValue; ///< one matrix with the rows of all three
  std::string output = "self_attn.o_proj";
  std::string queryNorm = "self_attn.q_norm", keyNorm = "self_attn.k_norm";
  std::string afterAttentionNorm; ///< before the sum; "": none
  std::string mlpNorm = "post_attention_layernorm"; ///< "": none before the MLP
  std::string afterMlpNorm;
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj",
              down = "mlp.down_proj";
  std::string gateUp; ///< one matrix with the rows of both
  std::string router = "mlp.gate";        ///< of experts
  std::string expert = "mlp.experts.{}."; ///< "{}" is the expert's number
  std::string expertGate = "gate_proj", expertUp = "up_proj",
              expertDown = "down_proj";
};

struct DecoderConfig {
  std::string family;
  int64_t layers = 0, width = 0, heads = 0, keyHeads = 0, headWidth = 0;
  int64_t vocabulary = 0, inner = 0, contextLength = 0;
  NormKind norm = NormKind::rms;
  double normEpsilon = 1e-6;
  Activation activation = Activation::silu;
  bool gated = true;
  PositionKind position = PositionKind::rope;
  Rope rope;
  std::optional<Rope> windowRope; ///< of layers with a window, if another
  bool inputBias = false, outputBias = false, mlpBias = false;
  enum class QueryNorm : uint8_t {
    none,
    head,
    all
  } queryNorm = QueryNorm::none;
  double attentionScale = 0; ///< 0: 1 / sqrt(head width)
  double scoreCap = 0, logitCap = 0;
  double embeddingScale = 1;
  std::vector<int64_t> windows; ///< of each layer; 0: none
  bool tiedHead = false;
  int64_t experts = 0; ///< in the place of an MLP; 0: it is one
  int64_t expertsPerToken = 0, expertInner = 0;
  bool sharesSumToOne = true;     ///< of a token's experts, else as routed
  std::vector<bool> denseLayers;  ///< whose MLP is one; empty: none
  bool transposedWeights = false; ///< matrices are [in, out]
  TensorNames names;
};

/// Fills the settings; errors stay in the reader.
using ReadFamilyFn = void (*)(ConfigReader &, DecoderConfig &);
struct Family {
  const char *architecture; ///< config.json's `architectures[0]`
  ReadFamilyFn read;
};
std::span<const Family> families();

/// config.json of a folder. UserError for an unknown architecture, which lists
/// the known ones, and for fields that are wrong or not known.
Expected<DecoderConfig> readDecoderConfig(const std::string &folder);

//===-- For the families' files -------------------------------------------===//

/// Sizes, norms, rope and ties that nearly all families have under one name.
void readCommonFields(ConfigReader &config, DecoderConfig &decoder);
/// `hidden_act` or what `field` names, and what it is where it is absent.
void readActivation(ConfigReader &config, DecoderConfig &decoder,
                    const char *field = "hidden_act",
                    const char *fallback = "silu");
/// The new form (`rope_parameters`) and the old (`rope_theta`, `rope_scaling`).
void readRope(ConfigReader &config, DecoderConfig &decoder);
/// Sets how much of a head is rotated; `share` of it.
void checkRope(ConfigReader &config, const DecoderConfig &decoder, Rope &rope,
               double share);
/// `sliding_window` for the layers that `layer_types` names; for all where that
/// is absent. `fallback` is the window of a file that has no such field; null
/// is no window.
void readWindows(ConfigReader &config, DecoderConfig &decoder,
                 int64_t fallback);

} // namespace knapper::serving
