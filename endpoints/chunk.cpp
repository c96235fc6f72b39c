// SPDX-License-Identifier: Apache-2.0
#include "endpoints/chunk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

namespace plimsoll::endpoints {
namespace {

constexpr std::size_t kMaxDepth = 64, kMaxErrorText = 4096, kMaxReason = 32;

// JSON names that matter. kItem stands for an element of an array, kOther for any other name.
enum Key : std::uint8_t {
  kOther = 1,
  kItem,
  kChoices,
  kText,
  kDelta,
  kContent,
  kReasoning,
  kFinishReason,
  kTokenIds,
  kLogprobs,
  kTokens,
  kUsage,
  kPromptTokens,
  kCompletionTokens,
  kPromptDetails,
  kCachedTokens,
  kError,
  kMessage,
  kToken,
  kId,
  kSpecial,
  kGeneratedText,
  kDetails,
  kGeneratedTokens,
  kInputLength,
  kDetail
};

struct Name {
  std::string_view text;
  Key key;
};
constexpr std::array<Name, 25> kNames{{{"choices", kChoices},
                                       {"text", kText},
                                       {"delta", kDelta},
                                       {"content", kContent},
                                       {"reasoning_content", kReasoning},
                                       {"reasoning", kReasoning},
                                       {"finish_reason", kFinishReason},
                                       {"token_ids", kTokenIds},
                                       {"logprobs", kLogprobs},
                                       {"tokens", kTokens},
                                       {"usage", kUsage},
                                       {"prompt_tokens", kPromptTokens},
                                       {"completion_tokens", kCompletionTokens},
                                       {"prompt_tokens_details", kPromptDetails},
                                       {"cached_tokens", kCachedTokens},
                                       {"error", kError},
                                       {"message", kMessage},
                                       {"token", kToken},
                                       {"id", kId},
                                       {"special", kSpecial},
                                       {"generated_text", kGeneratedText},
                                       {"details", kDetails},
                                       {"generated_tokens", kGeneratedTokens},
                                       {"input_length", kInputLength},
                                       {"detail", kDetail}}};

Key key_of(std::string_view text) {
  for (const Name& candidate : kNames)
    if (candidate.text == text) return candidate.key;
  return kOther;
}

// The last eight names on the path to a value, one per byte, the last one lowest. The top level is 0.
using Path = std::uint64_t;
template <class... Keys>
constexpr Path path(Keys... keys) {
  Path out = 0;
  ((out = (out << 8U) | keys), ...);
  return out;
}

std::int32_t whole(double value) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return value > 0 ? static_cast<std::int32_t>(std::min(value, kMost)) : 0;
}

class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(Chunk& chunk) : chunk_(chunk) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& text) override {
    switch (at()) {
      case path(kChoices, kItem, kText):
      case path(kChoices, kItem, kDelta, kContent):
      case path(kChoices, kItem, kDelta, kReasoning):
      case path(kToken, kText):
      case path(kContent):  // llama.cpp's own format
        chunk_.text = chunk_.text || !text.empty();
        break;
      case path(kChoices, kItem, kFinishReason):
      case path(kDetails, kFinishReason):
        chunk_.finished = true;
        chunk_.finish_reason = text.substr(0, kMaxReason);
        break;
      case path(kGeneratedText): chunk_.finished = true; break;
      case path(kChoices, kItem, kLogprobs, kTokens, kItem): ++chunk_.ids; break;
      case path(kError):
      case path(kError, kMessage): report(text); break;
      default: break;
    }
    return true;
  }

  bool key(string_t& text) override {
    key_ = key_of(text);
    return true;
  }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  struct Frame {
    Path path;
    bool array;
  };

  // Returns the path of the value in progress.
  [[nodiscard]] Path at() const {
    if (depth_ == 0) return 0;
    const Frame& frame = frames_[depth_ - 1];
    return (frame.path << 8U) | (frame.array ? kItem : key_);
  }

  bool open(bool array) {
    if (depth_ == kMaxDepth || (depth_ == 0 && array)) return false;
    const Path path_here = at();
    if (path_here == path(kError)) chunk_.error = true;
    if (path_here == path(kChoices, kItem, kLogprobs, kContent, kItem)) ++chunk_.ids;  // an element of logprobs in chat
    frames_[depth_++] = {path_here, array};
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  bool number(double value) {
    switch (at()) {
      case 0: return false;
      case path(kUsage, kPromptTokens):
      case path(kDetails, kInputLength): chunk_.prompt_tokens = whole(value); break;
      case path(kUsage, kCompletionTokens):
      case path(kDetails, kGeneratedTokens): chunk_.completion_tokens = whole(value); break;
      case path(kUsage, kPromptDetails, kCachedTokens): chunk_.cached_tokens = whole(value); break;
      case path(kChoices, kItem, kTokenIds, kItem):
      case path(kToken, kId): ++chunk_.ids; break;
      default: break;
    }
    return true;
  }

  void report(const std::string& text) {
    chunk_.error = true;
    chunk_.error_text = text.substr(0, kMaxErrorText);
  }

  Chunk& chunk_;
  std::array<Frame, kMaxDepth> frames_{};
  std::size_t depth_ = 0;
  Key key_ = kOther;
};

bool is_object(std::string_view json) {
  const std::size_t begin = json.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && json[begin] == '{';
}

}  // namespace

std::optional<Chunk> read_chunk(std::string_view json) {
  if (!is_object(json)) return {};
  Chunk chunk;
  Reader reader(chunk);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return {};
  return chunk;
}

std::string error_message(std::string_view body) {
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object()) return std::string(body.substr(0, kMaxErrorText));
  const nlohmann::json& inner = json.contains("error") && json["error"].is_object() ? json["error"] : json;
  for (const char* const field : {"message", "error", "detail"}) {
    const auto found = inner.find(field);
    if (found != inner.end() && found->is_string()) return found->get<std::string>().substr(0, kMaxErrorText);
  }
  return std::string(body.substr(0, kMaxErrorText));
}

}  // namespace plimsoll::endpoints
