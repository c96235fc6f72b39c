// SPDX-License-Identifier: Apache-2.0
#include "endpoints/endpoint_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "endpoints/redact.h"
#include "model/error.h"

namespace plimsoll::endpoints {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Nanos kLookEvery = 50'000'000;
constexpr std::chrono::seconds kStateEvery{1};
constexpr std::chrono::seconds kSilence{300};    // an answer fails after this long without a further token
constexpr std::chrono::seconds kNoToken{3600};   // the same before its first token: it may wait in a queue
constexpr std::chrono::seconds kEndOfStream{1};  // the time a complete answer has to close its stream
constexpr std::string_view kFailed = "failed: ";
constexpr std::int64_t kGone = 3;          // after this many refused connections in a row, the server is gone
constexpr std::int32_t kSlackTokens = 16;  // tolerated beyond the tokens that were asked for

// Returns the relative error of a prompt's length. For prompts sent as text, a difference of one token is no error.
double prompt_error(std::int32_t counted, sched::Tok wanted) {
  return std::max(0, std::abs(counted - wanted) - 1) / static_cast<double>(wanted);
}

double seconds(Nanos time) { return 1e-9 * static_cast<double>(time); }

// Receives /metrics during the run.
class StateCall final : public net::HttpCall {
 public:
  explicit StateCall(std::function<void(const std::string&)> then) : then_(std::move(then)) {}
  bool head(const net::HttpHead& head) override { return head.status == 200; }
  bool body(std::string_view bytes) override {
    constexpr std::size_t kMost = std::size_t{4} << 20;
    body_ += bytes.substr(0, kMost - body_.size());
    return body_.size() < kMost;
  }
  void ended(const net::HttpEnd& end) override { then_(end.failure ? std::string() : body_); }

 private:
  std::function<void(const std::string&)> then_;
  std::string body_;
};

}  // namespace

EndpointRun::EndpointRun(Server& server, const Prompts& prompts, EndpointFigures& figures,
                         const load::OutputDrift& drift)
    : server_(server), prompts_(prompts), figures_(figures), speed_(server.facts().speed), drift_(drift) {
  figures_.speed = speed_;
}

EndpointRun::~EndpointRun() {
  *alive_ = false;
  end_plans();
}

void EndpointRun::start() {
  zero_ = Clock::now();
  if (server_.facts().has_metrics) ask_state();
}

// If the server's clock runs k times faster, every measured time counts k times.
Nanos EndpointRun::time_of(net::Deadline at) const {
  const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(at - zero_).count();
  return speed_ == 1 ? passed : std::llround(static_cast<double>(passed) * speed_);
}

Nanos EndpointRun::wait(Nanos until) {
  until = std::min(until, look_at_);
  const std::chrono::nanoseconds real(speed_ == 1 ? until : std::llround(static_cast<double>(until) / speed_));
  if (answered_.empty()) server_.loop().run(zero_ + real);
  return time_of(Clock::now());
}

bool EndpointRun::looks_up(Nanos now) {
  if (now < look_at_) return false;
  look_at_ = now + std::llround(static_cast<double>(kLookEvery) * speed_);
  drop_silent();
  return true;
}

bool EndpointRun::complete(Nanos now, load::RunLoop& loop) {
  if (!failure_.empty()) throw DeviceError(failure_);
  loop.reached(now);
  if (answered_.empty()) return false;
  for (const sched::FinishedAttempt& attempt : answered_) ended_.push_back(attempt);
  answered_.clear();
  loop.collect(0);
  return true;
}

void EndpointRun::end_plans() {
  for (const auto& [serial, attempt] : open_) server_.client().cancel(attempt.call);
  for (const Lingering& call : lingering_) server_.client().cancel(call.call);
  lingering_.clear();
  open_.clear();
  answered_.clear();
}

// ---- requests -----------------------------------------------------------------------------------------------------

Prompt EndpointRun::prompt_of(const sched::NewRequest& request) const {
  const PromptSpec spec{request.serial, request.input, request.prefix_hashes, request.hash_block_tokens};
  if (server_.facts().features.token_ids) return {prompts_.ids(spec), {}, request.session, request.priority};
  return {{}, prompts_.text(spec), request.session, request.priority};
}

