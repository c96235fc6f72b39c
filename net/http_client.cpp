// SPDX-License-Identifier: Apache-2.0
#include "net/http_client.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <map>

#include "model/error.h"
#include "net/impl.h"

namespace plimsoll::net {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 8192;

std::string request_text(const HttpClientSettings& settings, const HttpRequest& request) {
  const Url& url = settings.server;
  std::string text = request.method + ' ';
  if (settings.proxy && !url.tls) text += "http://" + url.authority();
  text += url.path + request.target + " HTTP/1.1\r\nHost: " + url.authority() +
          "\r\nUser-Agent: plimsoll\r\nAccept: */*\r\nAccept-Encoding: identity\r\n";
  for (const auto& [name, value] : settings.headers) text += name + ": " + value + "\r\n";
  if (!request.content_type.empty()) text += "Content-Type: " + request.content_type + "\r\n";
  if (request.method != "GET") text += fmt::format("Content-Length: {}\r\n", request.body.size());
  return text + "\r\n" + request.body;
}

}  // namespace

// ---- a connection --------------------------------------------------------------------------------------------

namespace {
class Connection;
}  // namespace

struct HttpClient::Impl : std::enable_shared_from_this<HttpClient::Impl> {
  Impl(EventLoop& event_loop, HttpClientSettings given);

  struct Call {
    CallId id = 0;
    std::string text;  // the request as sent
    std::shared_ptr<HttpCall> handler;
    HttpEnd end;
    bool answered = false;  // a byte of the answer has arrived
  };

  void start(Call call, bool reuse);
  void idle(const std::shared_ptr<Connection>& connection);
  void gone(const Connection* connection);

  EventLoop& loop;
  HttpClientSettings settings;
  std::optional<TlsContext> tls;
  std::vector<Tcp::endpoint> addresses;
  std::vector<std::shared_ptr<Connection>> kept;          // idle connections, the most recently used last
  std::map<CallId, std::shared_ptr<Connection>> in_call;  // by call
  CallId next_id = 1;
  std::size_t open = 0;
};

namespace {

using Client = HttpClient::Impl;

// Reads all the time, so an idle connection that the server closes is noticed immediately.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Client& client)
      : client_(&client), socket_(client.loop.impl().context), timer_(socket_.get_executor()) {}

  void open(Client::Call call) {
    call_ = std::move(call);
    began_ = Clock::now();
    ++client_->open;
    counted_ = true;
    timer_.expires_after(client_->settings.connect_within);
    timer_.async_wait([self = shared_from_this()](const Error& error) {
      if (!error && self->connecting_) self->fail(HttpFailure::refused, "no connection in time");
    });
    asio::async_connect(socket_, client_->addresses,
                        [self = shared_from_this()](const Error& error, const auto&) { self->connected(error); });
  }

  void use(Client::Call call) {
    call_ = std::move(call);
    reused_ = true;
    write();
  }

