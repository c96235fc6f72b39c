// SPDX-License-Identifier: Apache-2.0
#include "load/sessions.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "load/lengths.h"
#include "load/random.h"
#include "model/error.h"
#include "sched/router.h"

namespace plimsoll::load {

namespace {

// Tokens per block of a generated prompt: no engine's blocks are smaller.
constexpr std::int32_t kBlock = 16;
constexpr std::int64_t kMostTokens = 1'000'000'000;  // of a prompt and its answer
constexpr unsigned kTurnBits = 24;                   // of a draw's index; the rest is the session's number
constexpr std::int32_t kMostTurns = 1 << kTurnBits;

std::int64_t blocks_of(std::int64_t tokens, std::int32_t block) { return (tokens + block - 1) / block; }

// Appends the hashes of the following blocks, up to `to` in all. The content only grows at its end, so a hash may
// depend on the content's number and the position alone.
void append_blocks(std::vector<std::uint64_t>& hashes, std::uint64_t content, std::int64_t to) {
  const std::uint64_t seed = sched::mix(content);
  for (auto b = static_cast<std::uint64_t>(hashes.size()); b < static_cast<std::uint64_t>(to); ++b)
    hashes.push_back(sched::mix(seed + b));
}

}  // namespace

class SessionBook::Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual bool may_begin() const { return true; }
  [[nodiscard]] virtual bool begins_at(std::uint64_t) const { return true; }
  [[nodiscard]] virtual SessionSlot begin(std::uint64_t arrival, Nanos now) = 0;
  [[nodiscard]] virtual RequestBody turn(SessionSlot slot) = 0;
  [[nodiscard]] virtual std::optional<Nanos> answered(SessionSlot slot, Nanos now) = 0;
  void end(SessionSlot slot) { free_.push_back(slot); }

 protected:
  template <class Open>
  SessionSlot put(std::vector<Open>& open, Open session) {
    if (free_.empty()) {
      open.push_back(session);
      return static_cast<SessionSlot>(open.size() - 1);
    }
    const SessionSlot slot = free_.back();
    free_.pop_back();
    open[slot] = session;
    return slot;
  }
  std::vector<std::uint64_t> hashes_;  // of the last turn

 private:
  std::vector<SessionSlot> free_;
};

// ---- generated ----------------------------------------------------------------------------------------------

class SessionBook::Generated final : public Source {
 public:
  Generated(const WorkloadSpec& spec, std::uint64_t replication, bool hashes)
      : talk_(*conversation_of(spec.load)),
        prefix_(spec.prefix),
        priorities_(spec.priorities),
        with_hashes_(hashes),
        turns_(talk_.turns, RandomStream(spec.seed, replication, Purpose::turns)),
        first_(lengths_of(spec).input, RandomStream(spec.seed, replication, Purpose::input_length)),
        added_(talk_.added, RandomStream(spec.seed, replication, Purpose::added_length)),
        result_(talk_.result, RandomStream(spec.seed, replication, Purpose::result_length)),
        output_(lengths_of(spec).output, RandomStream(spec.seed, replication, Purpose::output_length)),
        pauses_(spec.seed, replication, Purpose::pause),
        groups_(spec.seed, replication, Purpose::prefix_group),
        priority_(spec.seed, replication, Purpose::priority) {}

  [[nodiscard]] bool may_begin() const override { return talk_.count == 0 || begun_ < talk_.count; }
  [[nodiscard]] SessionSlot begin(std::uint64_t, Nanos) override {
    Open session;
    session.number = static_cast<std::uint64_t>(begun_++);
    session.turns = std::min(turns_.draw(session.number), kMostTurns);
    session.input = first_.draw(session.number << kTurnBits);
    session.output = output_.draw(session.number << kTurnBits);
    if (prefix_.groups > 0) {
      const auto groups = static_cast<std::uint64_t>(prefix_.groups);
      session.group = uniform_below(groups_.block(session.number)[0], groups);
      session.shared = std::min(prefix_.tokens, session.input) / kBlock;
    }
    if (!priorities_.empty()) session.priority = draw_priority(priorities_, priority_.block(session.number)[0]);
    return put(open_, session);
  }
  [[nodiscard]] RequestBody turn(SessionSlot slot) override;
  [[nodiscard]] std::optional<Nanos> answered(SessionSlot slot, Nanos now) override;

