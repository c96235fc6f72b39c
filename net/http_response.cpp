// SPDX-License-Identifier: Apache-2.0
#include "net/http_response.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <optional>

namespace plimsoll::net {
namespace {

namespace http = boost::beast::http;
using Error = boost::beast::error_code;
constexpr int kMostInterims = 100;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return out;
}

// Beast's parser of bytes; it passes what it finds to the events without a copy.
class Parser final : public http::basic_parser<false> {
 public:
  Parser(HttpEvents& events, bool no_body) : events_(events) {
    eager(true);
    header_limit(kMaxHeader);
    body_limit(std::numeric_limits<std::uint64_t>::max());  // without this, Beast 1.74 refuses every length
    if (no_body) skip(true);
  }

  [[nodiscard]] bool is_interim() const { return head_.status >= 100 && head_.status < 200; }
  [[nodiscard]] bool is_stopped() const { return stopped_; }

 private:
  void on_request_impl(http::verb, std::string_view, std::string_view, int, Error&) override {}
  void on_response_impl(int code, std::string_view, int, Error&) override { head_.status = code; }
  void on_field_impl(http::field, std::string_view name, std::string_view value, Error&) override {
    head_.fields.emplace_back(lower(name), value);
  }
  void on_header_impl(Error& error) override {
    if (!is_interim() && !events_.head(head_)) stop(error);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Error&) override {}
  std::size_t on_body_impl(std::string_view body, Error& error) override { return pass(body, error); }
  void on_chunk_header_impl(std::uint64_t, std::string_view, Error&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, std::string_view body, Error& error) override {
    return pass(body, error);
  }
  void on_finish_impl(Error&) override {}

  std::size_t pass(std::string_view body, Error& error) {
    if (!body.empty() && !events_.body(body)) stop(error);
    return body.size();
  }
  void stop(Error& error) {
    stopped_ = true;
    error = http::error::end_of_stream;
  }

  HttpEvents& events_;
  HttpHead head_;
  bool stopped_ = false;
};

}  // namespace

bool has_lone_line_feed(std::string_view lines) {
  for (std::size_t at = lines.find('\n'); at != std::string_view::npos; at = lines.find('\n', at + 1))
    if (at == 0 || lines[at - 1] != '\r') return true;
  return false;
}

std::string_view HttpHead::field(std::string_view name) const {
  for (const auto& [field_name, value] : fields)
    if (field_name == name) return value;
  return {};
}

std::string HttpHead::content_type() const {
  std::string_view type = field("content-type");
  type = type.substr(0, type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return lower(type);
}

struct HttpResponseReader::Impl {
  HttpEvents events;
  bool no_body = false;
  std::optional<Parser> parser;
  std::string rest;  // bytes that the parser cannot use yet: part of a header or of a chunk's header
  State state = State::reading;
  int interims = 0;
  bool surplus = false;  // more bytes arrived than the answer has
  std::string error;

  State fail(std::string text) {
    error = std::move(text);
    return state = State::malformed;
  }
  State put(std::string_view& bytes);
};

// Parses as much of `bytes` as it can, and removes that part.
HttpResponseReader::State HttpResponseReader::Impl::put(std::string_view& bytes) {
  Error failure;
  const std::size_t used = parser->put(boost::asio::const_buffer(bytes.data(), bytes.size()), failure);
  bytes.remove_prefix(used);
  if (parser->is_stopped()) return state = State::stopped;
  if (failure && failure != http::error::need_more) return fail(failure.message());
  if (!parser->is_done()) return State::reading;
  if (!parser->is_interim()) {
    surplus = !bytes.empty();
    return state = State::done;
  }
  // An interim answer such as "100 Continue"; the final one follows.
  if (++interims > kMostInterims) return fail("too many interim answers");
  parser.emplace(events, no_body);
  return bytes.empty() ? State::reading : put(bytes);
}

HttpResponseReader::HttpResponseReader(HttpEvents events, bool no_body) : impl_(std::make_unique<Impl>()) {
  impl_->events = std::move(events);
  impl_->no_body = no_body;
  impl_->parser.emplace(impl_->events, no_body);
}
HttpResponseReader::~HttpResponseReader() = default;
HttpResponseReader::HttpResponseReader(HttpResponseReader&&) noexcept = default;
HttpResponseReader& HttpResponseReader::operator=(HttpResponseReader&&) noexcept = default;

HttpResponseReader::State HttpResponseReader::feed(std::string_view bytes) {
  Impl& impl = *impl_;
  if (impl.state != State::reading || bytes.empty()) return impl.state;
  if (!impl.rest.empty()) {
    impl.rest += bytes;
    bytes = impl.rest;
  }
  // The parser needs two calls for a header and the body that follows it.
  std::size_t before = 0;
  do {
    before = bytes.size();
    if (impl.put(bytes) != State::reading) return impl.state;
  } while (!bytes.empty() && bytes.size() < before);
  if (bytes.size() > kMaxHeader) return impl.fail("a header is too long");
  if (has_lone_line_feed(bytes)) return impl.fail("a line of the header ends with LF alone");
  impl.rest = std::string(bytes);
  return impl.state;
}

HttpResponseReader::State HttpResponseReader::ended() {
  Impl& impl = *impl_;
  if (impl.state != State::reading) return impl.state;
  Error failure;
  if (!impl.parser->got_some()) return impl.fail("the connection was closed without an answer");
  if (!impl.rest.empty() || !impl.parser->is_header_done()) return impl.fail("the connection was closed in a header");
  impl.parser->put_eof(failure);
  if (failure || !impl.parser->is_done()) return impl.fail("the connection was closed inside the answer");
  return impl.state = State::done;
}

const std::string& HttpResponseReader::error() const { return impl_->error; }
bool HttpResponseReader::keeps_alive() const {
  return impl_->state == State::done && !impl_->surplus && impl_->parser->keep_alive();
}

}  // namespace plimsoll::net