  // Closes the connection without notifying the call.
  void drop() {
    call_.reset();
    close();
  }

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }

 private:
  template <class F>
  void with_stream(F&& f) {
    if (tls_)
      f(*tls_);
    else
      f(socket_);
  }

  [[nodiscard]] bool is_closed() const { return client_ == nullptr; }

  void connected(const Error& error) {
    if (is_closed()) return;
    if (error) return fail(HttpFailure::refused, error.message());
    Error ignored;
    socket_.set_option(Tcp::no_delay(true), ignored);
    const HttpClientSettings& settings = client_->settings;
    if (settings.proxy && settings.server.tls) return tunnel();
    if (settings.server.tls) return handshake();
    ready();
  }

  // Asks the proxy with CONNECT to forward bytes to the server.
  void tunnel() {
    const Url& url = client_->settings.server;
    const std::string name = url.host.find(':') == std::string::npos ? url.host : '[' + url.host + ']';
    text_ = fmt::format("CONNECT {0}:{1} HTTP/1.1\r\nHost: {0}:{1}\r\n\r\n", name, url.port);
    reader_.emplace(
        HttpEvents{.head = [this](const HttpHead& head) { return tunnelled_ = head.status / 100 == 2, true; },
                   .body = [](std::string_view) { return false; }},
        true);
    asio::async_write(socket_, asio::buffer(text_), [self = shared_from_this()](const Error& error, std::size_t) {
      if (self->is_closed()) return;
      if (error) return self->fail(HttpFailure::refused, "the proxy closed the connection");
      self->read_tunnel();
    });
  }

  // Reads one byte at a time, so that no byte from the server behind the proxy is consumed.
  void read_tunnel() {
    socket_.async_read_some(asio::buffer(buffer_.data(), 1),
                            [self = shared_from_this()](const Error& error, std::size_t size) {
                              if (self->is_closed()) return;
                              if (error) return self->fail(HttpFailure::refused, "the proxy closed the connection");
                              self->tunnel_read(size);
                            });
  }

  void tunnel_read(std::size_t size) {
    switch (reader_->feed({buffer_.data(), size})) {
      case HttpResponseReader::State::reading: return read_tunnel();
      case HttpResponseReader::State::done:
        if (tunnelled_) return handshake();
        [[fallthrough]];
      default: fail(HttpFailure::refused, "the proxy refuses to connect to the server");
    }
  }

  void handshake() {
    tls_.emplace(socket_, client_->tls->impl().context);
    expect_host(tls_->native_handle(), client_->settings.server, client_->settings.tls.insecure);
    tls_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](const Error& error) {
      if (self->is_closed()) return;
      if (error) return self->fail(HttpFailure::tls, handshake_failure(self->tls_->native_handle(), error.message()));
      self->ready();
    });
  }

  void ready() {
    connecting_ = false;
    timer_.cancel();
    call_->end.connecting = Clock::now() - began_;
    read();
    write();
  }

  void write() {
    // The handler may cancel the call, which drops its shared_ptr; the copies keep the handler alive while it runs.
    HttpEvents events{.head =
                          [this](const HttpHead& head) {
                            const std::shared_ptr<HttpCall> handler = call_->handler;
                            return handler->head(head) && call_;
                          },
                      .body =
                          [this](std::string_view bytes) {
                            const std::shared_ptr<HttpCall> handler = call_->handler;
                            return handler->body(bytes) && call_;
                          }};
    reader_.emplace(std::move(events));
    text_ = call_->text;
    call_->end.sent = Clock::now();
    call_->handler->sent(call_->end);
    writing_ = true;
    with_stream([this](auto& stream) {
      asio::async_write(stream, asio::buffer(text_), [self = shared_from_this()](const Error&, std::size_t) {
        self->writing_ = false;  // read() reports a failure to write
        if (self->answered_) self->keep();
      });
    });
  }

  void read() {
    with_stream([this](auto& stream) {
      stream.async_read_some(asio::buffer(buffer_), [self = shared_from_this()](const Error& error, std::size_t size) {
        self->received(error, size);
      });
    });
  }

  void received(const Error& error, std::size_t size) {
    if (is_closed()) return;
    const auto self = shared_from_this();
    if (!call_) return close();  // idle: the server closed it, or sent data without a request
    // TLS 1.3 reports a refused or missing client certificate after the handshake, in an alert.
    if (error && tls_ && error.category() == asio::error::get_ssl_category() &&
        ERR_GET_REASON(static_cast<unsigned long>(error.value())) >= SSL_AD_REASON_OFFSET)
      return fail(HttpFailure::tls, "TLS failed: " + error.message());
    if (error) return lost();
    call_->answered = true;
    const HttpResponseReader::State state = reader_->feed({buffer_.data(), size});
    if (is_closed() || !call_) return;  // the handler cancelled the call
    answer(state);
  }

  void answer(HttpResponseReader::State state) {
    switch (state) {
      case HttpResponseReader::State::reading: return read();
      case HttpResponseReader::State::malformed: return fail(HttpFailure::malformed, reader_->error());
      case HttpResponseReader::State::stopped: return fail(HttpFailure::stopped, "");
      case HttpResponseReader::State::done: return done();
    }
  }

  void done() {
    const bool keeps = reader_->keeps_alive();
    const Client::Call call = take_call();
    if (!keeps) {
      close();
    } else {
      answered_ = true;
      read();
      if (!writing_) keep();
    }
    call.handler->ended(call.end);
  }

  // An answer may arrive before the whole request is written. The connection is reusable when both are done.
  void keep() {
    answered_ = false;
    if (!is_closed() && is_open()) client_->idle(shared_from_this());
  }

  void lost() {
    // The server may close a kept connection at any time. As no answer has begun, the request is sent once more.
    if (reused_ && !call_->answered && !call_->end.reopened) {
      Client& client = *client_;
      Client::Call call = take_call();
      close();
      call.end.reopened = true;
      return client.start(std::move(call), false);
    }
    // Without a stated length, the end of the connection is the end of the answer.
    if (reader_->ended() == HttpResponseReader::State::done) return done_at_end();
    fail(HttpFailure::closed, reader_->error());
  }

  void done_at_end() {
    const Client::Call call = take_call();
    close();
    call.handler->ended(call.end);
  }

  void fail(HttpFailure failure, std::string text) {
    if (is_closed()) return;
    if (!call_) return close();
    Client::Call call = take_call();
    close();
    call.end.failure = failure;
    call.end.text = std::move(text);
    call.handler->ended(call.end);
  }

  Client::Call take_call() {
    Client::Call call = std::move(*call_);
    call_.reset();
    client_->in_call.erase(call.id);
    return call;
  }

  void close() {
    if (is_closed()) return;
    Client& client = *client_;
    client_ = nullptr;
    if (counted_) --client.open;
    timer_.cancel();
    Error ignored;
    socket_.close(ignored);
    client.gone(this);
  }

  Client* client_;  // null once closed
  Tcp::socket socket_;
  std::optional<asio::ssl::stream<Tcp::socket&>> tls_;
  asio::steady_timer timer_;
  std::optional<HttpResponseReader> reader_;
  std::optional<Client::Call> call_;
  std::string text_;
  Clock::time_point began_;
  bool connecting_ = true, writing_ = false, answered_ = false, reused_ = false, tunnelled_ = false, counted_ = false;
  std::array<char, kReadBytes> buffer_;
};

