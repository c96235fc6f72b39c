// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <array>
#include <cstdint>
#include <optional>

#include "text/json_fields.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

// Where the matches of a delimiter go.
enum class Behavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior read_behavior(const Json& json) {
  struct Name {
    const char *tag, *snake;  // as in tokenizer.json, and as in the Python interface
    Behavior behavior;
  };
  constexpr auto kNames =
      std::to_array<Name>({{"Removed", "removed", Behavior::removed},
                           {"Isolated", "isolated", Behavior::isolated},
                           {"MergedWithPrevious", "merged_with_previous", Behavior::merged_with_previous},
                           {"MergedWithNext", "merged_with_next", Behavior::merged_with_next},
                           {"Contiguous", "contiguous", Behavior::contiguous}});
  const std::string found = text_field(json, "behavior", "pre_tokenizer Split");
  for (const Name& name : kNames)
    if (found == name.tag || found == name.snake) return name.behavior;
  throw InputError(
      fmt::format("pre_tokenizer Split.behavior: found '{}', allowed: Removed, Isolated, "
                  "MergedWithPrevious, MergedWithNext and Contiguous",
                  found));
}

struct Segment {
  std::size_t begin = 0, end = 0;
  bool delimiter = false;
};

// Joins the alternating segments of a text with their neighbours as the behaviour asks, and passes them on.
class Joiner {
 public:
  Joiner(Behavior behavior, const Piece& piece, PieceSink& next) : behavior_(behavior), piece_(piece), next_(next) {}

  void add(const Segment& segment) {
    switch (behavior_) {
      case Behavior::removed:
        if (!segment.delimiter) emit(segment);
        return;
      case Behavior::isolated: return emit(segment);
      case Behavior::contiguous: return hold(segment, held_ && held_->delimiter == segment.delimiter);
      // A delimiter joins a text before it, but not another delimiter.
      case Behavior::merged_with_previous:
        hold(segment, held_ && segment.delimiter && !held_->delimiter);
        if (segment.delimiter) finish();
        return;
      case Behavior::merged_with_next: return hold(segment, held_ && held_->delimiter && !segment.delimiter);
    }
  }
  void finish() {
    if (held_) emit(*held_);
    held_.reset();
  }

 private:
  void hold(const Segment& segment, bool joins) {
    if (joins) {
      held_->end = segment.end;
      held_->delimiter = segment.delimiter;
    } else {
      finish();
      held_ = segment;
    }
  }
  void emit(const Segment& segment) {
    if (segment.begin == segment.end) return;
    next_.take({piece_.text.substr(segment.begin, segment.end - segment.begin), piece_.first && segment.begin == 0});
  }

  Behavior behavior_;
  const Piece& piece_;
  PieceSink& next_;
  std::optional<Segment> held_;
};

class SplitStage final : public PieceStage {
 public:
  SplitStage(const std::string& pattern, Behavior behavior, bool inverted)
      : regex_(pattern), behavior_(behavior), inverted_(inverted) {}

  void apply(const Piece& piece, PieceSink& next) const override {
    Joiner joiner(behavior_, piece, next);
    Regex::Walk walk(regex_, piece.text);
    std::size_t done = 0;
    for (Regex::Match match; walk.next(match); done = match.end) {
      if (match.begin > done) joiner.add({done, match.begin, inverted_});
      joiner.add({match.begin, match.end, !inverted_});
    }
    if (done < piece.text.size()) joiner.add({done, piece.text.size(), inverted_});
    joiner.finish();
  }

 private:
  Regex regex_;
  Behavior behavior_;
  bool inverted_;
};

// Spaces become a visible character, which begins words.
class MetaspaceStage final : public PieceStage {
 public:
  enum class Prepends : std::uint8_t { always, first, never };
  MetaspaceStage(std::string space, Prepends prepends, bool splits)
      : space_(std::move(space)), prepends_(prepends), splits_(splits) {}

  void apply(const Piece& piece, PieceSink& next) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + space_.size());
    const bool marked = piece.text.starts_with(' ') || piece.text.starts_with(space_);
    if (!marked && (prepends_ == Prepends::always || (prepends_ == Prepends::first && piece.first))) text = space_;
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t space = std::min(piece.text.find(' ', at), piece.text.size());
      text.append(piece.text, at, space - at);
      if (space < piece.text.size()) text.append(space_);
      at = space + 1;
    }
    if (splits_)
      pass_words(text, piece.first, next);
    else
      next.take({text, piece.first});
  }

 private:
  void pass_words(std::string_view text, bool first, PieceSink& next) const {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(space_, begin + 1), text.size());
      next.take({text.substr(begin, end - begin), first && begin == 0});
      begin = end;
    }
  }

  std::string space_;
  Prepends prepends_;
  bool splits_;
};

