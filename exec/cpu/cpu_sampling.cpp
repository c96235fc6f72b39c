// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "exec/cpu/cpu_backend.h"
#include "exec/weights/gumbel.h"

namespace plimsoll::exec {

CpuBackend::Best CpuBackend::best_token(std::size_t index, std::int64_t vocab_begin, std::int64_t valid) const {
  const float* logits = workspace_[Buffer::logits] + static_cast<std::int64_t>(index) * config_.rank.vocab_rows;
  Best best{-std::numeric_limits<float>::infinity(), static_cast<std::int32_t>(vocab_begin)};
  if (valid <= 0) return best;
  const Sampling& sampling = table_->sampling;
  if (sampling.temperature <= 0) {
    best.token += static_cast<std::int32_t>(kernels_.argmax(logits, valid, &best.value));
    return best;
  }
  // The noise depends only on the seed, request, position and token, so the sharding does not change what is sampled.
  const std::uint64_t key = gumbel_key(sampling.seed, table_->sample_request[index], table_->sample_position[index]);
  for (std::int64_t i = 0; i < valid; ++i) {
    const auto token = static_cast<std::int32_t>(vocab_begin + i);
    const float value = perturbed_logit(logits[i], sampling.temperature, key, token);
    if (value > best.value) best = {value, token};
  }
  return best;
}

void CpuBackend::finish_logits(std::size_t index) {
  const model::Architecture& a = config_.architecture;
  float* const logits = workspace_[Buffer::logits] + static_cast<std::int64_t>(index) * config_.rank.vocab_rows;
  const auto scale = static_cast<float>(a.logit_scale);
  if (scale != 1)
    for (std::int64_t i = 0; i < config_.rank.vocab_rows; ++i) logits[i] *= scale;
  if (a.logit_cap > 0) kernels_.cap(static_cast<float>(a.logit_cap), config_.rank.vocab_rows, logits);
}

void CpuBackend::sample(std::int64_t vocab_begin, std::int64_t valid) {
  best_.resize(static_cast<std::size_t>(sampled_));
  const auto do_rows = [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      finish_logits(static_cast<std::size_t>(i));
      best_[static_cast<std::size_t>(i)] = best_token(static_cast<std::size_t>(i), vocab_begin, valid);
    }
  };
  pool_.parallel_for(sampled_, do_rows);
}

void CpuBackend::exchange_samples() {
  if (communicator_ != nullptr && communicator_->size() > 1 && sampled_ > 0) {
    gathered_.resize(best_.size() * static_cast<std::size_t>(communicator_->size()));
    communicator_->all_gather(best_.data(), gathered_.data(), static_cast<std::int64_t>(best_.size() * sizeof(Best)),
                              nullptr);
    for (std::size_t i = 0; i < best_.size(); ++i) {
      best_[i] = gathered_[i];
      for (std::size_t at = i + best_.size(); at < gathered_.size(); at += best_.size()) {  // ids rise with the rank
        if (gathered_[at].value > best_[i].value) best_[i] = gathered_[at];
      }
    }
  }
  for (std::size_t i = 0; i < best_.size(); ++i) {
    const std::int32_t slot = table_->sample_slot[i];
    if (slot >= 0) remembered_[static_cast<std::size_t>(slot)] = best_[i].token;
  }
}

}  // namespace plimsoll::exec
