// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "model/error.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using CodePointer = std::unique_ptr<pcre2_code, FreeCode>;

// Machine code needs a stack for nested repetitions; PCRE2's own is 32 KiB.
constexpr std::size_t kStartStack = 64U << 10U, kLargestStack = 8U << 20U;

// What one thread needs to match: a place for the result and a stack.
struct Scratch {
  Scratch()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kStartStack, kLargestStack, nullptr)) {
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Scratch& scratch() {
  thread_local Scratch own;
  return own;
}

CodePointer compile(const std::string& translated, const std::string& pattern) {
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  CodePointer code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                 context));
  pcre2_compile_context_free(context);
  if (!code) {
    std::array<PCRE2_UCHAR, 160> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    throw InputError(fmt::format("the regular expression '{}' cannot be used: {}", pattern,
                                 reinterpret_cast<const char*>(text.data())));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it, pcre2_match() interprets
  return code;
}

}  // namespace

// Text with characters newer than PCRE2's tables is matched by a slower pattern that lists them.
struct Regex::Code {
  CodePointer common, with_newer;
};

Regex::Regex(const std::string& pattern) : code_(std::make_unique<Code>()) {
  const std::string common = to_pcre2(pattern, NewerCharacters::leave_out);
  const std::string newer = to_pcre2(pattern, NewerCharacters::list);
  code_->common = compile(common, pattern);
  if (newer != common) code_->with_newer = compile(newer, pattern);
}
Regex::~Regex() = default;
Regex::Regex(Regex&& other) noexcept = default;
Regex& Regex::operator=(Regex&& other) noexcept = default;

Regex::Walk::Walk(const Regex& regex, std::string_view text)
    : code_(regex.code_->with_newer && has_newer_character(text) ? regex.code_->with_newer.get()
                                                                 : regex.code_->common.get()),
      text_(text) {}

bool Regex::Walk::next(Match& match) {
  Scratch& own = scratch();
  while (at_ <= text_.size()) {
    const int found = pcre2_match(static_cast<const pcre2_code*>(code_), reinterpret_cast<PCRE2_SPTR>(text_.data()),
                                  text_.size(), at_, PCRE2_NO_UTF_CHECK, own.data, own.context);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0)
      throw InputError(fmt::format("a regular expression of the tokenizer fails on this text (PCRE2 error {})", found));
    const PCRE2_SIZE* const where = pcre2_get_ovector_pointer(own.data);
    match = {where[0], where[1]};
    const bool empty = match.begin >= match.end;
    at_ = match.end;
    if (empty) at_ = match.end < text_.size() ? match.end + utf8_length(text_[match.end]) : text_.size() + 1;
    if (empty && last_end_ == match.end) continue;
    last_end_ = match.end;
    return true;
  }
  return false;
}

std::string literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~ \t\n\r\v\f").find(c) != std::string_view::npos) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      out += space ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : fmt::format("\\{}", c);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace plimsoll::text
