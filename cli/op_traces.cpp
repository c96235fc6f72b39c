// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/measured_points.h"
#include "model/op_cost.h"
#include "sim/sim_replica.h"
#include "study/file/cell.h"

namespace plimsoll::cli {
namespace {

bool is_attention(const model::Op& op) {
  return op.kind == model::OpKind::decode_attention || op.kind == model::OpKind::prefill_attention;
}

// The simulator prices decode attention along a whole curve (model/decode_attention.h): this price, raised where needed
// so that it never falls with the context.
double decode_attention_time(const model::OpPricer& pricer, const model::Op& op) {
  const model::ClassPrices& c = pricer.prices(model::OpClass::decode_attention);
  const double norm = model::p_norm(op.flops * c.flop_time, op.kv_bytes * c.byte_time, c.p).value;
  double time = c.t0 * op.launches + op.other_bytes * c.byte_time + norm;
  if (c.residual != nullptr) {
    const auto rows = static_cast<double>(op.m);
    time *= std::exp(model::residual_at(*c.residual, std::log2(rows), std::log2(op.context / rows)));
  }
  return std::max(time, op.kv_bytes * pricer.bound_byte_time()) + op.launches * pricer.kernel_gap();
}

double predicted(const model::OpPricer& pricer, const model::Op& op) {
  if (op.kind == model::OpKind::decode_attention) return decode_attention_time(pricer, op);
  return pricer.price(op).total();
}

}  // namespace

std::string ops_csv(std::span<const ReplicaTraces> replicas, const load::Scenario& s) {
  const model::OpPricer pricer(sim::cost_inputs(s));
  std::string text = "step,rank,layer,op,m,n,k,batch,context,measured_s,predicted_s\n";
  for (const ReplicaTraces& replica : replicas) {
    std::int64_t first = replica.ops.empty() ? 0 : replica.ops.front().step;  // earlier steps were the warm-up
    for (const exec::OpTrace& trace : replica.ops) first = std::min(first, trace.step);
    for (const exec::OpTrace& trace : replica.ops) {
      const model::Op& op = trace.op;
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},", trace.step - first + 1,
                     replica.first_rank + trace.rank, trace.layer < 0 ? std::string() : fmt::format("{}", trace.layer),
                     model::name(op.id), op.m, op.n, op.k);
      if (is_attention(op)) {
        fmt::format_to(std::back_inserter(text), "{},{},", op.kind == model::OpKind::decode_attention ? op.m : 1,
                       study::number_text(op.context));
      } else {
        text += ",,";
      }
      text += study::number_text(trace.measured_s) + ',' + study::number_text(predicted(pricer, op)) + '\n';
    }
  }
  return text;
}

}  // namespace plimsoll::cli