 private:
  struct Open {
    std::uint64_t number = 0, group = 0;
    std::int32_t turn = 0, turns = 1;
    std::int32_t input = 1, output = 1;  // of the turn
    std::int32_t shared = 0;             // blocks that belong to the group
    std::int32_t priority = 0;
  };
  static const IndependentLengths& lengths_of(const WorkloadSpec& spec) {
    return std::get<IndependentLengths>(spec.lengths);
  }

  const Conversation talk_;
  const PrefixSpec prefix_;
  const std::vector<PriorityClass> priorities_;
  const bool with_hashes_;
  const LengthSampler turns_, first_, added_, result_, output_;
  const RandomStream pauses_, groups_, priority_;
  std::int64_t begun_ = 0;
  std::vector<Open> open_;
};

RequestBody SessionBook::Generated::turn(SessionSlot slot) {
  const Open& session = open_[slot];
  RequestBody body;
  body.input_tokens = session.input;
  body.output_tokens = body.max_new_tokens = session.output;
  body.session = session.number + 1;
  body.priority = session.priority;
  if (!with_hashes_) return body;
  hashes_.clear();
  // First the blocks that the group shares, then those of the session alone.
  append_blocks(hashes_, ~session.group, session.shared);
  append_blocks(hashes_, session.number, blocks_of(std::int64_t{session.input} + session.output, kBlock));
  body.prefix_hashes = hashes_;
  body.hash_block_tokens = kBlock;
  body.content_tokens = session.input + session.output;
  body.hashes_chain = true;
  return body;
}

std::optional<Nanos> SessionBook::Generated::answered(SessionSlot slot, Nanos now) {
  Open& session = open_[slot];
  const std::int64_t history = std::int64_t{session.input} + session.output;
  if (++session.turn < session.turns) {
    const std::uint64_t index = session.number << kTurnBits | static_cast<std::uint64_t>(session.turn);
    const RandomBlock bits = pauses_.block(index);
    const bool tool = uniform01(bits[2]) < talk_.tool_share;
    const std::int64_t input = history + (tool ? result_ : added_).draw(index);
    const std::int32_t output = output_.draw(index);
    if (input + output <= (talk_.longest > 0 ? std::min(talk_.longest, kMostTokens) : kMostTokens)) {
      session.input = static_cast<std::int32_t>(input);
      session.output = output;
      return now + draw_pause(tool ? talk_.tool : talk_.think, bits);
    }
  }
  end(slot);
  return {};
}

// ---- recorded -----------------------------------------------------------------------------------------------

class SessionBook::Recorded final : public Source {
 public:
  Recorded(const WorkloadSpec& spec, std::uint64_t replication, bool hashes)
      : replay_(std::get<TraceReplay>(spec.load)),
        trace_(*replay_.trace),
        priorities_(spec.priorities),
        with_hashes_(hashes),
        priority_(spec.seed, replication, Purpose::priority),
        turns_(trace_.records.size()) {
    link_turns();
    describe_answers();
  }

  [[nodiscard]] bool begins_at(std::uint64_t arrival) const override { return turns_[arrival % turns_.size()].first; }
  [[nodiscard]] SessionSlot begin(std::uint64_t arrival, Nanos now) override {
    const auto row = static_cast<std::int32_t>(arrival % turns_.size());
    return put(open_, Open{.tile = arrival / turns_.size(), .begun = now, .first = row, .row = row});
  }
  [[nodiscard]] RequestBody turn(SessionSlot slot) override;
  [[nodiscard]] std::optional<Nanos> answered(SessionSlot slot, Nanos now) override;

