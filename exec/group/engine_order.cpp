// SPDX-License-Identifier: Apache-2.0
#include "exec/group/engine_order.h"

#include "model/error.h"

namespace plimsoll::exec::group {

net::Bytes encode(const EngineOrder& order) {
  const EngineConfig& c = order.config;
  Writer out(Kind::load);
  out.text(order.model);
  out.text(order.weights);
  out.whole(order.seed);
  out.text(order.digest);
  for (const std::int64_t number :
       {std::int64_t{order.replicas}, static_cast<std::int64_t>(c.device), std::int64_t{c.tp},
        static_cast<std::int64_t>(c.weight_dtype), static_cast<std::int64_t>(c.kv_dtype), c.kv_blocks,
        std::int64_t{c.block_tokens}, std::int64_t{c.sequences}, c.step_rows, std::int64_t{c.threads},
        std::int64_t{c.graphs}, std::int64_t{c.poison}})
    out.number(number);
  return out.bytes();
}

EngineOrder decode_order(const net::Bytes& message) {
  Reader in(message);
  if (in.kind() != Kind::load) throw DeviceError("expected an order to load from the leader");
  EngineOrder order;
  EngineConfig& c = order.config;
  order.model = in.text();
  order.weights = in.text();
  order.seed = in.whole();
  order.digest = in.text();
  order.replicas = in.number32();
  c.device = in.one_of(DeviceKind::cuda);
  c.tp = in.number32();
  c.weight_dtype = in.one_of(model::kLastDType);
  c.kv_dtype = in.one_of(model::kLastDType);
  c.kv_blocks = in.number();
  c.block_tokens = in.number32();
  c.sequences = in.number32();
  c.step_rows = in.number();
  c.threads = in.number32();
  c.graphs = in.number() != 0;
  c.poison = in.number() != 0;
  in.end();
  return order;
}

}  // namespace plimsoll::exec::group
