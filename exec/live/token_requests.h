// SPDX-License-Identifier: Apache-2.0
// Requests of real clients, which state their prompts and how to sample. The control thread adds them as they arrive;
// the workers read them when a prompt is computed.
#pragma once

#include <mutex>
#include <unordered_map>

#include "exec/live/prompts.h"

namespace plimsoll::exec {

struct TokenRequest {
  std::vector<std::int32_t> prompt;  // must have as many tokens as the scheduler's request has input tokens
  Sampling sampling;                 // draws depend only on its seed, not on the request's number
};

/// Several threads may use one.
class TokenRequests final : public PromptSource {
 public:
  TokenRequests() : PromptSource(0, 1) {}
  /// Call before the request reaches a worker.
  void add(std::uint64_t serial, TokenRequest request);
  /// Call when the request has ended, and no step with it is in flight.
  void erase(std::uint64_t serial);

  void append(const OpenRequest& request, std::vector<std::int32_t>& out) const override;
  [[nodiscard]] std::optional<Sampling> sampling(const OpenRequest& request) const override;

 private:
  [[nodiscard]] const TokenRequest& of(const OpenRequest& request) const;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, TokenRequest> requests_;  // by serial; only for look-ups
};

}  // namespace plimsoll::exec