 private:
  struct Open {
    std::uint64_t tile = 0;
    Nanos begun = 0;
    std::int32_t first = 0, row = 0;
  };
  struct Turn {
    std::int32_t next = -1;  // row of the session's next turn
    bool first = true;
    // The prompt's blocks, and those of its answer if they are known, are the first blocks of this row.
    std::int32_t source = 0;
    std::int32_t content = 0;  // tokens that they describe
  };
  [[nodiscard]] const traces::TraceRecord& record(std::int32_t row) const {
    return trace_.records[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] Turn& at(std::int32_t row) { return turns_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] bool continues(std::int32_t row, std::int32_t next) const;
  void link(std::int32_t row, std::int32_t next);
  void link_turns();
  void link_by_blocks();
  void describe_answers();

  const TraceReplay replay_;
  const traces::Trace& trace_;
  const std::vector<PriorityClass> priorities_;
  const bool with_hashes_;
  const RandomStream priority_;
  std::vector<Turn> turns_;
  std::vector<Open> open_;
};

void SessionBook::Recorded::link(std::int32_t row, std::int32_t next) {
  at(row).next = next;
  at(next).first = false;
}

void SessionBook::Recorded::link_turns() {
  const auto& rows = trace_.records;
  if (std::none_of(rows.begin(), rows.end(), [](const traces::TraceRecord& r) { return r.session != 0; }))
    return link_by_blocks();
  std::unordered_map<std::uint64_t, std::int32_t> last;
  for (std::int32_t row = 0; row < std::ssize(turns_); ++row) {
    const std::uint64_t session = record(row).session;
    if (session == 0) continue;
    const auto [before, fresh] = last.try_emplace(session, row);
    if (fresh) continue;
    link(before->second, row);
    before->second = row;
  }
}

// The trace names no sessions. A row continues an earlier row whose whole blocks are the beginning of its own, if it is
// long enough for that row's prompt and answer. The longest such beginning counts, and of equals the latest row. No row
// is continued twice.
void SessionBook::Recorded::link_by_blocks() {
  std::unordered_map<std::uint64_t, std::int32_t> latest;  // rows not continued yet, by all their whole blocks
  std::vector<std::uint64_t> paths;
  for (std::int32_t row = 0; row < std::ssize(turns_); ++row) {
    const auto hashes = trace_.hashes_of(static_cast<std::size_t>(row));
    const std::int32_t block = std::max(1, trace_.hash_block_tokens), input = record(row).input_tokens;
    paths.clear();
    for (const std::uint64_t hash : hashes.first(std::min(hashes.size(), static_cast<std::size_t>(input / block))))
      paths.push_back(sched::mix((paths.empty() ? 0 : paths.back()) ^ sched::mix(hash)));
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
      const auto found = latest.find(*path);
      if (found == latest.end()) continue;
      const traces::TraceRecord& before = record(found->second);
      if (std::int64_t{before.input_tokens} + before.output_tokens > input) continue;
      link(found->second, row);
      latest.erase(found);
      break;
    }
    if (!paths.empty()) latest[paths.back()] = row;
  }
}

// Returns whether the prompt of the next turn begins with this turn's prompt.
bool SessionBook::Recorded::continues(std::int32_t row, std::int32_t next) const {
  const traces::TraceRecord &a = record(row), &b = record(next);
  if (trace_.hash_block_tokens == 0) return std::int64_t{a.input_tokens} + a.output_tokens <= b.input_tokens;
  const auto before = trace_.hashes_of(static_cast<std::size_t>(row)),
             after = trace_.hashes_of(static_cast<std::size_t>(next));
  const auto whole = static_cast<std::size_t>(a.input_tokens / trace_.hash_block_tokens);
  return a.input_tokens <= b.input_tokens && !before.empty() && whole <= before.size() && whole <= after.size() &&
         std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(whole), after.begin());
}

// A trace states only the blocks of prompts. The prompt of the next turn also contains the end of this prompt and its
// answer, and so gives their blocks. Rows are visited backwards, because a later turn may describe the next one.
void SessionBook::Recorded::describe_answers() {
  for (auto row = static_cast<std::int32_t>(turns_.size()) - 1; row >= 0; --row) {
    Turn& turn = at(row);
    const std::int32_t input = record(row).input_tokens;
    turn.source = row;
    turn.content = input;
    if (turn.next < 0 || !continues(row, turn.next)) continue;
    const Turn& next = at(turn.next);
    turn.source = next.source;
    turn.content = static_cast<std::int32_t>(
        std::min<std::int64_t>(std::int64_t{input} + record(row).output_tokens, record(turn.next).input_tokens));
  }
}

