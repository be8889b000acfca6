// /v1/embeddings: its request and its answer.
#pragma once

#include "serving/http/GenerationRequest.h"

namespace knapper::serving {

struct EmbeddingRequest {
  std::vector<std::vector<int32_t>> texts; ///< none empty
  bool base64 = false;                     ///< bytes of f32, little-endian
  std::string user;                        ///< for the log
};

/// Reads and tokenises a body, or fills `error`. `width`: of the vectors.
std::optional<EmbeddingRequest>
readEmbeddingRequest(const std::string &body, const RequestContext &context,
                     int32_t width, ApiError &error);
const std::vector<FieldRow> &embeddingFields();

std::string embeddingAnswer(const EmbeddingRequest &request,
                            const std::vector<float> &vectors,
                            const std::string &model);

} // namespace knapper::serving
