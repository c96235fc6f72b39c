// SPDX-License-Identifier: Apache-2.0
// The filters top_k, top_p and min_p. Each keeps the tokens above some logit, so together they are one limit on the
// logit. The result depends neither on the order of the tokens nor on how ranks divide the vocabulary.
#pragma once

#include <span>

#include "exec/forward_input.h"

namespace plimsoll::exec {

/// Returns the least of `logits` that may be sampled. In this order, with p the softmax of logits / temperature:
/// - min_p keeps the tokens whose p is at least min_p times the largest;
/// - top_k keeps the k largest of them;
/// - top_p keeps the fewest of those whose p together are at least top_p of what is left.
/// A token whose logit equals that of a kept one is kept. `logits` is not empty; sampling.temperature > 0.
[[nodiscard]] float least_logit(std::span<const float> logits, const Sampling& sampling);

}  // namespace plimsoll::exec
