// SPDX-License-Identifier: Apache-2.0
#include "serve/answer_text.h"

#include <algorithm>
#include <utility>

namespace plimsoll::serve {

// ---- stop strings -------------------------------------------------------------------------------------------

// Returns how many of the last characters before `end` of held_ may be the beginning of a stop string.
std::size_t StopFinder::beginnings(std::size_t end) const {
  const std::string_view held = std::string_view(held_).substr(0, end);
  std::size_t longest = 0;
  for (const std::string& stop : strings_)
    for (std::size_t size = std::min(stop.size() - 1, held.size()); size > longest; --size)
      if (held.ends_with(std::string_view(stop).substr(0, size))) longest = size;
  return longest;
}

// If several strings match, the one that is complete first counts; of those that end at one place, the longest.
std::optional<std::size_t> StopFinder::push(std::string_view text, bool finds, std::string& out) {
  if (strings_.empty()) {
    out += text;
    return {};
  }
  const std::size_t old = held_.size();
  held_ += text;
  for (std::size_t end = old + 1; finds && end <= held_.size(); ++end) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < strings_.size(); ++i)
      if (std::string_view(held_).substr(0, end).ends_with(strings_[i]) &&
          (!found || strings_[i].size() > strings_[*found].size()))
        found = i;
    if (!found) continue;
    out.append(held_, 0, end - strings_[*found].size());
    held_.clear();
    return found;
  }
  const std::size_t certain = held_.size() - beginnings(held_.size());
  out.append(held_, 0, certain);
  held_.erase(0, certain);
  return {};
}

void StopFinder::finish(std::string& out) {
  out += held_;
  held_.clear();
}

// ---- the answer ---------------------------------------------------------------------------------------------

AnswerText::AnswerText(const Vocabulary& vocabulary, StopRules rules)
    : vocabulary_(vocabulary), rules_(std::move(rules)), finder_(rules_.strings) {
  if (vocabulary_.tokenizer() != nullptr) stream_.emplace(*vocabulary_.tokenizer(), rules_.skips_special);
}

bool AnswerText::is_end(std::int32_t id) {
  const std::vector<text::TokenId>& ends = vocabulary_.ends();
  if (std::find(rules_.tokens.begin(), rules_.tokens.end(), id) != rules_.tokens.end()) {
    reason_ = id;
    return true;
  }
  return !rules_.ignores_ends && std::binary_search(ends.begin(), ends.end(), id);
}

void AnswerText::append_text_of(std::int32_t id, std::string& out) {
  if (stream_) return stream_->push(id, out);
  if (ids_.size() > 1) out += ' ';
  out += word(id);
}

// Text after a stop string is not part of the answer, even if it belongs to the same token.
void AnswerText::take(std::string_view certain, bool finds) {
  const auto found = finder_.push(certain, finds, text_);
  if (!found) return;
  stream_.reset();
  if (rules_.includes_stop) text_ += rules_.strings[*found];
  if (stopped_) return;  // by the token that completes the string
  stopped_ = true;
  reason_ = rules_.strings[*found];
}

bool AnswerText::push(std::int32_t id) {
  ids_.push_back(id);
  const bool may_end = tokens() >= rules_.min_tokens;
  stopped_ = may_end && is_end(id);
  if (!stopped_ || rules_.includes_stop) {
    std::string certain;
    append_text_of(id, certain);
    take(certain, may_end);
  }
  ends_.push_back(text_.size());
  return stopped_;
}

void AnswerText::finish() {
  std::string rest;
  if (stream_) stream_->finish(rest);
  take(rest, tokens() >= rules_.min_tokens);
  finder_.finish(text_);
  if (!ends_.empty()) ends_.back() = text_.size();
}

bool AnswerText::is_special(sched::Tok token) const {
  return vocabulary_.tokenizer() != nullptr && vocabulary_.tokenizer()->is_special(id(token));
}

std::string_view AnswerText::text(sched::Tok from, sched::Tok to) const {
  const auto before = [this](sched::Tok token) { return token == 0 ? 0 : ends_[static_cast<std::size_t>(token) - 1]; };
  return std::string_view(text_).substr(before(from), before(to) - before(from));
}

}  // namespace plimsoll::serve
