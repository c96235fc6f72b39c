// SPDX-License-Identifier: Apache-2.0
#include "net/http_request_reader.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <string_view>
#include <utility>

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
using Parser = http::request_parser<GrowingBody>;

// Returns the path of a target without its query. Clients of a proxy send whole URLs, which every server accepts.
std::string_view path_of(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    const std::size_t slash = target.find_first_of("/?", scheme.size());
    target = slash == std::string_view::npos || target[slash] == '?' ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find('?'));
}

}  // namespace

struct HttpRequestReader::Impl {
  const HttpLimits& limits;
  Parser parser;
  bool has_header = false;
  int status = 0;
  std::string fault;

  State fail(int why, std::string text) {
    status = why;
    fault = std::move(text);
    return State::faulty;
  }
};

HttpRequestReader::HttpRequestReader(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {
  impl_->parser.eager(true);
  impl_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(limits.body_bytes);
}
HttpRequestReader::~HttpRequestReader() = default;
HttpRequestReader::HttpRequestReader(HttpRequestReader&&) noexcept = default;
HttpRequestReader& HttpRequestReader::operator=(HttpRequestReader&&) noexcept = default;

HttpRequestReader::State HttpRequestReader::feed(std::string& bytes) {
  Impl& impl = *impl_;
  error_code error;
  const std::size_t used = impl.parser.put(asio::buffer(bytes), error);
  bytes.erase(0, used);
  if (error == http::error::header_limit)
    return impl.fail(431, fmt::format("the header has more than {} bytes", impl.limits.header_bytes));
  if (error == http::error::body_limit)
    return impl.fail(413, fmt::format("the body has more than {} bytes", impl.limits.body_bytes));
  if (error && error != http::error::need_more)
    return impl.fail(400, fmt::format("not an HTTP/1.1 request: {}", error.message()));
  if (!impl.parser.is_header_done()) return State::reading;
  // What is left over is the header of a chunk, or the fields behind the last one.
  if (error == http::error::need_more && bytes.size() > impl.limits.header_bytes)
    return impl.fail(431, fmt::format("the header of a chunk has more than {} bytes", impl.limits.header_bytes));
  if (!std::exchange(impl.has_header, true)) {
    const std::string_view encoding = impl.parser.get()[http::field::content_encoding];
    if (!encoding.empty() && !boost::beast::iequals(encoding, "identity"))
      return impl.fail(415, "compressed bodies are not supported: send it without Content-Encoding");
    const std::string_view transfer = impl.parser.get()[http::field::transfer_encoding];
    if (!transfer.empty() && !boost::beast::iequals(transfer, "chunked"))
      return impl.fail(501, "the only Transfer-Encoding that is supported is chunked");
  }
  return impl.parser.is_done() ? State::done : State::reading;
}

bool HttpRequestReader::has_begun() const { return impl_->parser.got_some(); }
bool HttpRequestReader::has_header() const { return impl_->has_header; }
bool HttpRequestReader::waits_to_continue() const {
  return boost::beast::iequals(impl_->parser.get()[http::field::expect], "100-continue");
}
std::size_t HttpRequestReader::body_bytes() const { return impl_->parser.get().body().size(); }
int HttpRequestReader::fault_status() const { return impl_->status; }
const std::string& HttpRequestReader::fault() const { return impl_->fault; }
bool HttpRequestReader::keeps_alive() const { return impl_->parser.keep_alive(); }
bool HttpRequestReader::knows_chunks() const { return impl_->parser.get().version() >= 11; }

ServerRequest HttpRequestReader::take() {
  auto message = impl_->parser.release();
  ServerRequest request;
  request.method = message.method_string();
  request.path = path_of(message.target());
  request.authorization = message[http::field::authorization];
  request.body = std::move(message.body());
  return request;
}

}  // namespace plimsoll::net
