// What a text encoder is made of, and how its vectors are made.
#pragma once

#include "serving/models/DecoderConfig.h"

namespace knapper::serving {

enum class Pooling : uint8_t { mean, max, first };

struct EncoderConfig {
  std::string family;
  int64_t layers = 0, width = 0, heads = 0, inner = 0;
  int64_t vocabulary = 0, tokenTypes = 0;
  int64_t contextLength = 0; ///< positions that there are
  int64_t longest = 0;       ///< tokens of a text, at most
  double normEpsilon = 1e-12;
  Activation activation = Activation::gelu;
  Pooling pooling = Pooling::mean;
  bool normalised = false;
};

/// Whether config.json's architecture is an encoder's.
Expected<bool> isEncoder(const std::string &folder);
/// config.json, and of sentence-transformers modules.json, the configuration of
/// its pooling and sentence_bert_config.json; without them: the mean of all
/// tokens, not normalised. UserError for what is not known.
Expected<EncoderConfig> readEncoderConfig(const std::string &folder);

} // namespace knapper::serving
