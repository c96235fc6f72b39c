// SPDX-License-Identifier: Apache-2.0
// Splits a stream of server-sent events (WHATWG HTML, section 9.2) and a stream of JSON lines into messages. Memory is
// bounded whatever arrives. No threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace plimsoll::net {

/// The longest message of a stream, bytes.
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 20;

/// A message of a stream; both are valid during the call.
struct StreamMessage {
  std::string_view event;  // type of a server-sent event; empty: a plain message
  std::string_view data;
};

/// Splits bytes into lines that end in LF, CR LF or CR. Pieces may end anywhere.
class LineSplitter {
 public:
  /// Called with each line, without its end. False: stop.
  using OnLine = std::function<bool(std::string_view)>;
  /// With `lone_cr`, a CR alone ends a line too.
  explicit LineSplitter(bool lone_cr) : lone_cr_(lone_cr) {}

  /// Returns false if a line is longer than kMaxMessage, or on_line stopped; the splitter is then of no further use.
  [[nodiscard]] bool feed(std::string_view bytes, const OnLine& on_line);
  /// The line that has begun and not ended.
  [[nodiscard]] std::string_view rest() const { return line_; }

 private:
  [[nodiscard]] bool end_line(std::string_view tail, const OnLine& on_line);

  std::string line_;
  bool lone_cr_ = true, after_cr_ = false;
};

/// Called with each message. False: stop.
using OnMessage = std::function<bool(const StreamMessage&)>;

/// Server-sent events. An event without data is none; an event that the stream's end cuts off is dropped.
class SseReader {
 public:
  /// Returns false if a line or an event is longer than kMaxMessage, or on_message stopped.
  [[nodiscard]] bool feed(std::string_view bytes, const OnMessage& on_message);
  /// Bytes of an event that has begun and not ended.
  [[nodiscard]] bool is_inside_event() const { return !data_.empty() || !lines_.rest().empty(); }

 private:
  [[nodiscard]] bool line(std::string_view text, const OnMessage& on_message);

  LineSplitter lines_{true};
  std::string data_, event_;
  bool first_line_ = true;
};

/// JSON lines: a message a line; blank lines are none.
class JsonLinesReader {
 public:
  [[nodiscard]] bool feed(std::string_view bytes, const OnMessage& on_message);
  /// The stream has ended: a last line without an end counts.
  [[nodiscard]] bool finish(const OnMessage& on_message);

 private:
  LineSplitter lines_{false};
};

}  // namespace plimsoll::net
