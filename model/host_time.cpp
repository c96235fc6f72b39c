// SPDX-License-Identifier: Apache-2.0
#include "model/host_time.h"

namespace plimsoll::model {
namespace {

double launch_time(const EngineProfile& engine, const HostWork& work) {
  if (engine.cuda_graphs && work.graph && work.prefill_sequences == 0) return 0;
  double layer = engine.host_layer.count() + engine.host_layer_rank.count() * (work.tp - 1);
  if (work.tp > 1) layer += engine.host_layer_tp.count();
  return work.layers * layer + work.ops * engine.host_op.count();
}

double output_time(const EngineProfile& engine, const HostWork& work) {
  const FrontEndTime front = engine.arrival_time(work.front_end);
  return (engine.host_step + front.step).count() +
         static_cast<double>(work.sequences) * (engine.host_sequence + front.sequence).count() +
         static_cast<double>(work.tokens) * engine.host_token.count() +
         static_cast<double>(work.prefill_sequences) * engine.host_prefill.count();
}

}  // namespace

HostTime host_time(const EngineProfile& engine, const HostWork& work) {
  const double ranks = work.tp - 1, growth = 1 + engine.rank_growth_on(work.accelerator) * ranks;
  // Every sequence that is not being prefilled decodes one token.
  const auto prompt_tokens = static_cast<double>(work.tokens - (work.sequences - work.prefill_sequences));
  const double launch = growth * launch_time(engine, work);
  double output = growth * output_time(engine, work);
  if (work.prefill_sequences > 0) output += prompt_tokens * ranks * engine.host_prompt_rank.count();
  return engine.serial_output ? HostTime{launch, output} : HostTime{launch + output, 0};
}

}  // namespace plimsoll::model