RequestBody SessionBook::Recorded::turn(SessionSlot slot) {
  const Open& session = open_[slot];
  const traces::TraceRecord& row = record(session.row);
  RequestBody body;
  body.input_tokens = row.input_tokens;
  body.output_tokens = body.max_new_tokens = row.output_tokens;
  if (row.session != 0) {
    body.session = id_of_tile(row.session, session.tile);
  } else if (at(session.first).next >= 0) {
    body.session = session.tile * turns_.size() + static_cast<std::uint64_t>(session.first) + 1;
  }
  body.priority = trace_.priority_of(static_cast<std::size_t>(session.row));
  if (!priorities_.empty()) {
    const std::uint64_t number = session.tile * turns_.size() + static_cast<std::uint64_t>(session.first);
    body.priority = draw_priority(priorities_, priority_.block(number)[0]);
  }
  if (!with_hashes_) return body;
  const Turn& turn = at(session.row);
  hashes_.clear();
  body.content_tokens = turn.content;
  body.prefix_hashes = trace_.hashes_of(static_cast<std::size_t>(turn.source));
  body.hash_block_tokens = trace_.hash_block_tokens;
  if (trace_.hash_block_tokens > 0) {
    const auto blocks = static_cast<std::size_t>(blocks_of(turn.content, trace_.hash_block_tokens));
    body.prefix_hashes = body.prefix_hashes.first(std::min(blocks, body.prefix_hashes.size()));
  }
  if (trace_.hash_block_tokens == 0 && row.session != 0) {
    // If the trace has no blocks, the turns of a session share their common history.
    const std::uint64_t number = session.tile * turns_.size() + static_cast<std::uint64_t>(turn.source);
    append_blocks(hashes_, number, blocks_of(turn.content, kBlock));
    body.prefix_hashes = hashes_;
    body.hash_block_tokens = kBlock;
    body.hashes_chain = true;
  } else if (session.tile > 0) {
    for (const std::uint64_t hash : body.prefix_hashes) hashes_.push_back(id_of_tile(hash, session.tile));
    body.prefix_hashes = hashes_;
  }
  return body;
}

// A rate scale moves sessions closer together but not the turns within one: people and tools do not become faster.
std::optional<Nanos> SessionBook::Recorded::answered(SessionSlot slot, Nanos now) {
  Open& session = open_[slot];
  const std::int32_t next = at(session.row).next;
  if (next < 0) {
    end(slot);
    return {};
  }
  session.row = next;
  const Nanos gap = trace_.gap_of(static_cast<std::size_t>(next));
  if (gap >= 0) return now + gap;
  return std::max(now, session.begun + (record(next).arrival - record(session.first).arrival));
}

// ---- the book -----------------------------------------------------------------------------------------------

SessionBook::SessionBook(const WorkloadSpec& spec, std::uint64_t replication, bool hashes) {
  PLIMSOLL_CHECK(has_turns(spec.load), "only sessions have turns");
  if (conversation_of(spec.load) != nullptr)
    source_ = std::make_unique<Generated>(spec, replication, hashes);
  else
    source_ = std::make_unique<Recorded>(spec, replication, hashes);
}
SessionBook::~SessionBook() = default;
SessionBook::SessionBook(SessionBook&&) noexcept = default;

bool SessionBook::may_begin() const { return source_->may_begin(); }
bool SessionBook::begins_at(std::uint64_t arrival) const { return source_->begins_at(arrival); }
SessionSlot SessionBook::begin(std::uint64_t arrival, Nanos now) { return source_->begin(arrival, now); }
RequestBody SessionBook::turn(SessionSlot slot) { return source_->turn(slot); }
std::optional<Nanos> SessionBook::answered(SessionSlot slot, Nanos now) { return source_->answered(slot, now); }
void SessionBook::end(SessionSlot slot) { source_->end(slot); }

MeanPrompt mean_prompt(const Conversation& talk, const IndependentLengths& lengths) {
  const double turns = length_mean(talk.turns), cv = length_cv(talk.turns);
  // The mean number of turns before a turn. Long sessions weigh more, because they have more turns.
  const double before = std::max(0.0, (turns * (1 + cv * cv) - 1) / 2);
  const double added = (1 - talk.tool_share) * length_mean(talk.added) + talk.tool_share * length_mean(talk.result);
  const double first = length_mean(lengths.input), output = length_mean(lengths.output);
  const double tokens = first + before * (added + output);
  return {talk.longest > 0 ? std::max(1.0, std::min(tokens, static_cast<double>(talk.longest) - output)) : tokens,
          (first + (turns - 1) * added) / turns};
}

}  // namespace plimsoll::load