class SpacePrefixStage final : public PieceStage {
 public:
  void apply(const Piece& piece, PieceSink& next) const override {
    if (piece.text.starts_with(' ')) return next.take(piece);
    const std::string text = ' ' + std::string(piece.text);
    next.take({text, piece.first});
  }
};

// Writes bytes in their alphabet, for stages that follow.
class AlphabetStage final : public PieceStage {
 public:
  void apply(const Piece& piece, PieceSink& next) const override {
    std::string text;
    for (const char c : piece.text) text += byte_alphabet()[static_cast<unsigned char>(c)];
    next.take({text, piece.first});
  }
};

// GPT-2's pattern, which ByteLevel applies unless told otherwise.
constexpr const char* kBytePattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::unique_ptr<PieceStage> make_split(const Json& json) {
  const Json& pattern = field(json, "pattern");
  const std::string place = "pre_tokenizer Split";
  const std::string text = field(pattern, "Regex").is_string() ? text_field(pattern, "Regex", place)
                                                               : literal_pattern(text_field(pattern, "String", place));
  if (text.empty()) throw InputError("pre_tokenizer Split.pattern: found an empty text");
  return std::make_unique<SplitStage>(text, read_behavior(json), flag(json, "invert", false, place));
}

std::unique_ptr<PieceStage> make_metaspace(const Json& json) {
  using Prepends = MetaspaceStage::Prepends;
  const std::string place = "pre_tokenizer Metaspace";
  const std::string scheme = optional_text(json, "prepend_scheme", place);
  Prepends prepends = flag(json, "add_prefix_space", true, place) ? Prepends::always : Prepends::never;
  if (scheme == "first")
    prepends = Prepends::first;
  else if (scheme == "never")
    prepends = Prepends::never;
  else if (!scheme.empty() && scheme != "always")
    throw InputError(fmt::format("{}.prepend_scheme: found '{}', allowed: always, first and never", place, scheme));
  const std::string space = text_field(json, "replacement", place);
  if (space.empty()) throw InputError(place + ".replacement: found an empty text");
  return std::make_unique<MetaspaceStage>(space, prepends, flag(json, "split", true, place));
}

// Passes pieces through the stages from `stage` on. The output of the last stage goes to the sink.
class Chain final : public PieceSink {
 public:
  Chain(const std::vector<std::unique_ptr<PieceStage>>& stages, std::size_t stage, PieceSink& sink)
      : stages_(stages), stage_(stage), sink_(sink) {}
  void take(const Piece& piece) override {
    if (piece.text.empty()) return;
    if (stage_ + 1 == stages_.size()) return stages_[stage_]->apply(piece, sink_);
    Chain next(stages_, stage_ + 1, sink_);
    stages_[stage_]->apply(piece, next);
  }

 private:
  const std::vector<std::unique_ptr<PieceStage>>& stages_;
  std::size_t stage_;
  PieceSink& sink_;
};

}  // namespace

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&& other) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&& other) noexcept = default;

PreTokenizer::PreTokenizer(const Json& json) {
  if (!json.is_null()) add(json);
}

void PreTokenizer::add(const Json& json) {
  const std::string type = type_of(json, "pre_tokenizer");
  if (type == "Sequence")
    return for_items(json, "pretokenizers", "pre_tokenizer", [this](const Json& item) { add(item); });
  if (type == "ByteLevel") return add_byte_level(json);
  if (gives_bytes_) {  // the stage sees the alphabet, not the bytes
    stages_.push_back(std::make_unique<AlphabetStage>());
    gives_bytes_ = false;
  }
  if (type == "Split") {
    stages_.push_back(make_split(json));
  } else if (type == "Metaspace") {
    stages_.push_back(make_metaspace(json));
  } else if (type == "Digits") {
    const bool single = flag(json, "individual_digits", false, "pre_tokenizer Digits");
    stages_.push_back(
        std::make_unique<SplitStage>("\\p{N}", single ? Behavior::isolated : Behavior::contiguous, false));
  } else {
    throw InputError(fmt::format(
        "the pre-tokenizer {} is not supported; allowed: Split, ByteLevel, Metaspace, Digits and Sequence", type));
  }
}

void PreTokenizer::add_byte_level(const Json& json) {
  const std::string place = "pre_tokenizer ByteLevel";
  if (gives_bytes_) stages_.push_back(std::make_unique<AlphabetStage>());
  if (flag(json, "add_prefix_space", true, place)) stages_.push_back(std::make_unique<SpacePrefixStage>());
  if (flag(json, "use_regex", true, place))
    stages_.push_back(std::make_unique<SplitStage>(kBytePattern, Behavior::isolated, false));
  gives_bytes_ = true;
}

void PreTokenizer::split(const Piece& text, PieceSink& sink) const {
  if (text.text.empty()) return;
  if (stages_.empty()) return sink.take(text);
  Chain(stages_, 0, sink).take(text);
}

}  // namespace plimsoll::text
