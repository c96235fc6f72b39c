// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include "text/regex.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

bool is_of_word(std::string_view character) {
  static const Regex kWord("[\\w\\u200C\\u200D]");
  Regex::Walk walk(kWord, character);
  Regex::Match match;
  return walk.next(match);
}

std::size_t without_spaces_at_end(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t at = last_character(text.substr(0, end));
    const std::size_t begin = at;
    if (!is_white_space(read_code_point(text, at))) break;
    end = begin;
  }
  return end;
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(read_code_point(text, next))) break;
    at = next;
  }
  return at;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin), after = text.substr(end);
  return (before.empty() || !is_of_word(before.substr(last_character(before)))) &&
         (after.empty() || !is_of_word(after.substr(0, utf8_length(after[0]))));
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].spelling.empty()) continue;
    std::uint32_t node = 0;
    for (const char c : tokens_[i].spelling) {
      const auto byte = static_cast<unsigned char>(c);
      std::uint32_t next = child(node, byte);
      if (next == 0) {
        next = static_cast<std::uint32_t>(nodes_.size());
        nodes_[node].children.emplace_back(byte, next);
        nodes_.emplace_back();
        if (node == 0) first_[byte] = next;
      }
      node = next;
    }
    nodes_[node].token = static_cast<std::int32_t>(i);
  }
}

std::uint32_t AddedTokenFinder::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  for (const auto& [key, next] : nodes_[node].children)
    if (key == byte) return next;
  return 0;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  const AddedToken* found = nullptr;
  std::uint32_t node = 0;
  for (; at < text.size(); ++at) {
    node = child(node, static_cast<unsigned char>(text[at]));
    if (node == 0) break;
    if (nodes_[node].token >= 0) found = &tokens_[static_cast<std::size_t>(nodes_[node].token)];
  }
  return found;
}

void AddedTokenFinder::divide(std::string_view text,
                              const std::function<void(std::string_view, const AddedToken*)>& part) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* const token = first_[static_cast<unsigned char>(text[at])] == 0 ? nullptr : longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->spelling.size();
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(without_spaces_at_end(text.substr(0, begin)), done);
    if (token->rstrip) end += spaces_at_start(text.substr(end));
    if (begin > done) part(text.substr(done, begin - done), nullptr);
    part(text.substr(begin, end - begin), token);
    done = end;
  }
  if (done < text.size()) part(text.substr(done), nullptr);
}

}  // namespace plimsoll::text
