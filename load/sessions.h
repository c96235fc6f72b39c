// SPDX-License-Identifier: Apache-2.0
// The sessions of a workload: which turns they have, how prompts grow, and when the next turn follows an answer.
// Sessions are generated (Conversation) or those of a trace (TraceReplay::after_answers).
//
// A session's draws depend only on the seed, the replication, its number and the turn, not on the order in which
// answers arrive. So runs that differ in deployment or load send the same sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "load/workload.h"

namespace plimsoll::load {

/// Handle of an open session; reused after its end.
using SessionSlot = std::uint32_t;

/// The sessions of one replication. Called from one thread.
class SessionBook {
 public:
  /// `hashes`: bodies state the blocks of their prompts and answers. The spec must have turns (has_turns).
  SessionBook(const WorkloadSpec& spec, std::uint64_t replication, bool hashes);
  ~SessionBook();
  SessionBook(SessionBook&&) noexcept;

  /// Returns whether a further session may begin: generated ones may be limited in number.
  [[nodiscard]] bool may_begin() const;
  /// Traces: returns whether the arrival with this number is the first turn of a session. Arrivals count over all
  /// tiles.
  [[nodiscard]] bool begins_at(std::uint64_t arrival) const;
  /// Opens the next generated session, or the trace's session that begins with this arrival. `now` is when its first
  /// turn is sent.
  [[nodiscard]] SessionSlot begin(std::uint64_t arrival, Nanos now);
  /// Returns the turn that the session sends next. Spans are valid until the next call.
  [[nodiscard]] RequestBody turn(SessionSlot slot);
  /// Reports that the turn was answered at `now`. Returns when the next turn is sent; nullopt if it was the last one:
  /// then the session has ended.
  [[nodiscard]] std::optional<Nanos> answered(SessionSlot slot, Nanos now);
  /// Ends a session whose turn failed: later prompts would contain the missing answer.
  void end(SessionSlot slot);

 private:
  class Source;
  class Generated;
  class Recorded;
  std::unique_ptr<Source> source_;
};

}  // namespace plimsoll::load
