// What tokens are drawn from, found where the logits lie: a program in tensor
// IR, so that neither rows of logits nor their softmax cross to the host.
#pragma once

#include "compiler/options/Options.h"
#include "runtime/artefact/Artefact.h"

namespace knapper::serving {

/// Of these inputs (L, R, P: symbols; V: the vocabulary; K, B: below)
///   logits [L, V] f32, rows [R] i32 of L, scale [R] f32, share [R] f32
/// the program makes, for each of the R rows x and with w = exp((x - max x) *
/// scale):
///   values [R, K] f32, ids [R, K] i64   the largest logits, best first; of
///                                       equal ones the smaller token first
///   log_sum [R] f32                     log of the sum of exp(x)
///   weight_sum [R] f32                  of w
///   drawn [R] i64, drawn_logit [R] f32  the first token where the running sum
///                                       of w exceeds share times its sum
///   drawn_margin [R] f32                from that product to the nearer end
///                                       of the token's part of the sum
/// Rounding can bring `drawn` to a neighbour or past the last token: its margin
/// is small or negative then, and the reader looks. Of logits that are not
/// finite `log_sum` is none either.
///
/// Not `changed`: there are also
///   top_k [R] i32, top_p [R] f32        none of it: 0, 1
///   depth [R] f32                       temperature * log(min_p), or -inf:
///                                       smaller x - max x have no weight
/// and `token` [R] i64, what sampleToken draws but for rounding, and where
/// top_p reaches past the K largest.
///
/// `changed`: there are also
///   mask [R, ceil(V / 32)] i32          a bit for each token that may be drawn
///   tokens [R, P] i32, bias [R, P], repetition [R, P], penalty [R, P] f32
///                                       LogitChange.h; twice the same entry
///                                       does what one does
/// All but `log_sum` is then of the changed rows, with -inf for what may not be
/// drawn, and of the rows as given there are
///   given [R, K] f32, drawn_given [R] f32         logits of `ids` and `drawn`
///   best_given [R, B] f32, best_ids [R, B] i64    the largest, best first
Expected<std::shared_ptr<const Artefact>>
compileSampler(int64_t vocabulary, bool changed, Options options);

/// K, B.
int64_t summaryTokens(int64_t vocabulary);
int64_t summaryLogprobs(int64_t vocabulary);

} // namespace knapper::serving
