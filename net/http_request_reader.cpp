// SPDX-License-Identifier: Apache-2.0
#include "net/http_request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "net/http_response.h"

namespace plimsoll::net {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

/// A string that grows with the received bytes, so that a stated length alone takes no memory.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>& /*header*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      std::size_t size = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it) {
        const asio::const_buffer part(*it);
        body_.append(static_cast<const char*>(part.data()), part.size());
        size += part.size();
      }
      error = {};
      return size;
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using RequestParser = http::request_parser<GrowingBody>;

// Returns the length of "http://" or "https://" at the beginning of a target; 0 if it has neither.
std::size_t scheme_size(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (boost::beast::iequals(target.substr(0, scheme.size()), scheme)) return scheme.size();
  return 0;
}

// Returns the path of a target without its query. Clients of a proxy send whole URLs, which every server accepts.
std::string_view path_of(std::string_view target) {
  if (const std::size_t scheme = scheme_size(target); scheme > 0) {
    const std::size_t slash = target.find_first_of("/?", scheme);
    target = slash == std::string_view::npos || target[slash] == '?' ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find('?'));
}

/// Why a request is refused.
struct Fault {
  int status;
  std::string text;
};

// ---- rules of RFC 9112 and 9110 that Beast leaves to its user -------------------------------------------------

// Beast waits for CR LF if a line ends with LF alone, and it joins folded lines. A proxy may treat both differently, so
// one request could hide inside another. Checks the lines up to the first empty one.
std::optional<Fault> check_lines(std::string_view bytes) {
  bytes = bytes.substr(0, bytes.find("\r\n\r\n"));
  if (has_lone_line_feed(bytes)) return Fault{400, "a line ends with LF alone; lines of HTTP end with CR LF"};
  for (const char* const fold : {"\r\n ", "\r\n\t"})
    if (bytes.find(fold) != std::string_view::npos)
      return Fault{400, "a header line is folded: write the field in one line"};
  return {};
}

// Beast reads the size of the last chunk as 0 whatever follows the zero, and waits for the end of the fields. `bytes`
// begin with the header of a chunk, perhaps behind the end of the chunk before.
std::optional<Fault> check_last_chunk(std::string_view bytes) {
  if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
  const std::size_t end = bytes.find("\r\n");
  const std::size_t behind = bytes.find_first_not_of('0');
  if (end == std::string_view::npos || behind >= end ||
      std::string_view("; \t").find(bytes[behind]) != std::string_view::npos)
    return {};
  return Fault{400, "the size of a chunk is no hexadecimal number"};
}

bool is_host(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  const std::size_t colon = std::min(text.find(':', bracket), text.size());
  if (bracket > 0 && colon != bracket + 1) return false;
  for (const char c : text.substr(std::min(colon + 1, text.size())))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  const std::string_view also = bracket > 0 ? "[]:.-_~%!$&'()*+,;=" : ".-_~%!$&'()*+,;=";
  for (const char c : text.substr(0, colon))
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && also.find(c) == std::string_view::npos) return false;
  return true;
}

using Message = RequestParser::value_type;

std::optional<Fault> check_host(const Message& message) {
  const std::size_t count = message.count(http::field::host);
  if (count == 0 && message.version() >= 11) return Fault{400, "the header Host is missing; HTTP/1.1 requires it"};
  if (count > 1) return Fault{400, fmt::format("the header Host is stated {} times; one is allowed", count)};
  if (!is_host(message[http::field::host])) return Fault{400, "the header Host is not HOST or HOST:PORT"};
  return {};
}

std::optional<Fault> check_target(const Message& message) {
  const std::string_view target = message.target();
  if (target.starts_with('/') || message.method() == http::verb::connect) return {};
  if (target == "*" && message.method() == http::verb::options) return {};
  const std::size_t scheme = scheme_size(target);
  if (scheme == 0) return Fault{400, "the request's target is neither a path nor an http URL"};
  const std::string_view host = target.substr(scheme, target.find_first_of("/?", scheme) - scheme);
  if (host.empty() || !is_host(host)) return Fault{400, "the URL of the request has no valid host"};
  return {};
}

std::optional<Fault> check_encodings(const Message& message) {
  if (const std::size_t count = message.count(http::field::transfer_encoding); count > 0) {
    if (message.version() < 11) return Fault{400, "Transfer-Encoding needs HTTP/1.1"};
    if (count > 1 || !boost::beast::iequals(message[http::field::transfer_encoding], "chunked"))
      return Fault{501, "the only Transfer-Encoding that is supported is chunked"};
  }
  const std::string_view encoding = message[http::field::content_encoding];
  if (!encoding.empty() && !boost::beast::iequals(encoding, "identity"))
    return Fault{415, "compressed bodies are not supported: send it without Content-Encoding"};
  return {};
}

