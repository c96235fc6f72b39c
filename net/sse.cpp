// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

namespace plimsoll::net {
namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

// Removes a byte-order mark. A view, so that a line within one piece is passed on without a copy.
std::string_view without_bom(std::string_view line) {
  constexpr std::string_view kBom = "\xEF\xBB\xBF";
  return line.starts_with(kBom) ? line.substr(kBom.size()) : line;
}

}  // namespace

bool LineSplitter::end_line(std::string_view tail, const OnLine& on_line) {
  if (line_.empty()) return on_line(tail);
  line_ += tail;
  const bool goes_on = on_line(line_);
  line_.clear();
  return goes_on;
}

bool LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  // Events may end lines with CR, LF or both, even in pieces; JSON lines end with LF alone.
  const std::string_view ends = lone_cr_ ? "\r\n" : "\n";
  while (!bytes.empty()) {
    // The \n of a \r\n: the line has ended at the \r already, perhaps in an earlier read.
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const std::size_t end = bytes.find_first_of(ends);
    if (line_.size() + std::min(end, bytes.size()) > kMaxMessage) return false;
    if (end == std::string_view::npos) {
      line_ += bytes;
      return true;
    }
    after_cr_ = bytes[end] == '\r';
    if (!end_line(bytes.substr(0, end), on_line)) return false;
    bytes.remove_prefix(end + 1);
  }
  return true;
}

bool SseReader::feed(std::string_view bytes, const OnMessage& on_message) {
  return lines_.feed(bytes, [&](std::string_view text) { return line(text, on_message); });
}

bool SseReader::line(std::string_view text, const OnMessage& on_message) {
  if (first_line_) text = without_bom(text);
  first_line_ = false;
  if (text.empty()) {
    bool goes_on = true;
    if (!data_.empty()) {
      data_.pop_back();  // the line feed after the last data line
      goes_on = on_message({event_, data_});
    }
    data_.clear();
    event_.clear();
    return goes_on;
  }
  const std::size_t colon = text.find(':');
  const std::string_view field = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  // One blank after the colon belongs to the format, further ones to the value.
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") event_ = value;
  if (field != "data") return true;
  if (data_.size() + value.size() > kMaxMessage) return false;
  data_ += value;
  data_ += '\n';
  return true;
}

bool JsonLinesReader::feed(std::string_view bytes, const OnMessage& on_message) {
  return lines_.feed(bytes, [&](std::string_view text) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    return is_blank(text) || on_message({{}, text});
  });
}

bool JsonLinesReader::finish(const OnMessage& on_message) {
  const std::string_view text = lines_.rest();
  return is_blank(text) || on_message({{}, text});
}

}  // namespace plimsoll::net
