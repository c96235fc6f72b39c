// SPDX-License-Identifier: Apache-2.0
#include "exec/live/step_builder.h"

#include <algorithm>

#include "model/error.h"
#include "sched/prefix_cache.h"

namespace plimsoll::exec {

using sched::KvOp;

StepBuilderConfig builder_config(const load::Scenario& scenario, std::int32_t sequences, const Sampling& sampling) {
  return {.kv = scenario.kv,
          .block_by_block = sched::traits_of(scenario.policy).block_by_block,
          .sequences = sequences,
          .sampling = sampling};
}

StepBuilder::StepBuilder(const StepBuilderConfig& config, const PromptSource& prompts, ForwardDevice& device)
    : prompts_(prompts),
      device_(device),
      pool_(config.kv.blocks, config.kv.block_tokens, config.kv.prefix_caching && !config.kv.in_slots,
            config.kv.partial_first),
      sampling_(config.sampling),
      block_tokens_(config.kv.block_tokens),
      block_by_block_(config.block_by_block) {
  for (std::int32_t slot = config.sequences; slot-- > 0;) free_slots_.push_back(slot);
}

// ---- requests and their blocks ------------------------------------------------------------------------------

void StepBuilder::begin(const StepOrder& order) {
  const std::lock_guard lock(mutex_);
  // In the order in which the scheduler made them: an identifier may be closed and opened again between two steps.
  for (const Change& change : order.changes) {
    if (change.landed)
      land(*change.landed);
    else if (!change.kv.empty())
      apply(change.kv);
    else if (change.opens)
      open(change.request);
    else
      close(change.request.id);
  }
  apply(order.kv);
}

// Applies operations in the order of Replica::apply(); otherwise the pool could run out of blocks although the ledger
// does not.
void StepBuilder::apply(const std::vector<KvOp>& ops) {
  // Free first, as KvOp prescribes: the operations after it may take the freed blocks.
  for (const KvOp& op : ops) {
    if (op.kind == KvOp::Kind::free_all && !block_by_block_) free_all(op);
    if (op.kind == KvOp::Kind::swap_out) swap_out(op.id);
  }
  for (const KvOp& op : ops) {
    if (op.kind == KvOp::Kind::free_all && block_by_block_) free_all(op);
    if (op.kind == KvOp::Kind::attach_prefix) {
      pool_.attach_prefix(op.id, static_cast<Tok>(op.tokens));
      sequence(op.id).computed = static_cast<Tok>(op.tokens);
    }
    if (op.kind == KvOp::Kind::swap_in) swap_in(op.id);
    if (op.kind == KvOp::Kind::load) pool_.cover(op.id, op.tokens);
    if (op.kind != KvOp::Kind::grow && op.kind != KvOp::Kind::reserve) continue;
    pool_.cover(op.id, op.tokens);
    if (block_by_block_) pool_.publish(op.id, static_cast<Tok>(op.tokens));
  }
}

// Takes the blocks that the same decision gave the request, then frees all of them: the order of the free queue depends
// on that.
void StepBuilder::free_all(const KvOp& op) {
  Sequence& s = sequence(op.id);
  // The same decision had made the request cover `tokens` before it was preempted.
  pool_.cover(op.id, op.tokens);
  pool_.release(op.id, std::max(s.computed, static_cast<Tok>(op.tokens)));
  s.computed = 0;
}

void StepBuilder::open(const OpenRequest& request) {
  if (request.id >= sequences_.size()) sequences_.resize(request.id + 1);
  Sequence& s = sequence(request.id);
  s = Sequence{};
  s.serial = request.serial;
  s.origin = request;
  pool_.open(request.id,
             sched::block_hashes(
                 {.hashes = request.prefix_hashes, .block_tokens = request.hash_block_tokens, .tokens = request.input},
                 block_tokens_));
}

// The request's computed content stays findable for others until its blocks are taken.
void StepBuilder::close(ReqId id) {
  Sequence& s = sequence(id);
  pool_.release(id, s.computed, false);
  pool_.close(id);
  if (s.slot >= 0) free_slots_.push_back(s.slot);
  s = Sequence{};
}

// As Replica::take_landed(): without a first token the last token of the prompt is computed again.
void StepBuilder::land(const LandedKv& kv) {
  Sequence& s = sequence(kv.id);
  const auto bytes = static_cast<std::size_t>(device_.bytes_per_block());
  const std::span<const std::int32_t> table = pool_.table(kv.id);
  const auto first = static_cast<std::size_t>(kv.first / block_tokens_), count = kv.blocks.size() / bytes;
  PLIMSOLL_CHECK(first + count <= table.size(), "the blocks of arriving KV are allocated");
  for (std::size_t i = 0; i < count; ++i)
    device_.write_block(table[first + i], std::span(kv.blocks).subspan(i * bytes, bytes));
  const Tok prompt = s.origin.input;
  s.computed = std::max(s.computed, s.origin.seeded ? prompt : prompt - 1);
  pool_.publish(kv.id, s.computed);
  if (!s.origin.seeded) return;
  PLIMSOLL_CHECK(kv.token.has_value(), "the KV of a complete prompt comes with its first token");
  materialise(s);
  take_slot(s);
  s.tokens.push_back(*kv.token);
  if (on_token) on_token(s.serial, *kv.token);
}

StepBuilder::Outgoing StepBuilder::outgoing(ReqId id, Tok first, Tok last) const {
  const std::lock_guard lock(mutex_);
  const Sequence& s = sequences_.at(id);
  const std::span<const std::int32_t> table = pool_.table(id);
  const auto begin = static_cast<std::size_t>(first / block_tokens_);
  const auto end = static_cast<std::size_t>((last + block_tokens_ - 1) / block_tokens_);
  PLIMSOLL_CHECK(end <= table.size() && last <= s.computed, "KV that is sent has been computed and not freed");
  Outgoing out{
      .blocks = {table.begin() + static_cast<std::ptrdiff_t>(begin), table.begin() + static_cast<std::ptrdiff_t>(end)},
      .token = {}};
  const auto prompt = static_cast<std::size_t>(s.origin.input);
  if (last == s.origin.input && s.tokens.size() > prompt) out.token = s.tokens[prompt];
  return out;
}

void StepBuilder::swap_out(ReqId id) {
  Sequence& s = sequence(id);
  const std::span<const std::int32_t> table = pool_.table(id);
  const auto bytes = static_cast<std::size_t>(device_.bytes_per_block());
  s.swapped.resize(table.size() * bytes);
  s.swapped_blocks = static_cast<std::int64_t>(table.size());
  for (std::size_t i = 0; i < table.size(); ++i)
    device_.read_block(table[i], std::span(s.swapped).subspan(i * bytes, bytes));
  pool_.release(id, 0, false);
}

void StepBuilder::swap_in(ReqId id) {
  Sequence& s = sequence(id);
  pool_.cover(id, s.swapped_blocks * block_tokens_);
  const std::span<const std::int32_t> table = pool_.table(id);
  const auto bytes = static_cast<std::size_t>(device_.bytes_per_block());
  for (std::size_t i = 0; i < table.size(); ++i)
    device_.write_block(table[i], std::span(s.swapped).subspan(i * bytes, bytes));
  // Assigned, not cleared: the memory of a swapped sequence may be gigabytes.
  s.swapped = {};
  s.swapped_blocks = 0;
}

// Draws the prompt only when it is needed, so that waiting requests use no memory for tokens.
void StepBuilder::materialise(Sequence& s) {
  if (!s.tokens.empty()) return;
  prompts_.append(s.origin, s.tokens);
  s.sampling = prompts_.sampling(s.origin);
  s.origin.prefix_hashes = {};
}

void StepBuilder::take_slot(Sequence& s) {
  if (s.slot >= 0 || free_slots_.empty()) return;
  s.slot = free_slots_.back();
  free_slots_.pop_back();
}

// The next step may start before this one's tokens are read back only if every row finds its token on the device.
bool StepBuilder::may_run_ahead(const StepOrder& order) const {
  return std::all_of(order.forwards.begin(), order.forwards.end(), [this](const OrderForward& forward) {
    return std::all_of(forward.decode.begin(), forward.decode.end(),
                       [this](ReqId id) { return sequences_[id].slot >= 0; });
  });
}

// ---- forwards -----------------------------------------------------------------------------------------------

void StepBuilder::prepare(const StepOrder& order, std::int64_t step, std::size_t index) {
  const std::lock_guard lock(mutex_);
  const OrderForward& decided = order.forwards[index];
  // Rows are built anew for every step, in reused storage.
  if (spare_.empty()) {
    in_flight_.emplace_back();
  } else {
    in_flight_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  InFlight& forward = in_flight_.back();
  forward.input.prefill.clear();
  forward.input.decode.clear();
  forward.input.sampling = sampling_;
  forward.answers.clear();
  if (index == 0) cover_decodes(order);
  for (const sched::Segment& segment : decided.prefill) add_prefill(segment, decided.padded, forward);
  // A static batch is padded to its longest row, which grows by one token per step.
  const Tok charged = decided.padded > 0 && !decided.decode.empty() ? decided.padded + static_cast<Tok>(step) : 0;
  for (const ReqId id : decided.decode) add_decode(id, charged, forward);
  for (const ReqId id : decided.dead)
    add_dead(id, decided.padded > 0 ? decided.padded + static_cast<Tok>(step) : 0, forward);
}

// Called before any row points into a block table, because a table may move when it grows. Covers all forwards of the
// step, because the ledger also lets decodes grow before it publishes the step's prefills.
void StepBuilder::cover_decodes(const StepOrder& order) {
  for (const OrderForward& forward : order.forwards)
    for (const ReqId id : forward.decode) pool_.cover(id, sequence(id).computed + 1);
}

void StepBuilder::add_prefill(const sched::Segment& segment, Tok padded, InFlight& forward) {
  Sequence& s = sequence(segment.id);
  materialise(s);
  take_slot(s);
  PLIMSOLL_CHECK(s.computed == segment.context, "a segment begins after the cached tokens");
  const auto first = static_cast<std::size_t>(segment.context), count = static_cast<std::size_t>(segment.new_tokens);
  PLIMSOLL_CHECK(first + count <= s.tokens.size(), "the tokens of a segment have been computed");
  s.computed += segment.new_tokens;
  PLIMSOLL_CHECK(pool_.held(segment.id) * block_tokens_ >= s.computed, "a segment holds enough blocks");
  forward.input.prefill.push_back({.tokens = std::span(s.tokens).subspan(first, count),
                                   .context = segment.context,
                                   .blocks = pool_.table(segment.id),
                                   .slot = s.slot,
                                   .request = s.sampling_key(),
                                   .padding = std::max<Tok>(0, padded - segment.new_tokens),
                                   .emits = segment.emits,
                                   .sampling = s.own_sampling()});
  published_.emplace_back(segment.id, s.computed);
  if (segment.emits) forward.answers.push_back(segment.id);
}

void StepBuilder::add_decode(ReqId id, Tok charged, InFlight& forward) {
  Sequence& s = sequence(id);
  // A step that runs ahead does not know the newest token yet: the device reads it from the sequence's slot.
  const auto newest = static_cast<std::size_t>(s.computed);
  const bool known = newest < s.tokens.size();
  PLIMSOLL_CHECK(known || s.slot >= 0, "a sequence whose token is in flight has a slot");
  forward.input.decode.push_back({.token = known ? s.tokens[newest] : -1,
                                  .context = s.computed,
                                  .blocks = pool_.table(id),
                                  .slot = s.slot,
                                  .request = s.sampling_key(),
                                  .charged = charged,
                                  .dead = false,
                                  .sampling = s.own_sampling()});
  ++s.computed;
  forward.answers.push_back(id);
}

// A finished row of a static batch: computed like the others, with an answer that is thrown away.
void StepBuilder::add_dead(ReqId id, Tok charged, InFlight& forward) {
  const Sequence& s = sequence(id);
  forward.input.decode.push_back({.token = 0,
                                  .context = s.computed,
                                  .blocks = pool_.table(id),
                                  .slot = s.slot,
                                  .request = s.serial,
                                  .charged = charged,
                                  .dead = true});
  forward.answers.push_back(sched::kNoRequest);
}

void StepBuilder::finish() {
  PLIMSOLL_CHECK(!in_flight_.empty(), "a forward was started");
  device_.finish(output_);
  const std::lock_guard lock(mutex_);
  InFlight& forward = in_flight_.front();
  PLIMSOLL_CHECK(output_.tokens.size() == forward.answers.size(), "each emitting span and decode row has a token");
  for (std::size_t i = 0; i < forward.answers.size(); ++i) {
    if (forward.answers[i] == sched::kNoRequest) continue;
    Sequence& s = sequence(forward.answers[i]);
    s.tokens.push_back(output_.tokens[i]);
    if (on_token) on_token(s.serial, output_.tokens[i]);
  }
  // Keep the vectors' memory for a later forward.
  spare_.push_back(std::move(forward));
  in_flight_.pop_front();
}

void StepBuilder::end_step() {
  const std::lock_guard lock(mutex_);
  if (!block_by_block_)
    for (const auto& [id, computed] : published_) pool_.publish(id, computed);
  published_.clear();
}

}  // namespace plimsoll::exec