constexpr std::string_view kContinue = "100-continue";

// A client of HTTP/1.0 does not know interim answers, so its expectation is ignored.
std::optional<Fault> check_expectation(const Message& message) {
  if (message.version() < 11) return {};
  const auto [first, end] = message.equal_range(http::field::expect);
  for (auto line = first; line != end; ++line)
    if (!boost::beast::iequals(line->value(), kContinue))
      return Fault{417, "the only expectation that is supported is 100-continue"};
  return {};
}

std::optional<Fault> check_header(const Message& message) {
  for (const auto check : {check_host, check_target, check_encodings, check_expectation})
    if (auto fault = check(message)) return fault;
  return {};
}

}  // namespace

struct HttpRequestReader::Impl {
  const HttpLimits& limits;
  RequestParser parser;
  bool has_header = false, skipped_line = false;
  std::string authorization;  // of the header: a trailer may not add one
  Fault fault{0, {}};

  State fail(Fault why) {
    fault = std::move(why);
    return State::faulty;
  }
  void skip_empty_line(std::string& bytes);
};

// Old clients send an empty line behind a body (RFC 9112, section 2.2).
void HttpRequestReader::Impl::skip_empty_line(std::string& bytes) {
  if (skipped_line || parser.got_some() || !bytes.starts_with("\r\n")) return;
  bytes.erase(0, 2);
  skipped_line = true;
}

HttpRequestReader::HttpRequestReader(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {
  impl_->parser.eager(false);  // so that the header is seen alone, without the fields behind a chunked body
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(limits.body_bytes);
}
HttpRequestReader::~HttpRequestReader() = default;
HttpRequestReader::HttpRequestReader(HttpRequestReader&&) noexcept = default;
HttpRequestReader& HttpRequestReader::operator=(HttpRequestReader&&) noexcept = default;

HttpRequestReader::State HttpRequestReader::feed(std::string& bytes) {
  Impl& impl = *impl_;
  impl.skip_empty_line(bytes);
  if (bytes.empty() || (bytes == "\r" && !impl.parser.got_some())) return State::reading;
  if (!impl.has_header)
    if (auto fault = check_lines(bytes)) return impl.fail(std::move(*fault));
  error_code error;
  const std::size_t used = impl.parser.put(asio::buffer(bytes), error);
  bytes.erase(0, used);
  if (error == http::error::header_limit)
    return impl.fail({431, fmt::format("the header has more than {} bytes", impl.limits.header_bytes)});
  if (error == http::error::body_limit)
    return impl.fail({413, fmt::format("the body has more than {} bytes", impl.limits.body_bytes)});
  if (error && error != http::error::need_more)
    return impl.fail({400, fmt::format("not an HTTP/1.1 request: {}", error.message())});
  if (!impl.parser.is_header_done()) return State::reading;
  if (!std::exchange(impl.has_header, true)) {
    if (auto fault = check_header(impl.parser.get())) return impl.fail(std::move(*fault));
    impl.authorization = impl.parser.get()[http::field::authorization];
    impl.parser.eager(true);
  }
  if (error == http::error::need_more) {
    // The remaining bytes are the header of a chunk, or the fields that follow the last chunk.
    if (bytes.size() > impl.limits.header_bytes)
      return impl.fail({431, fmt::format("the header of a chunk has more than {} bytes", impl.limits.header_bytes)});
    if (auto fault = check_lines(bytes)) return impl.fail(std::move(*fault));
    if (auto fault = check_last_chunk(bytes)) return impl.fail(std::move(*fault));
  }
  return impl.parser.is_done() ? State::done : State::reading;
}

bool HttpRequestReader::has_begun() const { return impl_->parser.got_some(); }
bool HttpRequestReader::has_header() const { return impl_->has_header; }
bool HttpRequestReader::waits_to_continue() const {
  return knows_chunks() && boost::beast::iequals(impl_->parser.get()[http::field::expect], kContinue);
}
std::size_t HttpRequestReader::body_bytes() const { return impl_->parser.get().body().size(); }
int HttpRequestReader::fault_status() const { return impl_->fault.status; }
const std::string& HttpRequestReader::fault() const { return impl_->fault.text; }
bool HttpRequestReader::keeps_alive() const { return impl_->parser.keep_alive(); }
bool HttpRequestReader::knows_chunks() const { return impl_->parser.get().version() >= 11; }

ServerRequest HttpRequestReader::take() {
  auto message = impl_->parser.release();
  ServerRequest request;
  request.method = message.method_string();
  request.path = path_of(message.target());
  request.authorization = std::move(impl_->authorization);
  request.body = std::move(message.body());
  return request;
}

}  // namespace plimsoll::net
