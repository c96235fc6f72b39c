// SPDX-License-Identifier: Apache-2.0
#include "exec/live/prompts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "exec/weights/safetensors_file.h"
#include "exec/weights/strict_json.h"
#include "model/input_file.h"

namespace plimsoll::exec {
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} << 20U;

class PromptReader final : public StrictReader {
 public:
  PromptReader(Where where, std::int32_t vocabulary) : StrictReader(std::move(where)), vocabulary_(vocabulary) {}
  [[nodiscard]] Prompt prompt() && {
    if (!seen_tokens_) refuse("tokens is missing");
    if (prompt_.tokens.empty()) refuse("tokens is empty, expected at least one");
    return std::move(prompt_);
  }

  bool start_object(std::size_t) override {
    if (inside_) return unexpected("an object");
    return inside_ = true;
  }
  bool key(string_t& text) override {
    key_ = text;
    bool* const seen = key_ == "id" ? &seen_id_ : key_ == "tokens" ? &seen_tokens_ : nullptr;
    if (seen == nullptr) refuse(fmt::format("unknown key {}, allowed: id, tokens", quoted_name(key_)));
    if (*seen) refuse(fmt::format("{} occurs twice", key_));
    return *seen = true;
  }
  bool string(string_t& text) override {
    if (!inside_ || key_ != "id") return unexpected("text");
    // In logits.safetensors, a tensor of this name would be taken for the metadata.
    if (text.empty() || text == "__metadata__")
      refuse(fmt::format("id: found {}, which cannot be the name of a tensor", quoted_name(text)));
    prompt_.id = text;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (inside_ && !in_list_ && key_ == "id") {
      prompt_.id = std::to_string(value);
      return true;
    }
    if (!in_list_) return unexpected("a number");
    if (value >= static_cast<std::uint64_t>(vocabulary_)) refuse_token(std::to_string(value));
    prompt_.tokens.push_back(static_cast<std::int32_t>(value));
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (in_list_) refuse_token(std::to_string(value));
    return unexpected("a negative number");
  }
  bool start_array(std::size_t) override {
    if (key_ != "tokens" || in_list_) return unexpected("a list");
    return in_list_ = true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool end_object() override { return true; }

 protected:
  [[noreturn]] bool unexpected(const std::string& found) override {
    if (!inside_) refuse(fmt::format("found {}, expected an object {{\"id\": …, \"tokens\": […]}}", found));
    refuse(fmt::format("{}: found {}, expected {}", key_, found,
                       key_ == "id" ? "text or a whole number" : "a list of token ids"));
  }
  [[nodiscard]] std::string part() const override { return "line"; }

 private:
  [[noreturn]] void refuse(const std::string& text) const { throw InputError(where(), text); }
  [[noreturn]] void refuse_token(const std::string& found) const {
    refuse(fmt::format("tokens[{}]: found {}, allowed: 0 to {}", prompt_.tokens.size(), found, vocabulary_ - 1));
  }

  std::int32_t vocabulary_;
  std::string key_;
  bool inside_ = false, in_list_ = false, seen_id_ = false, seen_tokens_ = false;
  Prompt prompt_;
};

std::string read_file(const std::string& path) {
  const int file = open_input(path);
  if (file < 0) fail_file(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16U);
  ssize_t size = 0;
  while (text.size() <= kMaxFile && (size = ::read(file, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(size));
  const int error = errno;
  ::close(file);
  if (size < 0) fail_file(path, fmt::format("cannot be read: {}", std::strerror(error)));
  if (text.size() > kMaxFile) fail_file(path, fmt::format("is larger than {} bytes: split it", kMaxFile));
  return text;
}

void check_length(const Prompt& prompt, const PromptLimits& limits, const Where& where) {
  const auto length = static_cast<std::int64_t>(prompt.tokens.size());
  const std::int64_t positions = length + std::max<std::int64_t>(0, limits.generated - 1);
  if (limits.positions == 0 || positions <= limits.positions) return;
  throw InputError(
      where,
      fmt::format("a prompt of {} tokens with {} more to generate goes through {} positions, but the model has {}",
                  length, limits.generated, positions, limits.positions));
}

}  // namespace

std::vector<Prompt> read_prompts(const std::string& path, const PromptLimits& limits) {
  const std::string text = read_file(path);
  std::vector<Prompt> prompts;
  std::map<std::string, std::size_t> lines;
  std::string_view rest = text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view here = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (here.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Where where{path, line, 0};
    PromptReader reader(where, limits.vocabulary);
    nlohmann::json::sax_parse(here, &reader);
    Prompt prompt = std::move(reader).prompt();
    if (prompt.id.empty()) prompt.id = std::to_string(line);
    check_length(prompt, limits, where);
    const auto [other, is_new] = lines.emplace(prompt.id, line);
    if (!is_new)
      throw InputError(where,
                       fmt::format("id {} occurs twice, first on line {}", quoted_name(prompt.id), other->second));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) fail_file(path, "holds no prompts, expected lines like {\"id\": \"a\", \"tokens\": [1, 2, 3]}");
  return prompts;
}

}  // namespace plimsoll::exec
