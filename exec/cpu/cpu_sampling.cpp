// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/least_logit.h"
#include "exec/weights/gumbel.h"

namespace plimsoll::exec {

CpuBackend::Best CpuBackend::best_token(std::size_t index, std::int64_t vocab_begin, std::int64_t valid) const {
  const float* logits = workspace_[Buffer::logits] + static_cast<std::int64_t>(index) * config_.rank.vocab_rows;
  Best best{-std::numeric_limits<float>::infinity(), static_cast<std::int32_t>(vocab_begin)};
  if (valid <= 0) return best;
  const Sampling& sampling = table_->sampling[index];
  if (sampling.temperature <= 0) {
    best.token += static_cast<std::int32_t>(kernels_.argmax(logits, valid, &best.value));
    return best;
  }
  // The noise depends only on the seed, request, position and token, so the sharding does not change what is sampled.
  const std::uint64_t key = gumbel_key(sampling.seed, table_->sample_request[index], table_->sample_position[index]);
  const float least = sampling.filters() ? least_[index] : -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < valid; ++i) {
    if (logits[i] < least) continue;
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
  vocab_begin_ = vocab_begin;
  valid_ = valid;
  const auto do_rows = [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      finish_logits(index);
      if (!table_->sampling[index].filters()) best_[index] = best_token(index, vocab_begin, valid);
    }
  };
  pool_.parallel_for(sampled_, do_rows);
}

// The tokens that remain depend on the logits of all ranks, so every rank collects these logits and finds the same
// limit.
void CpuBackend::sample_filtered() {
  filtered_.clear();
  for (std::size_t i = 0; i < best_.size(); ++i)
    if (table_->sampling[i].filters()) filtered_.push_back(i);
  if (filtered_.empty()) return;
  least_.resize(best_.size());
  const auto width = static_cast<std::size_t>(config_.rank.vocab_rows);
  const std::size_t ranks = communicator_ != nullptr ? static_cast<std::size_t>(communicator_->size()) : 1;
  std::vector<float> own, all;
  if (ranks > 1) {
    for (const std::size_t i : filtered_) {
      const float* const logits = workspace_[Buffer::logits] + static_cast<std::int64_t>(i * width);
      own.insert(own.end(), logits, logits + valid_);
      own.resize(own.size() + width - static_cast<std::size_t>(valid_), -std::numeric_limits<float>::infinity());
    }
    all.resize(own.size() * ranks);
    communicator_->all_gather(own.data(), all.data(), static_cast<std::int64_t>(own.size() * sizeof(float)), nullptr);
  }
  const auto do_rows = [&](int, std::int64_t begin, std::int64_t end) {
    for (auto at = static_cast<std::size_t>(begin); at < static_cast<std::size_t>(end); ++at) {
      const std::size_t i = filtered_[at];
      std::vector<float> row;
      for (std::size_t rank = 0; ranks > 1 && rank < ranks; ++rank)
        row.insert(row.end(), all.data() + rank * own.size() + at * width,
                   all.data() + rank * own.size() + (at + 1) * width);
      const float* const logits = workspace_[Buffer::logits] + static_cast<std::int64_t>(i * width);
      least_[i] = ranks > 1 ? least_logit(row, table_->sampling[i])
                            : least_logit({logits, static_cast<std::size_t>(valid_)}, table_->sampling[i]);
      best_[i] = best_token(i, vocab_begin_, valid_);
    }
  };
  pool_.parallel_for(static_cast<std::int64_t>(filtered_.size()), do_rows);
}

void CpuBackend::exchange_samples() {
  sample_filtered();
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
