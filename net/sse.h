// SPDX-License-Identifier: Apache-2.0
// Splits a stream of server-sent events (WHATWG HTML, section 9.2) or of JSON lines into messages. Memory is bounded
// whatever arrives. No threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace plimsoll::net {

/// The longest message of a stream, in bytes.
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 20;

/// A message of a stream. The views are valid during the call.
struct StreamMessage {
  std::string_view event;  // type of a server-sent event; empty for a plain message
  std::string_view data;
};

/// Splits bytes into lines that end in LF, CR LF or CR. A line may arrive in several pieces.
class LineSplitter {
 public:
  /// Called with each line, without its end. Returns false to stop.
  using OnLine = std::function<bool(std::string_view)>;
  /// With `lone_cr`, a CR alone also ends a line.
  explicit LineSplitter(bool lone_cr) : lone_cr_(lone_cr) {}

  /// Returns false if a line is longer than kMaxMessage or on_line stopped. The splitter cannot be used after that.
  [[nodiscard]] bool feed(std::string_view bytes, const OnLine& on_line);
  /// Returns the line that has no end yet.
  [[nodiscard]] std::string_view rest() const { return line_; }

 private:
  [[nodiscard]] bool end_line(std::string_view tail, const OnLine& on_line);

  std::string line_;
  bool lone_cr_ = true, after_cr_ = false;
};

/// Called with each message. Returns false to stop.
using OnMessage = std::function<bool(const StreamMessage&)>;

/// Splits server-sent events. Ignores events without data, and drops an event that the end of the stream cuts off.
class SseReader {
 public:
  /// Returns false if a line or an event is longer than kMaxMessage, or on_message stopped.
  [[nodiscard]] bool feed(std::string_view bytes, const OnMessage& on_message);
  /// Returns whether an event has begun and not ended.
  [[nodiscard]] bool is_inside_event() const { return !data_.empty() || !lines_.rest().empty(); }

 private:
  [[nodiscard]] bool line(std::string_view text, const OnMessage& on_message);

  LineSplitter lines_{true};
  std::string data_, event_;
  bool first_line_ = true;
};

/// Splits JSON lines: each line is a message; blank lines are skipped.
class JsonLinesReader {
 public:
  [[nodiscard]] bool feed(std::string_view bytes, const OnMessage& on_message);
  /// Handles the end of the stream: a last line without a line feed counts as a message.
  [[nodiscard]] bool finish(const OnMessage& on_message);

 private:
  LineSplitter lines_{false};
};

}  // namespace plimsoll::net