// Returns the numeric addresses of a host.
std::vector<Tcp::endpoint> resolve(asio::io_context& context, const Url& url) {
  Error error;
  Tcp::resolver resolver(context);
  const auto found = resolver.resolve(url.host, std::to_string(url.port), error);
  if (error) throw DeviceError(fmt::format("{}: the host has no address: {}", url.text(), error.message()));
  return {found.begin(), found.end()};
}

}  // namespace

// ---- the client -----------------------------------------------------------------------------------------------

HttpClient::Impl::Impl(EventLoop& event_loop, HttpClientSettings given)
    : loop(event_loop),
      settings(std::move(given)),
      addresses(resolve(loop.impl().context, settings.proxy ? *settings.proxy : settings.server)) {
  if (settings.server.tls) tls.emplace(settings.tls);
}

void HttpClient::Impl::start(Call call, bool reuse) {
  const CallId id = call.id;
  while (reuse && !kept.empty()) {
    const std::shared_ptr<Connection> connection = std::move(kept.back());
    kept.pop_back();
    if (!connection->is_open()) continue;
    in_call.emplace(id, connection);
    return connection->use(std::move(call));
  }
  const auto connection = std::make_shared<Connection>(*this);
  in_call.emplace(id, connection);
  connection->open(std::move(call));
}

void HttpClient::Impl::idle(const std::shared_ptr<Connection>& connection) { kept.push_back(connection); }

void HttpClient::Impl::gone(const Connection* connection) {
  std::erase_if(kept, [connection](const auto& other) { return other.get() == connection; });
}

HttpClient::HttpClient(EventLoop& loop, HttpClientSettings settings)
    : impl_(std::make_shared<Impl>(loop, std::move(settings))) {}

HttpClient::~HttpClient() {
  cancel_all();
  const std::vector<std::shared_ptr<Connection>> kept = std::exchange(impl_->kept, {});
  for (const auto& connection : kept) connection->drop();
}

HttpClient::CallId HttpClient::send(HttpRequest request, std::shared_ptr<HttpCall> call) {
  const CallId id = impl_->next_id++;
  impl_->start({.id = id, .text = request_text(impl_->settings, request), .handler = std::move(call), .end = {}}, true);
  return id;
}

void HttpClient::cancel(CallId id) {
  const auto found = impl_->in_call.find(id);
  if (found == impl_->in_call.end()) return;
  const std::shared_ptr<Connection> connection = found->second;
  impl_->in_call.erase(found);
  connection->drop();
}

void HttpClient::cancel_all() {
  while (!impl_->in_call.empty()) cancel(impl_->in_call.begin()->first);
}

std::size_t HttpClient::connections() const { return impl_->open; }

// ---- a whole answer ---------------------------------------------------------------------------------------------

namespace {
class WholeAnswer final : public HttpCall {
 public:
  WholeAnswer(EventLoop& loop, HttpAnswer& answer, std::size_t most) : loop_(loop), answer_(answer), most_(most) {}
  bool head(const HttpHead& head) override {
    answer_.head = head;
    return true;
  }
  bool body(std::string_view bytes) override {
    answer_.body += bytes.substr(0, most_ - answer_.body.size());
    return answer_.body.size() < most_;
  }
  void ended(const HttpEnd& end) override {
    answer_.end = end;
    if (end.failure == HttpFailure::stopped) answer_.end.failure.reset();  // as much as `most` allows has been read
    over = true;
    loop_.stop();
  }
  bool over = false;

 private:
  EventLoop& loop_;
  HttpAnswer& answer_;
  std::size_t most_;
};
}  // namespace

HttpAnswer fetch(EventLoop& loop, HttpClient& client, HttpRequest request, FetchLimits limits) {
  HttpAnswer answer;
  const Deadline until = Clock::now() + limits.within;
  const auto call = std::make_shared<WholeAnswer>(loop, answer, limits.most_body);
  const HttpClient::CallId id = client.send(std::move(request), call);
  while (!call->over && Clock::now() < until) loop.run(until);
  if (call->over) return answer;
  client.cancel(id);
  answer.timed_out = true;
  return answer;
}

}  // namespace plimsoll::net
