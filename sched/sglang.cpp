// SPDX-License-Identifier: Apache-2.0
#include "sched/sglang.h"

#include <algorithm>

#include "sched/rows.h"
#include "sched/sglang_decode.h"

namespace plimsoll::sched {

namespace {
constexpr std::int64_t kClip = 4096;  // CLIP_MAX_NEW_TOKENS: longer caps are cut to this in estimates
constexpr double kInitRatio = 0.7, kMinShare = 0.14, kDecaySteps = 600;
constexpr std::int64_t kRetractSteps = 20;  // after a retraction the estimate covers this many decode steps ahead
constexpr std::int32_t kDropsLate = 5;      // the version, 0.5
constexpr std::size_t kLongQueue = 128;     // in longer queues the longest-prefix order falls back to FCFS

std::int64_t believed_cap(const Request& request) { return std::min<std::int64_t>(request.max_new, kClip); }

std::int64_t remaining_cap(ReqId id, const View& view) {
  return std::min<std::int64_t>(view.requests[id].max_new - view.requests.generated(id), kClip);
}
}  // namespace

std::unique_ptr<Policy> make_sglang(const PolicyConfig& config) {
  if (config.role == Role::decode) return std::make_unique<SgLangDecode>(config);
  return std::make_unique<SgLang>(config);
}

SgLang::SgLang(const PolicyConfig& config)
    : max_running_(resolve_limits(config).max_running),
      chunk_tokens_(resolve_limits(config).chunk_tokens),
      prefill_tokens_(resolve_limits(config).prefill_tokens),
      recv_interval_(config.scheduler_recv_interval),
      max_len_(config.max_len()),
      drops_late_(config.version == kDropsLate),
      prefills_only_(config.role == Role::prefill),
      init_ratio_(std::min(kInitRatio * config.conservativeness.value_or(1), 1.0)),
      min_ratio_(std::min(init_ratio_ * kMinShare, 1.0)),
      decay_((init_ratio_ - min_ratio_) / kDecaySteps),
      base_ratio_(init_ratio_) {}

// Refuses a request that would not fit even into an empty pool: it would block the queue for ever.
std::optional<Reject> SgLang::admit(const Request& request, const View& view) const {
  if (max_len_ > 0 && most_tokens(request) > max_len_) return Reject{kNoRequest, 400, "context_length"};
  if (request.prompt + believed_cap(request) >= view.kv.total() * view.kv.block_tokens())
    return Reject{kNoRequest, 500, "kv_capacity"};
  return {};
}

void SgLang::on_cancel(ReqId id, const View&, Nanos) {
  if (remove_one(arrived_, id) || remove_one(waiting_, id)) return;
  // Departed rows behind the cancelled one move up with those that still run.
  if (const auto found = std::find(running_.begin(), running_.end(), id); found != running_.end()) {
    auto place = static_cast<std::size_t>(found - running_.begin());
    for (Gone& gone : gone_) gone.place <= place ? ++place : --gone.place;
    running_.erase(found);
  }
  if (chunked_request_ == id) chunked_request_ = kNoRequest;
  full_ = false;
}

// The product drops the rows of finished requests late. Rows of a prefill step are dropped when it joins the others,
// rows of other steps before the next decode. Until then they count, and the batch stays full.
void SgLang::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  if (chunked_request_ != kNoRequest && view.requests.decoding(chunked_request_)) chunked_request_ = kNoRequest;
  for (const ReqId id : done.finished) {
    if (chunked_request_ == id) chunked_request_ = kNoRequest;
    const auto found = std::find(running_.begin(), running_.end(), id);
    if (drops_late_ && !last_extended_ && found != running_.end())
      gone_.push_back({static_cast<std::size_t>(found - running_.begin()), remaining_cap(id, view)});
  }
  std::sort(gone_.begin(), gone_.end(), [](const Gone& a, const Gone& b) { return a.place < b.place; });
  for (const ReqId id : done.finished) remove_one(running_, id);
  const bool shrank = !done.finished.empty() || chunked_request_ != kNoRequest;
  const bool begins = was_empty_ && !running_.empty();
  if (drops_late_ ? last_extended_ && (shrank || begins) : shrank) full_ = false;
  // A prefill counts for so many decode steps that the scheduler looks for requests after each one.
  since_received_ += last_extended_ ? recv_interval_ : done.steps;
  last_extended_ = false;
  if (last_decoded_) decode_steps_ += done.steps;
}

