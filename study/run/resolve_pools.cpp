// SPDX-License-Identifier: Apache-2.0
// Joins the prefill pool and the decode pool of a point, each of which is resolved as if it were alone.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "study/run/resolve.h"

namespace plimsoll::study {
namespace {

constexpr std::uint64_t kFailures = 0x70726566;  // replicas of the pools fail independently of each other

// Checks what the products require of the two pools together.
std::optional<Impossible> mismatch(const PointSpec& spec, const load::Scenario& prefill, const load::Scenario& decode) {
  if (prefill.kv.block_tokens != decode.kv.block_tokens)
    return Impossible{
        spec.places.pools,
        fmt::format("the pools have blocks of {} and {} tokens; KV can only be transferred between equal blocks",
                    prefill.kv.block_tokens, decode.kv.block_tokens)};
  if (prefill.kv_dtype != decode.kv_dtype)
    return Impossible{spec.places.pools, "the pools have KV caches of different types"};
  const sched::HandOver& product = sched::policy_info(decode.policy.policy).hand_over;
  if (product.needs_multiple_tp && (decode.tp < prefill.tp || decode.tp % prefill.tp != 0))
    return Impossible{
        spec.places.decode,
        fmt::format("tp {} of the decode pool is not a multiple of tp {} of the prefill pool, as policy {} "
                    "needs",
                    decode.tp, prefill.tp, sched::name(decode.policy.policy))};
  return {};
}

// Each rank of a decode replica receives its own KV heads, or a copy if there are fewer heads than ranks.
load::TransferConfig transfer_of(const PointSpec& spec, const load::Scenario& prefill, const load::Scenario& decode) {
  load::TransferConfig transfer = spec.transfer;
  const double sources = prefill.tp * prefill.pp, targets = decode.tp * decode.pp;
  transfer.source_rate = transfer.bandwidth * sources;
  transfer.target_rate = transfer.bandwidth * targets;
  if (!spec.shape) return transfer;
  transfer.layers = spec.shape->layers;
  transfer.bytes_per_token =
      targets * model::kv_bytes_per_token_per_rank(*spec.shape, decode.kv_dtype, decode.tp, decode.pp).value;
  return transfer;
}

void add_prefill_result(PointResult& result, const PointResult& prefill) {
  result.pools = fmt::format("prefill {} + decode {}", prefill.labels.replicas, result.labels.replicas);
  result.prefill_replicas = prefill.labels.replicas;
  result.prefill_instances = prefill.instances;
  result.prefill_usd_per_hour = prefill.usd_per_hour;
  result.labels.replicas += prefill.labels.replicas;
  if (prefill.labels.hardware != result.labels.hardware) {
    const std::string decode = result.labels.hardware;
    result.labels.hardware = prefill.labels.hardware.empty() || decode.empty()
                                 ? prefill.labels.hardware + decode
                                 : fmt::format("{} + {}", prefill.labels.hardware, decode);
    result.gpus_per_instance = 0;  // not one number
  }
  result.instances += prefill.instances;
  result.gpus += prefill.gpus;
  if (result.usd_per_hour && prefill.usd_per_hour)
    *result.usd_per_hour += *prefill.usd_per_hour;
  else
    result.usd_per_hour.reset();
  if (result.starved.empty()) result.starved = prefill.starved;
  if (!prefill.extrapolates.empty() && prefill.extrapolates != result.extrapolates)
    add_extrapolation(result, "prefill pool: " + prefill.extrapolates);
}

// If the replicas of one pool come and go, the usage of both pools is counted in the same way.
void match_lives(load::Scenario& prefill, const PointSpec& prefill_spec, load::Scenario& decode,
                 const PointSpec& decode_spec) {
  const auto fixed = [](load::Scenario& scenario, const PointSpec& spec) {
    if (!scenario.life) scenario.life = life_of(spec);
  };
  if (!prefill.life && !decode.life) return;
  fixed(prefill, prefill_spec);
  fixed(decode, decode_spec);
}

}  // namespace

void add_prefill_pool(ResolvedPoint& point, const PointSpec& spec, ResolveFor use) {
  if (ResolvedPoint prefill = resolve_spec(*spec.prefill, use); prefill.impossible) {
    point.impossible = Impossible{prefill.impossible->where, "prefill pool: " + prefill.impossible->reason};
  } else if (point.impossible = mismatch(spec, *prefill.scenario, *point.scenario); !point.impossible) {
    add_prefill_result(point.result, prefill.result);
    load::Scenario& decode = *point.scenario;
    prefill.scenario->policy.role = sched::Role::prefill;
    prefill.scenario->workload.seed ^= kFailures;
    decode.policy.role = sched::Role::decode;
    match_lives(*prefill.scenario, *spec.prefill, decode, spec);
    load::Pools pools;
    pools.transfer = transfer_of(spec, *prefill.scenario, decode);
    pools.local = spec.local_prefill;
    pools.prefill = std::make_shared<const load::Scenario>(std::move(*prefill.scenario));
    decode.pools = std::make_shared<const load::Pools>(std::move(pools));
    if (!spec.transfer_stated && decode.pools->transfer.bytes_per_token > 0)
      add_extrapolation(point.result, "the bandwidth of KV transfers is an estimate (deployment.transfer.bandwidth)");
  }
  if (point.impossible) point.scenario.reset();
}

}  // namespace plimsoll::study
