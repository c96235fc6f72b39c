// SPDX-License-Identifier: Apache-2.0
#include "sched/decision_log.h"

#include <fmt/format.h>

namespace plimsoll::sched {

namespace {
std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}
}  // namespace

void DecisionLog::name(ReqId id, std::uint64_t serial, std::string_view name) {
  if (!enabled_) return;
  if (id >= names_.size()) names_.resize(id + 1);
  names_[id] = name.empty() ? fmt::format("r{}", serial) : std::string(name);
}

void DecisionLog::reject(std::string_view name, std::uint16_t http) {
  if (enabled_) rejects_.push_back(fmt::format("{} {}", name, http));
}

void DecisionLog::note_moves(const Decision& decision) {
  if (!enabled_) return;
  for (const ReqId id : decision.swapped_in) moves_in_.push_back(names_[id]);
  for (const ReqId id : decision.preempted) moves_out_.push_back(names_[id]);
}

void DecisionLog::append_forward(const Forward& forward, std::span<const ReqId> order, const RequestTable& table) {
  std::vector<std::string> words;
  std::string text;
  for (const Segment& s : forward.prefill) words.push_back(fmt::format("{}:{}", names_[s.id], s.new_tokens));
  if (!words.empty()) text = "P[" + joined(words, " ") + "]";
  words.clear();
  if (forward.decodes == Decodes::group) {
    for (const ReqId id : order)
      if (table.decoding(id)) words.push_back(names_[id]);
  } else {
    for (const ReqId id : forward.listed) words.push_back(names_[id]);
  }
  if (!words.empty()) text += (text.empty() ? "D[" : " D[") + joined(words, " ") + "]";
  words.clear();
  for (const ReqId id : forward.dead) words.push_back(names_[id]);
  if (!words.empty()) text += " dead[" + joined(words, " ") + "]";
  bool rows_differ = false;
  for (const Segment& s : forward.prefill) rows_differ = rows_differ || s.new_tokens != forward.padded;
  if (forward.padded > 0 && rows_differ) text += fmt::format(" pad({})", forward.padded);
  if (!planned_.empty()) planned_ += "; ";
  planned_ += text;
}

void DecisionLog::plan(const Decision& decision, std::span<const ReqId> order, const RequestTable& table) {
  if (!enabled_) return;
  planned_.clear();
  for (const Forward& forward : decision.forwards()) append_forward(forward, order, table);
  planned_suffix_ = take_suffix();
}

std::string DecisionLog::take_suffix() {
  std::string text;
  for (const std::string& name : moves_in_) text += " +" + name;
  if (!moves_out_.empty()) text += " !" + joined(moves_out_, ",");
  if (!rejects_.empty()) text += " rejected(" + joined(rejects_, ", ") + ")";
  moves_in_.clear();
  moves_out_.clear();
  rejects_.clear();
  return text;
}

void DecisionLog::ran(std::int64_t steps) {
  if (!enabled_) return;
  for (std::int64_t i = 0; i < steps; ++i) {
    text_ += fmt::format("{}: {}{}\n", ++step_, planned_, planned_suffix_);
    planned_suffix_.clear();
  }
}

// Prints refusals only: preemptions of a decision that never led to a step changed nothing that ran.
void DecisionLog::finish() {
  if (!enabled_) return;
  moves_in_.clear();
  moves_out_.clear();
  const std::string suffix = take_suffix();
  if (!suffix.empty()) text_ += "end:" + suffix + '\n';
}

}  // namespace plimsoll::sched