// Returns the rows of the last steps, including finished ones but not the request whose prompt is incomplete.
std::int64_t SgLang::rows() const {
  return std::ssize(running_) + std::ssize(gone_) - (chunked_request_ != kNoRequest ? 1 : 0);
}

// An idle server looks for requests all the time.
void SgLang::receive() {
  if (!running_.empty() && since_received_ < recv_interval_) return;
  waiting_.insert(waiting_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  since_received_ = 0;
}

// Drops the rows of finished requests. Returns false if there were none.
bool SgLang::filter() {
  if (gone_.empty()) return false;
  gone_.clear();
  full_ = false;
  return true;
}

double SgLang::ratio() const {
  if (decode_steps_ == 0) return base_ratio_;  // a retraction may set it below the floor of the decay
  return std::max(base_ratio_ - decay_ * static_cast<double>(decode_steps_), min_ratio_);
}

void SgLang::decide(Nanos now, const View& view, Decision& out) {
  Forward& forward = out.add_forward();
  last_decoded_ = false;
  receive();
  if (prefills_only_) full_ = false;  // a prefill server's transfers free memory at any time
  was_empty_ = rows() == 0;
  schedule_prefill(view, out, forward);
  if (forward.prefill.empty()) {
    const bool filtered = filter();
    if (!running_.empty()) {
      schedule_decode(view, out, forward);
    } else {  // a server without a batch starts afresh
      base_ratio_ = init_ratio_;
      decode_steps_ = 0;
      was_empty_ = true;
      if (filtered) schedule_prefill(view, out, forward);
    }
  }
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (!out.rejects.empty() && (!waiting_.empty() || !running_.empty())) out.wake_at = now + 1;
    return;
  }
  last_extended_ = !forward.prefill.empty();
  if (last_extended_ || !out.kv.empty() || (!full_ && !waiting_.empty())) return;
  out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1);
  out.arrival_breaks = !full_ && std::ssize(running_) < max_running_;
  if (recv_interval_ == 1) return;
  // Arrivals change nothing before the next look.
  out.repeat = std::min(out.repeat, recv_interval_ - 1 - since_received_);
  out.arrival_breaks = false;
}

SgLang::Room SgLang::room(const View& view) const {
  Room room{.kv = KvPreview(view.kv)};
  const double available = static_cast<double>(view.kv.free()) * view.kv.block_tokens();
  const double share = ratio();
  double aside = 0;  // summed in batch order, as in the product, because the admission test depends on exact ties
  std::vector<Gone>::const_iterator gone = gone_.begin();
  for (std::size_t i = 0; i <= running_.size(); ++i) {
    // Places also count departed rows, so each departed row that is passed shifts the following ones by one.
    for (; gone != gone_.end() && gone->place <= i + static_cast<std::size_t>(gone - gone_.begin()); ++gone)
      aside += static_cast<double>(gone->unused) * share;
    if (i < running_.size() && running_[i] != chunked_request_)
      aside += static_cast<double>(remaining_cap(running_[i], view)) * share;
  }
  room.total = available - aside;
  room.current = available;
  room.input = prefill_tokens_;
  room.chunk = chunk_tokens_;
  room.block = view.kv.block_tokens();
  return room;
}

