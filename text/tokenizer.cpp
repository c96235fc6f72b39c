// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <ranges>

#include "text/json_fields.h"
#include "text/utf8.h"

namespace plimsoll::text {

Tokenizer::Tokenizer(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw InputError({.file = file}, "not a JSON object");
  try {
    normalizer_ = Normalizer(field(json, "normalizer"));
    pre_tokenizer_ = PreTokenizer(field(json, "pre_tokenizer"));
    model_ = std::make_unique<BpeModel>(field(json, "model"), pre_tokenizer_.gives_bytes());
    decoder_ = TokenDecoder(field(json, "decoder"));
    size_ = model_->size();
    read_added_tokens(field(json, "added_tokens"));
    read_post_processor(field(json, "post_processor"));
  } catch (const InputError& error) {
    throw InputError({.file = file}, error.text());
  }
}

std::unique_ptr<Tokenizer> Tokenizer::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw InputError({.file = path}, "cannot be read");
  return std::make_unique<Tokenizer>(text, path);
}

void Tokenizer::read_added_tokens(const Json& json) {
  if (json.is_null()) return;
  const std::string place = "added_tokens";
  if (!json.is_array()) throw InputError(place + ": expected a list");
  std::vector<AddedToken> raw, normalized;
  for (const Json& item : json) {
    AddedToken token{.id = -1,
                     .content = text_field(item, "content", place),
                     .spelling = {},
                     .single_word = flag(item, "single_word", false, place),
                     .lstrip = flag(item, "lstrip", false, place),
                     .rstrip = flag(item, "rstrip", false, place),
                     .normalized = flag(item, "normalized", false, place),
                     .special = flag(item, "special", false, place)};
    if (token.content.empty()) continue;
    const Json& id = field(item, "id");
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > (1U << 24U))
      throw InputError(fmt::format("{}: '{}' has no id", place, token.content));
    token.id = model_->id_of(token.content).value_or(id.get<TokenId>());
    size_ = std::max(size_, token.id + 1);
    token.spelling = token.content;
    if (token.normalized) normalizer_.apply(token.spelling);
    added_.insert_or_assign(token.id, token);
    (token.normalized ? normalized : raw).push_back(token);
  }
  raw_tokens_ = AddedTokenFinder(std::move(raw));
  normalized_tokens_ = AddedTokenFinder(std::move(normalized));
}

void Tokenizer::read_post_processor(const Json& json) {
  if (json.is_null()) return;
  const std::string type = type_of(json, "post_processor");
  if (type == "Sequence")
    return for_items(json, "processors", "post_processor", [this](const Json& item) { read_post_processor(item); });
  if (type == "ByteLevel") return;  // changes only offsets
  if (type == "TemplateProcessing") return read_template(json);
  throw InputError(
      fmt::format("the post-processor {} is not supported; allowed: TemplateProcessing, ByteLevel and Sequence", type));
}

void Tokenizer::read_template(const Json& json) {
  const std::string place = "post_processor TemplateProcessing";
  std::vector<TokenId> before, after;
  bool behind = false;
  for_items(json, "single", place, [&](const Json& item) {
    if (!field(item, "Sequence").is_null()) {
      if (behind) throw InputError(place + ": the sequence occurs twice");
      behind = true;
      return;
    }
    const std::string name = text_field(field(item, "SpecialToken"), "id", place);
    for_items(field(field(json, "special_tokens"), name.c_str()), "ids", place, [&](const Json& id) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<TokenId>::max())
        throw InputError(fmt::format("{}: '{}' has an id that is no number", place, name));
      (behind ? after : before).push_back(id.get<TokenId>());
    });
  });
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  for (const auto& [id, added] : added_)
    if (added.content == token) return id;
  return model_->id_of(token);
}

const std::string* Tokenizer::token(TokenId id) const {
  const auto added = added_.find(id);
  return added == added_.end() ? model_->token(id) : &added->second.spelling;
}

bool Tokenizer::is_special(TokenId id) const {
  const auto added = added_.find(id);
  // As in Hugging Face's tokenizers: a token is special only if its spelling equals the text of a special token.
  return added != added_.end() && added->second.special && added->second.spelling == added->second.content;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  TextStream stream(*this, skip_special);
  std::string out;
  for (const TokenId id : ids) stream.push(id, out);
  stream.finish(out);
  return out;
}

void TextStream::push(TokenId id, std::string& out) {
  const std::string* const token = tokenizer_.token(id);
  if (token != nullptr && !(skip_special_ && tokenizer_.is_special(id))) chain_.push(*token, out);
}

namespace {

class EncodingSink final : public PieceSink {
 public:
  EncodingSink(BpeEncoder& words, std::vector<TokenId>& out) : words_(words), out_(out) {}
  void take(const Piece& piece) override { words_.encode(piece.text, out_); }

 private:
  BpeEncoder& words_;
  std::vector<TokenId>& out_;
};

}  // namespace

std::vector<TokenId> TokenEncoder::encode(std::string_view text, bool specials) {
  std::vector<TokenId> out;
  encode(text, specials, out);
  return out;
}

void TokenEncoder::encode(std::string_view text, bool specials, std::vector<TokenId>& out) {
  std::string repaired;
  if (!is_utf8(text)) {
    Utf8Stream stream;
    stream.push(text, repaired);
    stream.finish(repaired);
    text = repaired;
  }
  if (specials) out.insert(out.end(), tokenizer_.before_.begin(), tokenizer_.before_.end());
  tokenizer_.raw_tokens_.divide(text, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr)
      out.push_back(token->id);
    else
      encode_section(part, part.data() == text.data(), out);
  });
  if (specials) out.insert(out.end(), tokenizer_.after_.begin(), tokenizer_.after_.end());
}

void TokenEncoder::encode_section(std::string_view section, bool first, std::vector<TokenId>& out) {
  std::string normalized;
  if (!tokenizer_.normalizer_.empty()) {
    normalized = section;
    tokenizer_.normalizer_.apply(normalized);
    section = normalized;
  }
  EncodingSink sink(words_, out);
  tokenizer_.normalized_tokens_.divide(section, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr)
      out.push_back(token->id);
    else
      tokenizer_.pre_tokenizer_.split({part, first && part.data() == section.data()}, sink);
  });
}

}  // namespace plimsoll::text
