// SPDX-License-Identifier: Apache-2.0
#include "exec/group/messages.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::exec::group {

namespace {

// Bits of a decode row's first byte. Fields without a bit set keep the value of a DecodeRow{}.
constexpr std::uint8_t kDead = 1, kHasToken = 2, kIsCharged = 4;

}  // namespace

// ---- the order ------------------------------------------------------------------------------------------------

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
        std::int64_t{c.graphs}, std::int64_t{c.poison}, static_cast<std::int64_t>(std::llround(c.host_memory))})
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
  c.host_memory = static_cast<double>(in.number());
  in.end();
  return order;
}

// ---- forwards -------------------------------------------------------------------------------------------------

net::Bytes ForwardEncoder::encode(const ForwardInput& input) {
  Writer out(Kind::forward);
  out.byte(input.all_logits ? 1 : 0);
  // Only measured runs are spread over processes; their requests have no sampling of their own.
  PLIMSOLL_CHECK(!input.sampling.filters(), "forwards sent to other processes have no top_k, top_p or min_p");
  out.f32(input.sampling.temperature);
  out.whole(input.sampling.seed);
  out.whole(input.prefill.size());
  for (const PrefillRows& span : input.prefill) {
    PLIMSOLL_CHECK(span.sampling == nullptr, "in forwards sent to other processes all sequences share one sampling");
    out.byte(span.emits ? 1 : 0);
    out.number(span.slot);
    out.whole(span.request);
    out.number(span.context);
    out.number(span.padding);
    out.whole(span.tokens.size());
    for (const std::int32_t token : span.tokens) out.number(token);
    blocks(out, span.slot, span.blocks);
  }
  // Decode rows are numerous and mostly alike: a byte of flags states which fields follow.
  out.whole(input.decode.size());
  for (const DecodeRow& row : input.decode) {
    PLIMSOLL_CHECK(row.sampling == nullptr, "in forwards sent to other processes all sequences share one sampling");
    out.byte(static_cast<std::uint8_t>((row.dead ? kDead : 0) | (row.token != -1 ? kHasToken : 0) |
                                       (row.charged != 0 ? kIsCharged : 0)));
    if (row.token != -1) out.number(row.token);
    if (row.charged != 0) out.number(row.charged);
    out.number(row.slot);
    out.whole(row.request);
    out.number(row.context);
    blocks(out, row.slot, row.blocks);
  }
  return out.bytes();
}

// Writes how many leading blocks of the slot's last table are kept, how many new ones follow, and those blocks.
void ForwardEncoder::blocks(Writer& out, std::int32_t slot, std::span<const std::int32_t> table) {
  std::vector<std::int32_t> none;
  std::vector<std::int32_t>& last = slot < 0 ? none : tables_[slot];
  const auto changed = std::mismatch(table.begin(), table.end(), last.begin(), last.end()).first;
  const auto kept = static_cast<std::size_t>(changed - table.begin());
  out.whole(kept);
  out.whole(table.size() - kept);
  for (const std::int32_t block : table.subspan(kept)) out.number(block);
  last.resize(kept);
  last.insert(last.end(), changed, table.end());
}

// Forwards are decoded into a ring, because earlier ones may still run.
const ForwardInput& ForwardDecoder::decode(Reader& message) {
  Forward& forward = forwards_[next_];
  next_ = (next_ + 1) % std::size(forwards_);
  forward = {};
  ForwardInput& input = forward.input;
  input.all_logits = message.byte() != 0;
  input.sampling.temperature = message.f32();
  input.sampling.seed = message.whole();
  for (std::size_t left = message.count(); left > 0; --left) input.prefill.push_back(prefill(message, forward));
  for (std::size_t left = message.count(); left > 0; --left) input.decode.push_back(decode_row(message, forward));
  message.end();
  return input;
}

PrefillRows ForwardDecoder::prefill(Reader& in, Forward& forward) {
  PrefillRows span;
  span.emits = in.byte() != 0;
  span.slot = in.number32();
  span.request = in.whole();
  span.context = in.number();
  span.padding = in.number();
  // The spans of the input point into `numbers`.
  std::vector<std::int32_t>& tokens = forward.numbers.emplace_back(in.count());
  for (std::int32_t& token : tokens) token = in.number32();
  span.tokens = tokens;
  span.blocks = blocks(in, span.slot, forward);
  return span;
}

DecodeRow ForwardDecoder::decode_row(Reader& in, Forward& forward) {
  DecodeRow row;
  const std::uint8_t bits = in.byte();
  row.dead = (bits & kDead) != 0;
  if ((bits & kHasToken) != 0) row.token = in.number32();
  if ((bits & kIsCharged) != 0) row.charged = in.number();
  row.slot = in.number32();
  row.request = in.whole();
  row.context = in.number();
  row.blocks = blocks(in, row.slot, forward);
  return row;
}

std::span<const std::int32_t> ForwardDecoder::blocks(Reader& in, std::int32_t slot, Forward& forward) {
  std::vector<std::int32_t> none;
  std::vector<std::int32_t>& table = slot < 0 ? none : tables_[slot];
  const std::uint64_t kept = in.whole();
  if (kept > table.size()) throw DeviceError("a message from another process refers to blocks that were never sent");
  table.resize(static_cast<std::size_t>(kept));
  for (std::size_t left = in.count(); left > 0; --left) table.push_back(in.number32());
  return forward.numbers.emplace_back(table);
}

}  // namespace plimsoll::exec::group
