// SPDX-License-Identifier: Apache-2.0
#include "text/token_decoder.h"

#include <algorithm>
#include <cstddef>

#include "text/json_fields.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

class SpaceJoin final : public DecodeStage {
 public:
  void push(std::string_view token, const Next& next) override {
    if (begun_) next(" ");
    begun_ = true;
    next(token);
  }

 private:
  bool begun_ = false;
};

class ByteLevelDecoder final : public DecodeStage {
 public:
  void push(std::string_view token, const Next& next) override {
    std::string out;
    const auto bytes = bytes_of(token);
    utf8_.push(bytes ? std::string_view(*bytes) : token, out);
    if (!out.empty()) next(out);
  }
  void finish(const Next& next) override {
    std::string out;
    utf8_.finish(out);
    if (!out.empty()) next(out);
  }

 private:
  Utf8Stream utf8_;
};

// <0xHH>; -1 if the token is no byte.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int out = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    out = out * 16 + digit;
  }
  return out;
}

// If a run of bytes is not valid UTF-8 as a whole, each of its bytes becomes U+FFFD. So a run is held until it ends.
class ByteFallbackDecoder final : public DecodeStage {
 public:
  void push(std::string_view token, const Next& next) override {
    if (const int byte = byte_of(token); byte >= 0) {
      run_.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
      return;
    }
    finish(next);
    next(token);
  }
  void finish(const Next& next) override {
    if (run_.empty()) return;
    if (is_utf8(run_))
      next(run_);
    else
      for (std::size_t i = 0; i < run_.size(); ++i) next(kReplacement);
    run_.clear();
  }

 private:
  std::string run_;
};

class ReplaceDecoder final : public DecodeStage {
 public:
  explicit ReplaceDecoder(const Replacement& replacement) : replacement_(replacement) {}
  void push(std::string_view token, const Next& next) override {
    std::string text(token), scratch;
    replacement_.apply(text, scratch);
    next(text);
  }

 private:
  const Replacement& replacement_;
};

// Replaces in one text that arrives in parts. If a part ends with the beginning of the pattern, that is held back.
class JoinedReplaceDecoder final : public DecodeStage {
 public:
  explicit JoinedReplaceDecoder(const Replacement& replacement) : replacement_(replacement) {}
  void push(std::string_view part, const Next& next) override {
    const std::string& pattern = *replacement_.plain_pattern();
    open_.append(part);
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = open_.find(pattern); at != std::string::npos; at = open_.find(pattern, done)) {
      out.append(open_, done, at - done).append(replacement_.content());
      done = at + pattern.size();
    }
    std::size_t held = std::min(pattern.size() - 1, open_.size() - done);
    while (held > 0 && open_.compare(open_.size() - held, held, pattern, 0, held) != 0) --held;
    out.append(open_, done, open_.size() - held - done);
    open_.erase(0, open_.size() - held);
    if (!out.empty()) next(out);
  }
  void finish(const Next& next) override {
    if (!open_.empty()) next(open_);
  }

 private:
  const Replacement& replacement_;
  std::string open_;
};

struct StripRule {
  std::string content;  // one character
  std::size_t start = 0, stop = 0;
};

std::size_t count_at_start(std::string_view text, const StripRule& rule, std::size_t most) {
  std::size_t count = 0;
  while (count < most && text.substr(count * rule.content.size()).starts_with(rule.content)) ++count;
  return count;
}
std::size_t count_at_end(std::string_view text, const std::string& content, std::size_t most) {
  std::size_t count = 0;
  while (count < most && text.substr(0, text.size() - count * content.size()).ends_with(content)) ++count;
  return count;
}

class StripDecoder final : public DecodeStage {
 public:
  explicit StripDecoder(const StripRule& rule) : rule_(rule) {}
  void push(std::string_view token, const Next& next) override {
    token.remove_prefix(count_at_start(token, rule_, rule_.start) * rule_.content.size());
    token.remove_suffix(count_at_end(token, rule_.content, rule_.stop) * rule_.content.size());
    next(token);
  }

 private:
  const StripRule& rule_;
};

// Strips one text that arrives in parts.
class JoinedStripDecoder final : public DecodeStage {
 public:
  explicit JoinedStripDecoder(const StripRule& rule) : rule_(rule), left_(rule.start) {}
  void push(std::string_view part, const Next& next) override {
    if (left_ > 0) {
      const std::size_t count = count_at_start(part, rule_, left_);
      part.remove_prefix(count * rule_.content.size());
      if (part.empty()) {
        left_ -= count;
        return;
      }
      left_ = 0;
    }
    open_.append(part);
    const std::size_t held = count_at_end(open_, rule_.content, rule_.stop) * rule_.content.size();
    if (open_.size() > held) next(std::string_view(open_).substr(0, open_.size() - held));
    open_.erase(0, open_.size() - held);
  }

 private:
  const StripRule& rule_;
  std::size_t left_;  // how many characters may still be dropped
  std::string open_;  // the characters at the end that are dropped if nothing follows
};

