// SPDX-License-Identifier: Apache-2.0
// Separate pools of replicas for prefill and decode (docs/pools.md). A request visits a prefill replica, its KV goes to
// a decode replica, and the decode replica produces the answer.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "sched/types.h"

namespace plimsoll::load {

struct Scenario;

/// Which side starts a transfer. pull: the decode replica asks for the KV of a finished prefill (vLLM with NIXL). push:
/// the decode replica takes the blocks first, then the prefill begins and its replica sends (SGLang).
enum class TransferMode : std::uint8_t { pull, push };
/// What is sent while the prefill still runs: nothing, each chunk when it ends, or each layer of a chunk.
enum class TransferOverlap : std::uint8_t { none, chunk, layer };
/// Which side produces the first output token that the client sees.
enum class FirstToken : std::uint8_t { decode, prefill };
/// What happens to a request whose KV was lost before it arrived.
enum class LoadFailure : std::uint8_t { recompute, fail };
/// How many descriptors a block needs: two for every layer, or one.
enum class KvLayout : std::uint8_t { layers, packed };

// The names in studies, in the order of the values.
inline constexpr std::array<std::string_view, 2> kTransferModeNames = {"pull", "push"};
inline constexpr std::array<std::string_view, 3> kTransferOverlapNames = {"none", "chunk", "layer"};
inline constexpr std::array<std::string_view, 2> kFirstTokenNames = {"decode", "prefill"};
inline constexpr std::array<std::string_view, 2> kLoadFailureNames = {"recompute", "fail"};
inline constexpr std::array<std::string_view, 2> kKvLayoutNames = {"layers", "packed"};

struct TransferConfig {
  TransferMode mode = TransferMode::pull;
  TransferOverlap overlap = TransferOverlap::none;
  FirstToken first_token = FirstToken::decode;
  LoadFailure load_failure = LoadFailure::recompute;
  KvLayout layout = KvLayout::layers;
  double bandwidth = 40e9;                                // bytes per second of one GPU; infinity: no limit
  double path = std::numeric_limits<double>::infinity();  // bytes per second of one transfer
  double launch_s = 0.5e-3, descriptor_s = 0;
  Nanos hold = 480'000'000'000;  // a prefill replica frees KV that has not been read for this long
  Nanos hop = 0;                 // from the router to a replica, each time
  // Derived by the caller from the model and the degrees of parallelism.
  double bytes_per_token = 0;                                    // sent to all ranks of a decode replica
  double source_rate = std::numeric_limits<double>::infinity();  // of all GPUs of a prefill replica
  double target_rate = std::numeric_limits<double>::infinity();  // of all GPUs of a decode replica
  std::int32_t layers = 1;
  /// Returns the seconds for starting a transfer of that many blocks; they do not load the links.
  [[nodiscard]] double fixed_s(sched::Blk blocks) const {
    const double each = layout == KvLayout::packed ? 1 : 2.0 * layers;
    return launch_s + static_cast<double>(blocks) * each * descriptor_s;
  }
};

/// Which prompts a decode replica computes itself.
struct LocalPrefill {
  enum class Policy : std::uint8_t { never, isl, load, isl_or_load, uncached };
  Policy policy = Policy::never;
  sched::Tok tokens = 2048;  // isl: fewer than this many tokens to compute; uncached: at most this many
  double ratio = 0.7;        // isl: they must also be less than this fraction of the prompt
  double queue = 4;          // load: more than this many steps' worth of tokens wait at the prefill replica
};
inline constexpr std::array<std::string_view, 4> kLocalPrefillNames = {"never", "isl", "load", "isl_or_load"};

/// What the choice between a local and a remote prefill depends on, in tokens.
struct PrefillChoice {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;       // of the prompt, on the decode replica
  std::int64_t waiting = 0;      // prompts that the chosen prefill replica has not finished
  std::int64_t step_tokens = 0;  // of a step of the prefill replica; sched::kForever: no limit
};
/// Returns whether the decode replica computes the prompt itself. The comparisons are strict, as in Dynamo.
[[nodiscard]] inline bool is_local(const LocalPrefill& rule, const PrefillChoice& choice) {
  using Policy = LocalPrefill::Policy;
  const std::int64_t missing = choice.prompt - choice.cached;
  const bool isl =
      missing < rule.tokens && static_cast<double>(missing) < rule.ratio * static_cast<double>(choice.prompt);
  const bool load = static_cast<double>(choice.waiting) > rule.queue * static_cast<double>(choice.step_tokens);
  switch (rule.policy) {
    case Policy::never: return false;
    case Policy::isl: return isl;
    case Policy::load: return load;
    case Policy::isl_or_load: return isl || load;
    case Policy::uncached: return missing <= rule.tokens;
  }
  return false;
}

/// What a scenario with two pools adds. The scenario itself describes the decode pool.
struct Pools {
  std::shared_ptr<const Scenario> prefill;  // the prefill pool: its machine, policy, KV, router and replicas
  TransferConfig transfer;
  LocalPrefill local;
};

}  // namespace plimsoll::load
