// SPDX-License-Identifier: Apache-2.0
// The mini-language of the conformance tests: name:prompt+output[/cap][@k], items separated by white space.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "load/workload.h"
#include "model/error.h"
#include "traces/text.h"

namespace plimsoll::load {
namespace {

constexpr std::string_view kForm = "an item is name:prompt+output[/cap][@k]";

class ScriptParser {
 public:
  explicit ScriptParser(std::string_view text) : text_(text) {}

  std::vector<ScriptRequest> parse() {
    std::vector<ScriptRequest> requests;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) requests.push_back(item());
    if (requests.empty()) fail(at_, fmt::format("the script is empty; {}", kForm));
    return requests;
  }

 private:
  [[noreturn]] static void fail(std::size_t at, const std::string& text) {
    throw InputError(Where{{}, 0, at + 1}, fmt::format("column {}: {}", at + 1, text));
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  // The characters that decisions.txt can hold without ambiguous separators.
  static bool in_name(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  // One pass from left to right: the first fault is the one that is reported, with its column.
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string found() const {
    return at_ < text_.size() ? traces::quoted(text_.substr(at_, 1)) : std::string("the end of the script");
  }

  void expect(char c, std::string_view after) {
    if (!take(c)) fail(at_, fmt::format("expected '{}' after the {}, found {}; {}", c, after, found(), kForm));
  }

  std::string name() {
    constexpr std::size_t kMaxLength = 64;
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    std::string out(text_.substr(begin, at_ - begin));
    if (out.empty())
      fail(begin, fmt::format("expected a name of letters, digits, '_', '-' or '.', found {}; {}", found(), kForm));
    if (out.size() > kMaxLength)
      fail(begin, fmt::format("name {} is longer than {} characters", traces::quoted(out), kMaxLength));
    if (!names_.insert(out).second)
      fail(begin, fmt::format("name {} is used twice; names are unique", traces::quoted(out)));
    return out;
  }

  std::int32_t number(std::string_view what) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (digits.empty())
      fail(begin,
           fmt::format("expected the {}, a whole number from 1 to 2147483647, found {}; {}", what, found(), kForm));
    std::int32_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || value < 1)
      fail(begin, fmt::format("{} is {}, allowed: 1 to 2147483647", what, traces::quoted(digits)));
    return value;
  }

  ScriptRequest item() {
    ScriptRequest request;
    request.name = name();
    expect(':', "name");
    request.prompt = number("prompt length");
    expect('+', "prompt length");
    // Without a cap of its own a request stops by itself after its output.
    request.output = request.cap = number("output length");
    if (take('/')) request.cap = number("cap");
    if (take('@')) request.visible_before_step = number("step");
    if (at_ < text_.size() && !is_blank(text_[at_]))
      fail(at_, fmt::format("expected a blank, '/cap' or '@k', found {}; {}", found(), kForm));
    return request;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::unordered_set<std::string> names_;
};

}  // namespace

void sort_script(std::vector<ScriptRequest>& requests) {
  std::stable_sort(requests.begin(), requests.end(), [](const ScriptRequest& a, const ScriptRequest& b) {
    return a.visible_before_step < b.visible_before_step;
  });
}

std::vector<ScriptRequest> parse_script(std::string_view text) { return ScriptParser(text).parse(); }

}  // namespace plimsoll::load
