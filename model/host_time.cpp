// SPDX-License-Identifier: Apache-2.0
#include "model/host_time.h"

namespace plimsoll::model {

double host_time(const EngineProfile& engine, const HostWork& work) {
  double seconds = engine.host_step.count();
  if (!engine.cuda_graphs || work.prefill_sequences > 0) {
    double layer = engine.host_layer.count() + engine.host_layer_rank.count() * (work.tp - 1);
    if (work.tp > 1) layer += engine.host_layer_tp.count();
    seconds += work.layers * layer;
  }
  seconds += static_cast<double>(work.sequences) * engine.host_sequence.count();
  seconds += static_cast<double>(work.tokens) * engine.host_token.count();
  seconds += static_cast<double>(work.prefill_sequences) * engine.host_prefill.count();
  return seconds;
}

}  // namespace plimsoll::model
