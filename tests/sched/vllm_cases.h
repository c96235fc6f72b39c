// SPDX-License-Identifier: Apache-2.0
// Cases on which the real schedulers of vLLM and SGLang were recorded, and what our policies decide on them.
// tests/golden/record_vllm_scheduler.py describes both formats.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "sched/replica.h"
#include "traces/byte_source.h"

namespace plimsoll::sched::testing {

/// The lines of tests/sched/NAME.gz.
inline std::vector<std::string> recorded_lines(const std::string& name) {
  traces::ByteSource source(PLIMSOLL_SOURCE_DIR "/tests/sched/" + name + ".gz");
  std::string text(std::size_t{1} << 22U, '\0');
  std::size_t size = 0;
  while (const std::size_t read = source.read({text.data() + size, text.size() - size})) size += read;
  text.resize(size);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct VllmCase {
  struct Asked {
    Tok prompt = 1, output = 1, cap = 1;
    std::int64_t tick = 1;
    std::int32_t priority = 0;
    std::vector<std::uint64_t> shared;
  };
  std::int64_t max_running = 0, budget = 0, blocks = 0, threshold = 0;
  Tok block_size = 0, max_len = 0, shared_size = 0;
  bool chunked = false, caching = false, full = false, ahead = false;
  std::string policy;
  std::vector<Asked> requests;
};

inline VllmCase::Asked parse_asked(const std::string& word) {
  VllmCase::Asked asked;
  std::istringstream in(word);
  char mark = 0;
  in >> asked.prompt >> mark >> asked.output >> mark >> asked.cap >> mark >> asked.tick >> mark >> asked.priority >>
      mark;
  for (std::uint64_t block = 0; in >> block; in >> mark) asked.shared.push_back(block);
  return asked;
}

inline VllmCase parse_vllm_case(const std::string& line) {
  VllmCase c;
  std::istringstream in(line);
  in >> c.max_running >> c.budget >> c.blocks >> c.block_size >> c.threshold >> c.chunked >> c.caching >> c.max_len >>
      c.full >> c.shared_size >> c.policy >> c.ahead;
  for (std::string word; in >> word;) c.requests.push_back(parse_asked(word));
  return c;
}

/// Runs a case on a Replica and writes its decisions in the format of the recorded answers.
class VllmCaseRun {
 public:
  VllmCaseRun(const VllmCase& c, std::int32_t version) : VllmCaseRun(c, policy(c, version), kv(c, version)) {}
  VllmCaseRun(const VllmCase& c, const PolicyConfig& policy, const KvConfig& kv)
      : case_(c), replica_({.policy = policy, .kv = kv, .window = 0, .keep_log = true}) {
    for (std::size_t i = 0; i < c.requests.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return c.requests[a].tick < c.requests[b].tick; });
  }

  /// With `leap`, takes whole plans instead of single steps, and does not write the free blocks.
  std::string run(bool leap = false) {
    leap_ = leap;
    Nanos now = 0;
    while (true) {
      deliver(now);
      const bool step = replica_.decide(now);
      replica_.ended().clear();
      if (!step && replica_.wake_at() != kNever && !case_.ahead) {
        now = replica_.wake_at();
      } else if (!step && replica_.wake_at() != kNever) {
        ++now;
      } else if (!step) {
        if (next_ == order_.size()) break;
        tick_ = std::max(tick_, case_.requests[order_[next_]].tick);
        replica_.log().jump_to(tick_);
      } else {
        note_free();
        now = run_steps(now, leap);
      }
    }
    replica_.log().finish();
    return text();
  }
  /// Returns the decision log of the run.
  [[nodiscard]] const std::string& log() { return replica_.log().text(); }

 private:
  static PolicyConfig policy(const VllmCase& c, std::int32_t version) {
    PolicyConfig config;
    config.policy = PolicyKind::vllm_v1;
    config.version = version;
    config.max_running = c.max_running;
    config.step_token_budget = c.budget;
    config.long_prefill_threshold = c.threshold;
    config.chunked = c.chunked;
    config.reserve_full_sequence = c.full && version >= 19;
    config.async_scheduling = c.ahead;
    config.order = c.policy == "priority" ? Order::priority : Order::fcfs;
    config.model_max_len = c.max_len;
    return config;
  }
  static KvConfig kv(const VllmCase& c, std::int32_t version) {
    return {.blocks = c.blocks,
            .block_tokens = c.block_size,
            .prefix_caching = c.caching,
            .partial_first = reuses_partial_blocks_first(version)};
  }

  void deliver(Nanos now) {
    for (; next_ < order_.size() && case_.requests[order_[next_]].tick <= tick_; ++next_) {
      const VllmCase::Asked& asked = case_.requests[order_[next_]];
      const std::string name = std::to_string(order_[next_]);
      (void)replica_.arrive({.serial = next_,
                             .input = asked.prompt,
                             .output = std::min(asked.output, asked.cap),
                             .max_new = asked.cap,
                             .sent = now,
                             .session = 0,
                             .priority = asked.priority,
                             .prefix_hashes = asked.shared,
                             .hash_block_tokens = case_.shared_size,
                             .name = name},
                            now);
    }
  }

  Nanos run_steps(Nanos now, bool leap) {
    std::int64_t steps = leap ? replica_.plan_steps() : 1;
    if (next_ < order_.size()) steps = std::min(steps, case_.requests[order_[next_]].tick - tick_);
    StepsTime time;
    time.steps = std::max<std::int64_t>(steps, 1);
    time.start = 1e-9 * static_cast<double>(now);
    time.first = 1e-3;
    const auto n = static_cast<double>(time.steps);
    time.total = 1e-3 * n;
    time.moment1 = 1e-3 * n * (n - 1) / 2;
    time.moment2 = 1e-3 * n * (n - 1) * (2 * n - 1) / 6;
    now += 1'000'000 * time.steps;
    time.end = 1e-9 * static_cast<double>(now);
    time.end_stamp = now;
    replica_.complete(time);
    tick_ += time.steps;
    return now;
  }

  // Records the free blocks that the policy sees once the step is decided: its decodes already have their blocks.
  void note_free() {
    Blk growth = 0;
    for (const Forward& forward : replica_.decision().forwards()) {
      if (forward.decodes == Decodes::group) growth += replica_.kv().group_growth(1);
      for (const ReqId id : forward.listed) growth += replica_.kv().need(id, replica_.requests().computed(id) + 1);
    }
    free_.push_back({tick_, replica_.kv().free() - growth});
    for (const Forward& forward : replica_.decision().forwards())
      for (const Segment& segment : forward.prefill) contexts_.push_back(segment.context);
  }

  // Returns the decision log in the format of the recorded answers.
  std::string text() {
    std::istringstream lines(replica_.log().text());
    std::vector<std::pair<std::string, int>> parts;
    std::int64_t last_tick = 0;
    std::string last_decodes;
    Blk last_free = -1;
    std::size_t context = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::size_t colon = line.find(':');
      if (line.substr(0, colon) == "end") break;
      const std::int64_t tick = std::stoll(line.substr(0, colon));
      std::string words = tick == last_tick + 1 ? "" : fmt::format("@{}", tick);
      auto [decodes, prefills, preempted] = read_line(line.substr(colon + 1), context);
      const auto add = [&words](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
      if (!prefills.empty()) add(prefills);
      std::sort(decodes.begin(), decodes.end());
      const std::string decoded = fmt::format("{}", fmt::join(decodes, ","));
      if (!decodes.empty()) add(decoded == last_decodes ? "d" : "d" + decoded);
      if (!preempted.empty()) add("!" + preempted);
      const auto free = std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.first == tick; });
      if (!case_.ahead && !leap_ && free != free_.end() && free->second != last_free) {
        add(fmt::format("={}", free->second));
        last_free = free->second;
      }
      last_decodes = decoded;
      last_tick = tick;
      // Consecutive equal steps are written once, with their number.
      if (!parts.empty() && parts.back().first == words)
        ++parts.back().second;
      else
        parts.emplace_back(words, 1);
    }
    std::string all;
    for (const auto& [words, times] : parts) {
      if (!all.empty()) all += '|';
      all += times == 1 ? words : fmt::format("{}*{}", words, times);
    }
    return all;
  }

  struct Line {
    std::vector<int> decodes;
    std::string prefills, preempted;
  };
  // A line looks like " P[A:6 B:5] D[C] !E,F". `context`: number of prefill segments before it.
  [[nodiscard]] Line read_line(const std::string& line, std::size_t& context) const {
    Line read;
    auto& [decodes, prefills, preempted] = read;
    std::istringstream in(line);
    bool in_prefills = false;
    for (std::string word; in >> word;) {
      if (word[0] == '!') {
        preempted = word.substr(1);
        continue;
      }
      if (word.size() > 1 && word[1] == '[') {
        in_prefills = word[0] == 'P';
        word = word.substr(2);
      }
      if (word.back() == ']') word.pop_back();
      if (!in_prefills) {
        decodes.push_back(std::stoi(word));
        continue;
      }
      const std::size_t colon = word.find(':');
      const auto who = static_cast<std::size_t>(std::stoi(word));
      const Tok begin = contexts_.at(context++);
      if (word.substr(colon + 1) == "1" && begin >= case_.requests[who].prompt) {
        decodes.push_back(static_cast<int>(who));  // the last token of a recomputation
        continue;
      }
      prefills += fmt::format("{}p{}+{}", prefills.empty() ? "" : " ", word, begin);
    }
    return read;
  }

  const VllmCase& case_;
  Replica replica_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  bool leap_ = false;
  std::int64_t tick_ = 1;
  std::vector<std::pair<std::int64_t, Blk>> free_;
  std::vector<Tok> contexts_;  // the contexts of all prefill segments so far
};

}  // namespace plimsoll::sched::testing