// A retry has the send time of the first attempt, and its pause is not lateness of the client. So only first attempts
// count.
void EndpointRun::note_lateness(const sched::NewRequest& request, Nanos now) {
  if (retries_) {
    if (request.client >= sent_of_.size()) sent_of_.resize(request.client + 1, -1);
    if (std::exchange(sent_of_[request.client], request.sent) == request.sent) return;
  }
  figures_.lateness.add(seconds(std::max<Nanos>(0, now - request.sent)), 1);
}

std::optional<sched::ReqId> EndpointRun::arrive(std::size_t, const sched::NewRequest& request, Nanos now) {
  note_lateness(request, now);
  ++figures_.attempts;
  Attempt attempt;
  attempt.record = {.serial = request.serial,
                    .client = request.client,
                    .input = request.input,
                    .output = request.output,
                    .max_new = request.max_new,
                    .sent = request.sent,
                    .arrived = now,
                    .service = {}};
  attempt.asked = request.output;
  attempt.shares = !request.prefix_hashes.empty();
  const std::uint64_t serial = request.serial;
  attempt.answer = std::make_shared<Answer>(
      server_.facts().api, request.output + kSlackTokens,
      Answer::Events{.tokens = [this, serial](net::Deadline at, std::int32_t tokens) { token(serial, at, tokens); },
                     .ended = [this, serial](const AnswerResult& result) { answered(serial, result); }});
  const ServerFacts& facts = server_.facts();
  const Prompt prompt = prompt_of(request);
  attempt.text = prompt.text;
  attempt.call =
      server_.client().send({.method = "POST",
                             .target = std::string(path(facts.api)),
                             .content_type = "application/json",
                             .body = request_body({facts.api, facts.features, facts.model}, prompt, request.output)},
                            attempt.answer);
  open_.emplace(serial, std::move(attempt));
  return static_cast<sched::ReqId>(serial);
}

void EndpointRun::cancel(std::size_t, sched::ReqId, std::uint64_t serial, Nanos) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  server_.client().cancel(found->second.call);
  open_.erase(found);
}

// k tokens that arrive at once have k gaps: the first is the time since the last token, the others are 0.
void EndpointRun::token(std::uint64_t serial, net::Deadline at, std::int32_t tokens) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  Attempt& attempt = found->second;
  std::int32_t gaps = tokens;
  if (attempt.last_token == net::Deadline{}) {
    --gaps;
  } else {
    itl_.add(seconds(time_of(at) - time_of(attempt.last_token)), 1);
    --gaps;
  }
  if (gaps > 0) itl_.add(0, gaps);
  attempt.last_token = at;
}

void EndpointRun::answered(std::uint64_t serial, const AnswerResult& result) {
  const auto found = open_.find(serial);
  if (found == open_.end()) return;
  Attempt& attempt = found->second;
  sched::FinishedAttempt& record = attempt.record;
  record.generated = result.tokens;
  if (result.tokens > 0) record.first_token = time_of(result.first_token);
  record.end = time_of(result.end);
  if (result.refusal) {
    record.outcome = sched::Outcome::rejected;
    record.http = result.refusal->http;
    record.code = result.refusal->code;
    record.unfit = record.http == 400 || record.http == 422;
    check_access(attempt, result);
  } else {
    record.output = result.tokens;
  }
  note(attempt, result);
  if (!result.refusal) lingering_.push_back({Clock::now(), attempt.call});
  answered_.push_back(record);
  open_.erase(found);
  // End the wait, so that the run takes the answer at once.
  server_.loop().stop();
}

