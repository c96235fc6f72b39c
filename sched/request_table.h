// SPDX-License-Identifier: Apache-2.0
// The live requests of one replica, and the decode group among them.
//
// The decode group holds every running request whose (re)prefill is complete: in almost every step, each of them
// decodes one token. The group has a clock that counts those steps. A member's counter is its value at joining plus the
// clock's advance since then. So a step, or a leap over many steps, costs O(1) however large the batch is.
//
// A policy sees this table as const. It does not contain true output lengths; only the Replica knows those.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sched {

/// Orders a heap of events by readings of the group's clock: the earliest is on top.
inline constexpr auto kLater = [](const auto& a, const auto& b) { return a.clock > b.clock; };

/// What a policy may know about a request. 24 bytes, since millions may wait at once.
struct Request {
  std::uint32_t serial = 0;  // order of sending, unique in a run
  Tok prompt = 0;            // input tokens, >= 1
  Tok max_new = 0;           // the user's cap on output tokens, >= 1
  std::int32_t preemptions : 23 = 0;
  bool decoding : 1 = false;  // a member of the decode group
  State state : 8 = State::waiting;
  Nanos arrival = 0;
};

/// Properties that few requests have, each in its own column.
struct RareFields {
  Tok reserve_tokens = 0;     // prompt + output for policies that reserve by the true output (orca pow2 and oracle)
  std::int32_t priority = 0;  // a lower value is served sooner
  Tok remote = 0;             // tokens whose KV a prefill replica sends; 0: none
};

/// All requests of a replica by their handles, and the decode group. Handles are small numbers that are reused.
class RequestTable {
 public:
  // ---- read by policies ------------------------------------------------------------------------------------
  [[nodiscard]] const Request& operator[](ReqId id) const { return slots_[id].request; }
  /// Returns the output tokens produced so far.
  [[nodiscard]] Tok generated(ReqId id) const { return static_cast<Tok>(slots_[id].generated + run_of(id)); }
  /// Returns the tokens whose KV is computed: length - 1 for a member of the decode group.
  [[nodiscard]] Tok computed(ReqId id) const { return static_cast<Tok>(slots_[id].computed + run_of(id)); }
  /// Returns the prompt plus the produced tokens: what a (re)prefill must cover.
  [[nodiscard]] Tok length(ReqId id) const { return slots_[id].request.prompt + generated(id); }
  /// Returns whether the request is in the decode group.
  [[nodiscard]] bool decoding(ReqId id) const { return slots_[id].request.decoding; }
  [[nodiscard]] Tok reserve_tokens(ReqId id) const { return id < reserves_.size() ? reserves_[id] : 0; }
  [[nodiscard]] std::int32_t priority(ReqId id) const { return id < priorities_.size() ? priorities_[id] : 0; }
  /// Returns the tokens whose KV is still to come from a prefill replica; 0: none.
  [[nodiscard]] Tok remote(ReqId id) const { return id < remotes_.size() ? remotes_[id] : 0; }
  [[nodiscard]] std::int64_t group_size() const { return group_size_; }
  /// Returns the number of running requests that reached their cap: their last token is computed but not known yet
  /// (Traits::decides_ahead). They are not in the group.
  [[nodiscard]] std::int64_t capped() const { return capped_; }
  /// Returns the number of live requests: waiting, running and swapped.
  [[nodiscard]] std::int64_t size() const { return live_; }

  // ---- changed by the Replica only -------------------------------------------------------------------------
  /// `window`: the model's sliding window in tokens; 0: none (see group_context_windowed).
  explicit RequestTable(Tok window = 0) : window_(window) {}
  [[nodiscard]] ReqId add(const Request& request, const RareFields& rare = {});
  void remove(ReqId id);  // also leaves the group
  [[nodiscard]] Request& edit(ReqId id) { return slots_[id].request; }
  /// Adds `tokens` computed tokens; the request must not be in the group.
  void prefill(ReqId id, Tok tokens) { slots_[id].computed += static_cast<std::uint32_t>(tokens); }
  void set_computed(ReqId id, Tok tokens) { slots_[id].computed = static_cast<std::uint32_t>(tokens); }
  /// Records that the request no longer waits for KV.
  void end_remote(ReqId id) {
    if (id < remotes_.size()) remotes_[id] = 0;
  }
  void set_capped(std::int64_t requests) { capped_ = requests; }
  /// Adds one output token to a request outside the group.
  void emit(ReqId id) { ++slots_[id].generated; }
  /// Makes the request a member of the decode group from the next step on. It must not be one yet.
  void join_group(ReqId id);
  /// Ends the membership; the request keeps its current counters. It must be a member.
  void leave_group(ReqId id);
  /// Makes all members decode `steps` tokens.
  void advance_group(std::int64_t steps);
  /// Makes one member decode one token while the others stay as they are.
  void advance_member(ReqId id);

  [[nodiscard]] std::int64_t clock() const { return clock_; }
  [[nodiscard]] Tok window() const { return window_; }
  /// Returns the sum over the members of the tokens to which their next decode attends (computed + 1).
  [[nodiscard]] std::int64_t group_context() const { return group_computed_ + group_size_; }
  /// Returns the same sum with each member's share limited to the window; equal to group_context() without a window.
  [[nodiscard]] std::int64_t group_context_windowed() const;
  /// Returns the number of members whose share of the windowed sum still grows.
  [[nodiscard]] std::int64_t window_growing() const { return window_ > 0 ? growing_ : group_size_; }
  /// Returns the group steps until the next member reaches the window (a kink of the windowed sum); kForever if none.
  [[nodiscard]] std::int64_t steps_to_window_kink();

 private:
  struct Slot {
    Request request;
    // For members, the group's clock at joining is subtracted, modulo 2^32; no request has that many tokens.
    std::uint32_t generated = 0, computed = 0;
  };
  struct Growth {                  // of a member's share of the windowed sum
    std::uint32_t epoch : 31 = 0;  // tells stale entries of saturations_ from live ones
    std::uint32_t saturated : 1 = 0;
  };
  struct Saturation {
    std::int64_t clock;
    ReqId id;
    std::uint32_t epoch;
  };

  [[nodiscard]] std::uint32_t run_of(ReqId id) const {
    return slots_[id].request.decoding ? static_cast<std::uint32_t>(clock_) : 0;
  }
  void window_join(ReqId id);
  void window_leave(ReqId id);
  void window_advance();
  void drop_stale();

  std::vector<Slot> slots_;
  ReqId free_ = kNoRequest;               // the slot to use next; its serial is the one after it
  std::vector<Tok> reserves_;             // by ReqId; empty where no policy asks
  std::vector<std::int32_t> priorities_;  // by ReqId; empty where all are 0
  std::vector<Tok> remotes_;              // by ReqId; empty without prefill replicas
  std::vector<Growth> growths_;           // by ReqId; empty without a window
  std::int64_t live_ = 0, capped_ = 0;
  std::int64_t clock_ = 0, group_size_ = 0, group_computed_ = 0;
  Tok window_ = 0;
  std::int64_t growing_ = 0, growing_context_ = 0;  // members below the window and their summed contexts
  std::vector<Saturation> saturations_;             // min-heap by clock
};

}  // namespace plimsoll::sched