// The flag `full_` remembers that the last attempt found no room. It spares the walk over the queue until a request
// ends.
void SgLang::schedule_prefill(const View& view, Decision& out, Forward& forward) {
  const bool pending_chunk = chunked_request_ != kNoRequest;
  if ((full_ || waiting_.empty()) && !pending_chunk) return;
  const std::int64_t places = max_running_ - rows();
  if (places <= 0 && !pending_chunk) {
    full_ = true;
    return;
  }
  Prefill step{view, room(view), out, forward};
  if (pending_chunk) continue_chunk(step);
  order_waiting(view);
  while (!waiting_.empty()) {
    if (std::ssize(forward.prefill) >= places) full_ = true;
    if (full_) break;
    const ReqId id = waiting_.front();
    const Verdict verdict = add(id, step);
    if (verdict == Verdict::go_on) continue;
    if (verdict == Verdict::no_memory) full_ = true;
    break;
  }
  if (forward.prefill.empty()) refuse_head_that_never_fits(view, out);
}

// Schedules the rest of a prompt, or as much of it as one chunk allows.
void SgLang::continue_chunk(Prefill& step) {
  auto& [view, room, out, forward] = step;
  const ReqId id = chunked_request_;
  const Tok computed = view.requests.computed(id), length = view.requests.length(id);
  const std::int64_t most = std::min(room.chunk, static_cast<std::int64_t>(room.total));
  const auto tokens = static_cast<Tok>(std::clamp<std::int64_t>(most, 1, length - computed));
  const bool whole = computed + tokens == length;
  // There is room, as when the first chunk was admitted: no request has decoded or been admitted since then.
  room.kv.take(view.kv.need(id, computed + tokens));
  out.kv.push_back({KvOp::Kind::grow, id, computed + tokens});
  forward.prefill.push_back({id, tokens, computed, whole});
  spend(room, tokens, whole ? believed_cap(view.requests[id]) : 0);
}

SgLang::Verdict SgLang::add(ReqId id, Prefill& step) {
  const View& view = step.view;
  Room& room = step.room;
  const Tok length = view.requests.length(id);
  const PrefixHit hit = room.kv.prefix_hit(id, length - 1);
  const Tok extend = length - hit.tokens;
  const std::int64_t future = remaining_cap(id, view);
  // Cached blocks that no request holds count as available until they are attached.
  const double idle = static_cast<double>(hit.idle_blocks) * view.kv.block_tokens();
  if (static_cast<double>(extend + future) >= room.total - idle) return Verdict::no_memory;
  if (extend >= room.input && !step.forward.prefill.empty()) return Verdict::other;
  Tok tokens = extend;
  if (extend > room.chunk) {
    // Chunks end with a page, so that no page is written by two steps.
    tokens = static_cast<Tok>(room.chunk) / view.kv.block_tokens() * view.kv.block_tokens();
    if (tokens <= 0) return Verdict::other;
  }
  // The blocks must also be free now: the test above only compares estimates.
  const Blk fresh = view.kv.blocks_for(hit.tokens + tokens) - hit.tokens / view.kv.block_tokens();
  if (fresh + hit.idle_blocks > room.kv.free()) return Verdict::no_memory;
  room.total -= idle;
  room.current -= idle;
  take(id, hit.tokens, tokens, step);
  running_.push_back(id);
  waiting_.pop_front();
  if (tokens < extend) {  // nothing is set aside for its further chunks, so no other request is admitted beside it
    chunked_request_ = id;
    return Verdict::other;
  }
  spend(room, tokens, believed_cap(view.requests[id]));
  if (room.total <= 0 || room.current <= 0) return Verdict::no_memory;
  return room.input <= 0 || room.chunk <= 0 ? Verdict::other : Verdict::go_on;
}

void SgLang::take(ReqId id, Tok cached, Tok tokens, Prefill& step) const {
  auto& [view, room, out, forward] = step;
  if (cached > 0) {
    room.kv.attach_prefix(id, cached);
    out.kv.push_back({KvOp::Kind::attach_prefix, id, cached});
  }
  room.kv.take(view.kv.blocks_for(cached + tokens) - cached / view.kv.block_tokens());
  out.kv.push_back({KvOp::Kind::grow, id, cached + tokens});
  forward.prefill.push_back({id, tokens, cached, cached + tokens == view.requests.length(id)});
}