void EndpointRun::note(const Attempt& attempt, const AnswerResult& result) {
  if (result.connecting.count() > 0)
    figures_.connecting.add(1e-9 * static_cast<double>(result.connecting.count()) * speed_, 1);
  if (result.reopened) ++figures_.reopened;
  constexpr std::size_t kMostWaits = 32;  // different values of Retry-After
  if (!result.retry_after.empty() && figures_.retry_after.size() < kMostWaits)
    ++figures_.retry_after[result.retry_after];
  if (result.refusal && figures_.first_complaint.empty()) {
    const std::string words = shown_text(result.words, server_.settings().secrets, attempt.text);
    figures_.first_complaint = result.refusal->code + (words.empty() ? "" : ": " + words);
  }
  if (result.refusal) {
    const std::string_view code = result.refusal->code;
    if (result.refusal->http == 400 || result.refusal->http == 422) ++figures_.refused;
    if (code.starts_with(kFailed)) ++figures_.failures[std::string(code.substr(kFailed.size()))];
    return;
  }
  ++figures_.completed;
  any_answer_ = true;
  ++figures_.counts.at(static_cast<std::size_t>(result.count));
  figures_.written_to_first.add(seconds(time_of(result.first_token) - time_of(result.sent)), 1);
  if (result.tokens < attempt.asked) ++figures_.early_ends;
  if (figures_.lengths.size() < EndpointFigures::kMostLengths)
    figures_.lengths.push_back({attempt.record.input, result.tokens});
  if (result.prompt_tokens)
    figures_.prompt_error = std::max(figures_.prompt_error, prompt_error(*result.prompt_tokens, attempt.record.input));
  if (result.cached_tokens) {
    figures_.cached_tokens += *result.cached_tokens;
    if (!attempt.shares && *result.cached_tokens > 0) ++figures_.unintended_hits;
  }
}

// Ends the run if the server refuses the first request for good, or is gone.
void EndpointRun::check_access(const Attempt& attempt, const AnswerResult& result) {
  const std::uint16_t status = result.refusal->http;
  const std::string server = server_.settings().http.server.text();
  if (!any_answer_ && (status == 401 || status == 403 || status == 404))
    failure_ = fmt::format("{}: status {}: {}", server, status,
                           shown_text(result.words, server_.settings().secrets, attempt.text));
  // Only refusals in a row count: a server that is gone never accepts a connection in between.
  refused_in_row_ = result.connection_refused ? refused_in_row_ + 1 : 0;
  if (refused_in_row_ >= kGone) failure_ = fmt::format("{}: the server is gone: {}", server, result.words);
}

// A connection that does not end a complete answer is of no further use.
void EndpointRun::drop_lingering(net::Deadline now) {
  for (; !lingering_.empty() && now - lingering_.front().since > kEndOfStream; lingering_.pop_front())
    server_.client().cancel(lingering_.front().call);  // nothing happens if it has ended
}

// Ends answers that never end: the server sends nothing more, or does not close a complete answer.
void EndpointRun::drop_silent() {
  const net::Deadline now = Clock::now();
  drop_lingering(now);
  std::vector<std::uint64_t> silent;
  for (const auto& [serial, attempt] : open_) {
    const auto quiet = now - attempt.answer->last_token();
    if (quiet > (attempt.answer->has_tokens() ? kSilence : kNoToken) ||
        (quiet > kEndOfStream && attempt.answer->is_complete()))
      silent.push_back(serial);
  }
  for (const std::uint64_t serial : silent) {
    const Attempt& attempt = open_.at(serial);
    const std::shared_ptr<Answer> answer = attempt.answer;
    server_.client().cancel(attempt.call);
    answer->finish();
  }
}

// ---- the server's own figures ---------------------------------------------------------------------------------

void EndpointRun::ask_state() {
  const auto then = [this, alive = alive_](const std::string& text) {
    if (!*alive) return;
    if (!text.empty()) figures_.states.push_back({seconds(time_of(Clock::now())), read_server_state(text)});
    server_.loop().at(Clock::now() + kStateEvery, [this, alive] {
      if (*alive) ask_state();
    });
  };
  server_.client().send({.target = "/metrics", .content_type = {}, .body = {}}, std::make_shared<StateCall>(then));
}

// ---- measurements ---------------------------------------------------------------------------------------------------

void EndpointRun::end_warmup() { itl_ = {}; }

void EndpointRun::measure(sched::MetricsCollector& out) { out.add_itl(itl_); }

}  // namespace plimsoll::endpoints