class MetaspaceDecoder final : public DecodeStage {
 public:
  MetaspaceDecoder(const std::string& space, bool prepends) : space_(space), drops_(prepends) {}
  void push(std::string_view token, const Next& next) override {
    std::string out;
    for (std::size_t at = 0; at < token.size();) {
      const std::size_t space = std::min(token.find(space_, at), token.size());
      out.append(token, at, space - at);
      if (space < token.size() && !drops_) out.push_back(' ');
      at = space + space_.size();
    }
    drops_ = false;
    next(out);
  }

 private:
  const std::string& space_;
  bool drops_;  // the first token's spaces
};

std::size_t count_field(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (value.is_null()) return 0;
  if (!value.is_number_unsigned()) throw InputError(fmt::format("decoder Strip.{}: expected a whole number", name));
  return value.get<std::size_t>();
}

template <class Stage, class Rule>
TokenDecoder::MakeStage maker_of(std::shared_ptr<const Rule> rule) {
  return [rule = std::move(rule)] { return std::make_unique<Stage>(*rule); };
}

TokenDecoder::MakeStage make_metaspace_decoder(const Json& json) {
  const std::string scheme = optional_text(json, "prepend_scheme", "decoder Metaspace");
  const bool prepends = scheme.empty() ? flag(json, "add_prefix_space", true, "decoder Metaspace") : scheme != "never";
  auto space = std::make_shared<const std::string>(text_field(json, "replacement", "decoder Metaspace"));
  if (space->empty()) throw InputError("decoder Metaspace.replacement: found an empty text");
  return [space, prepends] { return std::make_unique<MetaspaceDecoder>(*space, prepends); };
}

TokenDecoder::MakeStage make_strip_decoder(const Json& json, bool joined) {
  auto rule = std::make_shared<StripRule>();
  rule->content = text_field(json, "content", "decoder Strip");
  if (rule->content.empty() || rule->content.size() != utf8_length(rule->content[0]))
    throw InputError("decoder Strip.content: expected one character");
  rule->start = count_field(json, "start");
  rule->stop = count_field(json, "stop");
  std::shared_ptr<const StripRule> fixed = std::move(rule);
  return joined ? maker_of<JoinedStripDecoder>(fixed) : maker_of<StripDecoder>(fixed);
}

TokenDecoder::MakeStage make_replace_decoder(const Json& json, bool joined) {
  const auto rule = std::make_shared<const Replacement>(json, "decoder Replace");
  if (!joined) return maker_of<ReplaceDecoder>(rule);
  if (rule->plain_pattern() == nullptr)
    throw InputError("decoder Replace: a regular expression after the tokens are joined is not supported");
  return maker_of<JoinedReplaceDecoder>(rule);
}

}  // namespace

TokenDecoder::TokenDecoder(const Json& json) {
  if (json.is_null())
    makers_.emplace_back([] { return std::make_unique<SpaceJoin>(); });
  else
    add(json);
}

void TokenDecoder::add(const Json& json) {
  const std::string type = type_of(json, "decoder");
  if (type == "Sequence") return for_items(json, "decoders", "decoder", [this](const Json& item) { add(item); });
  if (type == "Replace") return makers_.push_back(make_replace_decoder(json, joined_));
  if (type == "Strip") return makers_.push_back(make_strip_decoder(json, joined_));
  const bool of_tokens = type == "ByteLevel" || type == "ByteFallback" || type == "Metaspace";
  if (of_tokens && joined_)
    throw InputError(fmt::format("the decoder {} after one that joins the tokens is not supported", type));
  if (type == "Fuse") {
    joined_ = true;
  } else if (type == "ByteLevel") {
    makers_.emplace_back([] { return std::make_unique<ByteLevelDecoder>(); });
    joined_ = true;
  } else if (type == "ByteFallback") {
    makers_.emplace_back([] { return std::make_unique<ByteFallbackDecoder>(); });
  } else if (type == "Metaspace") {
    makers_.push_back(make_metaspace_decoder(json));
  } else {
    throw InputError(
        fmt::format("the decoder {} is not supported; allowed: ByteLevel, ByteFallback, Fuse, Metaspace, "
                    "Replace, Strip and Sequence",
                    type));
  }
}

std::vector<std::unique_ptr<DecodeStage>> TokenDecoder::stages() const {
  std::vector<std::unique_ptr<DecodeStage>> out;
  out.reserve(makers_.size());
  for (const MakeStage& make : makers_) out.push_back(make());
  return out;
}

void DecodeChain::pass(std::size_t stage, std::string_view token, std::string& out) {
  if (stage == stages_.size()) {
    out.append(token);
    return;
  }
  stages_[stage]->push(token, [&](std::string_view part) { pass(stage + 1, part, out); });
}

void DecodeChain::finish(std::string& out) {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage)
    stages_[stage]->finish([&](std::string_view part) { pass(stage + 1, part, out); });
}

}  // namespace plimsoll::text