// Memory is charged in whole pages.
void SgLang::spend(Room& room, std::int64_t tokens, std::int64_t future) const {
  tokens = (tokens + room.block - 1) / room.block * room.block;
  room.total -= static_cast<double>(tokens + future);
  room.current -= static_cast<double>(tokens);
  room.input -= tokens;
  room.chunk -= tokens;
}

// lpm: with a prefix cache, requests with the longest cached prefix go first. Long queues are not sorted.
void SgLang::order_waiting(const View& view) {
  if (!view.kv.prefix_caching() || waiting_.size() > kLongQueue || waiting_.size() < 2) return;
  std::vector<std::pair<Tok, ReqId>> order;
  order.reserve(waiting_.size());
  for (const ReqId id : waiting_) order.emplace_back(view.kv.prefix_hit(id, view.requests.length(id) - 1).tokens, id);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::transform(order.begin(), order.end(), waiting_.begin(), [](const auto& entry) { return entry.second; });
}

// If no request runs and the pool is empty, a head that cannot be admitted would block the queue for ever.
void SgLang::refuse_head_that_never_fits(const View& view, Decision& out) {
  if (waiting_.empty() || !running_.empty() || !gone_.empty() || view.kv.free() < view.kv.total()) return;
  out.rejects.push_back({waiting_.front(), 500, "kv_capacity"});
  waiting_.pop_front();
  full_ = false;
}

void SgLang::schedule_decode(const View& view, Decision& out, Forward& forward) {
  if (view.kv.group_growth(1) > view.kv.free()) retract(view, out);
  std::int64_t members = view.requests.group_size();
  for (const ReqId id : out.preempted) members -= view.requests.decoding(id) ? 1 : 0;
  for (const Reject& refusal : out.rejects) members -= view.requests.decoding(refusal.id) ? 1 : 0;
  if (members == 0) return;
  forward.decodes = Decodes::group;
  last_decoded_ = out.preempted.empty();  // a step that retracts sets a new ratio instead of letting it decay
}

void sort_for_retraction(std::vector<ReqId>& requests, const View& view) {
  std::stable_sort(requests.begin(), requests.end(), [&](ReqId a, ReqId b) {
    const Tok out_a = view.requests.generated(a), out_b = view.requests.generated(b);
    return out_a != out_b ? out_a > out_b : view.requests[a].prompt < view.requests[b].prompt;
  });
}

// Retracts requests until the others can decode one more token; at least one stays.
void SgLang::retract(const View& view, Decision& out) {
  std::vector<ReqId> order;
  for (const ReqId id : running_)
    if (view.requests.decoding(id)) order.push_back(id);
  sort_for_retraction(order, view);
  Blk need = view.kv.group_growth(1);
  KvPreview kv(view.kv);
  while (need > kv.free() && order.size() > 1) {
    const ReqId id = order.back();
    order.pop_back();
    need -= view.kv.need(id, view.requests.computed(id) + 1);
    kv.release(id);
    out.preempted.push_back(id);
    out.kv.push_back({KvOp::Kind::free_all, id, 0});
    remove_one(running_, id);
    waiting_.push_back(id);
    full_ = false;
  }
  if (need > kv.free() && !order.empty()) {  // the last request exceeds the pool: it would never end
    out.rejects.push_back({order.front(), 500, "kv_capacity"});
    remove_one(running_, order.front());
    full_ = false;
    order.clear();
  }
  if (drops_late_) running_ = order;
  std::int64_t produced = 0, caps = 0;
  for (const ReqId id : order) {
    produced += view.requests.generated(id);
    caps += view.requests[id].max_new;
  }
  // SGLang's new estimate: the share of their caps that the remaining requests will have used a few steps from now.
  base_ratio_ =
      std::min(1.0, static_cast<double>(produced + kRetractSteps * std::ssize(order)) / static_cast<double>(caps + 1));
  decode_steps_ = 0;
}

}  // namespace plimsoll::sched
