// What tokens are drawn from, found where the logits lie: a program in tensor
// IR, so that neither rows of logits nor their softmax cross to the host.
#pragma once

#include "compiler/options/Options.h"
#include "runtime/artefact/Artefact.h"

namespace knapper::serving {

/// Of these inputs (L, R: symbols; V: the vocabulary; K: `summaryTokens`)
///   logits [L, V] f32, rows [R] i32 of L, scale [R] f32, share [R] f32
/// the program makes, for each of the R rows x and with w = exp((x - max x) *
/// scale):
///   values [R, K] f32, ids [R, K] i64   the largest logits, best first; of
///                                       equal ones the smaller token first
///   log_sum [R] f32                     log of the sum of exp(x)
///   weight_sum [R] f32                  of w
///   drawn [R] i64, drawn_logit [R] f32  the first token where the running sum
///                                       of w exceeds share times its sum
/// Rounding can bring `drawn` past the last token, or to one whose w is 0: the
/// reader looks. Of logits that are not finite `log_sum` is none either.
Expected<std::shared_ptr<const Artefact>> compileSampler(int64_t vocabulary,
                                                         Options options);

/// K.
int64_t summaryTokens(int64_t vocabulary);

} // namespace knapper::serving
