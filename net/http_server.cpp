// SPDX-License-Identifier: Apache-2.0
#include "net/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/status.hpp>
#include <csignal>
#include <ctime>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "model/error.h"
#include "net/http_request_reader.h"

namespace plimsoll::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{16} << 10U;
constexpr int kBurst = 256;  // handlers that run even if the caller is already late
constexpr std::chrono::milliseconds kSweepEvery{1000}, kAcceptAgain{100}, kLinger{2000};
constexpr std::size_t kSpareFiles = 64;

std::size_t most_connections(std::size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
    (void)::getrlimit(RLIMIT_NOFILE, &files);
  }
  const auto allowed = static_cast<std::size_t>(std::min<rlim_t>(files.rlim_cur, 1U << 30U));
  return std::min(wanted, allowed > 2 * kSpareFiles ? allowed - kSpareFiles : allowed / 2);
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays.at(static_cast<std::size_t>(parts.tm_wday)),
                     parts.tm_mday, kMonths.at(static_cast<std::size_t>(parts.tm_mon)), 1900 + parts.tm_year,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

struct HttpServer::State {
  State(HttpHandler& h, const HttpLimits& l, std::string more) : handler(h), limits(l), headers(std::move(more)) {
    limits.connections = most_connections(l.connections);
  }

  void accept();
  void add(tcp::socket&& socket);
  void sweep();
  void await_signal();
  void drop_largest_body();
  [[nodiscard]] std::shared_ptr<Connection> find(ExchangeId id) const;

  HttpHandler& handler;
  HttpLimits limits;
  std::string headers, date = http_date();
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer timer{io}, sweeper{io}, accept_again{io};
  Time armed = Time::max();  // when the timer fires
  bool due = false, woken = false;
  std::vector<std::shared_ptr<Connection>> slots;
  std::vector<std::uint32_t> free_slots;
  std::list<Connection*> waiting;  // connections without a complete request, the longest waiting first
  std::size_t open = 0, bodies = 0;
  std::uint32_t exchanges = 0;
  std::array<char, kReadAtOnce> scratch{};
};

/// One connection: reads a request, waits until its answer is sent, reads the next. Asio's operations keep it alive.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Phase : std::uint8_t { reading, answering, lingering, closed };

  Connection(State& server, tcp::socket&& socket, std::uint32_t slot)
      : server_(server), socket_(std::move(socket)), slot_(slot) {}

  void start();
  void answer(const ServerAnswer& answer);
  void begin_stream(std::string_view content_type);
  void write(std::string_view part, bool last);
  void close();
  [[nodiscard]] bool is_late(Time now) const { return now >= deadline_; }
  [[nodiscard]] bool is_writable() const { return out_.empty(); }
  [[nodiscard]] ExchangeId id() const { return id_; }
  [[nodiscard]] std::size_t body_bytes() const { return counted_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  void refuse(int status, std::string_view text);

 private:
  void begin_request();
  void wait_to_read();
  void read();
  void parse();
  void take_body(bool whole);
  void deliver();
  [[nodiscard]] std::string header(int status, std::string_view content_type, const std::string& more) const;
  void send(std::string_view text);
  void wait_to_write();
  void flush();
  void end_answer();
  void set_waiting(bool waits);

  State& server_;
  tcp::socket socket_;
  std::uint32_t slot_;
  Phase phase_ = Phase::reading;
  ExchangeId id_ = 0;
  std::optional<HttpRequestReader> reader_;
  std::string in_, out_, stream_header_;
  std::size_t sent_ = 0;     // bytes of out_
  std::size_t counted_ = 0;  // bytes of the body that are included in the server's `bodies`
  Time deadline_ = Time::max();
  Time begun_{}, received_{};  // when the server became ready for the request, and read its last bytes
  std::list<Connection*>::iterator waits_;
  bool is_waiting_ = false, header_read_ = false, keep_alive_ = false, chunked_ = false, head_ = false;
  bool complete_ = false;  // the whole answer is in out_, though it may not be sent yet
  bool reading_ = false, writing_ = false, parsing_ = false;
};

// ---- reading ------------------------------------------------------------------------------------------------

void HttpServer::Connection::start() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  begin_request();
  deadline_ = Clock::now() + server_.limits.header_time;
  wait_to_read();
}

void HttpServer::Connection::set_waiting(bool waits) {
  if (is_waiting_ == waits) return;
  is_waiting_ = waits;
  if (waits)
    waits_ = server_.waiting.insert(server_.waiting.end(), this);
  else
    server_.waiting.erase(waits_);
}

void HttpServer::Connection::begin_request() {
  phase_ = Phase::reading;
  id_ = 0;
  header_read_ = complete_ = false;
  reader_.emplace(server_.limits);
  begun_ = Clock::now();
  deadline_ = begun_ + (in_.empty() ? server_.limits.idle_time : server_.limits.header_time);
  set_waiting(true);
}

void HttpServer::Connection::wait_to_read() {
  if (reading_ || phase_ == Phase::closed) return;
  reading_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->reading_ = false;
    if (error || self->phase_ == Phase::closed) return;
    self->read();
  });
}

// While an answer is in progress, data that the client sends ahead is kept up to a limit. The end of the stream means
// that the client has left.
void HttpServer::Connection::read() {
  error_code error;
  const std::size_t size = socket_.read_some(asio::buffer(server_.scratch), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return wait_to_read();
  if (error) return close();
  if (phase_ == Phase::lingering) return wait_to_read();
  if (phase_ == Phase::reading && in_.empty() && reader_ && !reader_->has_begun())
    deadline_ = Clock::now() + server_.limits.header_time;
  received_ = Clock::now();
  in_.append(server_.scratch.data(), size);
  if (phase_ == Phase::reading) parse();
  // With this much read ahead, stop reading: TCP flow control then holds the client back.
  if (phase_ == Phase::closed || (phase_ == Phase::answering && in_.size() >= kReadAtOnce)) return;
  wait_to_read();
}

void HttpServer::Connection::parse() {
  if (parsing_) return;  // called again by an answer that request() gives at once
  parsing_ = true;
  while (phase_ == Phase::reading && !in_.empty()) {
    const std::size_t before = in_.size();
    const HttpRequestReader::State state = reader_->feed(in_);
    if (state == HttpRequestReader::State::faulty) {
      const std::string text = reader_->fault();
      refuse(reader_->fault_status(), text);
      break;
    }
    if (reader_->has_header()) take_body(state == HttpRequestReader::State::done);
    if (phase_ == Phase::reading && state == HttpRequestReader::State::done) deliver();
    if (state == HttpRequestReader::State::reading && in_.size() == before) break;
  }
  parsing_ = false;
}

// The header is there, and perhaps more of the body.
void HttpServer::Connection::take_body(bool whole) {
  if (!std::exchange(header_read_, true) && !whole) {
    deadline_ = Clock::now() + server_.limits.body_time;
    if (reader_->waits_to_continue() && in_.empty()) send("HTTP/1.1 100 Continue\r\n\r\n");
    if (phase_ != Phase::reading) return;
  }
  const std::size_t size = reader_->body_bytes();
  server_.bodies += size - counted_;
  counted_ = size;
  while (server_.bodies > server_.limits.bodies_bytes) server_.drop_largest_body();
}

void HttpServer::Connection::deliver() {
  keep_alive_ = reader_->keeps_alive();
  chunked_ = reader_->knows_chunks();
  ServerRequest request = reader_->take();
  reader_.reset();
  // The bytes of a pipelined request may have been read long before its turn came.
  request.received = std::max(received_, begun_);
  server_.bodies -= std::exchange(counted_, 0);
  set_waiting(false);
  phase_ = Phase::answering;
  deadline_ = Time::max();
  head_ = request.method == "HEAD";
  // The exchange number makes the id unique, so an id of an earlier exchange in the same slot is not found.
  id_ = ExchangeId{++server_.exchanges} << 32U | slot_;
  server_.handler.request(id_, std::move(request));
}

// ---- writing ------------------------------------------------------------------------------------------------

std::string HttpServer::Connection::header(int status, std::string_view content_type, const std::string& more) const {
  return fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nServer: plimsoll\r\nContent-Type: {}\r\n{}{}Connection: {}\r\n",
                     status, http::obsolete_reason(static_cast<http::status>(status)), server_.date, content_type,
                     server_.headers, more, keep_alive_ ? "keep-alive" : "close");
}

void HttpServer::Connection::answer(const ServerAnswer& answer) {
  std::string text = header(answer.status, answer.content_type, answer.headers);
  text += fmt::format("Content-Length: {}\r\n\r\n", answer.body.size());
  if (!head_) text += answer.body;
  complete_ = true;
  send(text);
}

void HttpServer::Connection::begin_stream(std::string_view content_type) {
  if (!chunked_) keep_alive_ = false;  // in HTTP/1.0, closing the connection ends the answer
  stream_header_ = header(200, content_type, "Cache-Control: no-cache\r\n");
  stream_header_ += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
}

void HttpServer::Connection::write(std::string_view part, bool last) {
  complete_ = last;
  std::string text = std::exchange(stream_header_, {});
  if (!chunked_) {
    text += part;
  } else {
    if (!part.empty()) fmt::format_to(std::back_inserter(text), "{:x}\r\n{}\r\n", part.size(), part);
    if (last) text += "0\r\n\r\n";
  }
  send(text);
}

void HttpServer::Connection::send(std::string_view text) {
  if (phase_ == Phase::closed) return;
  std::size_t size = 0;
  // Write at once if nothing is queued. Only what the socket does not take is copied and waits.
  if (out_.empty() && !text.empty()) {
    error_code error;
    size = socket_.write_some(asio::buffer(text), error);
    if (error && error != asio::error::would_block && error != asio::error::interrupted) return close();
    if (error) size = 0;
  }
  if (size == text.size()) {
    if (out_.empty() && complete_) end_answer();
    return;
  }
  out_.append(text.substr(size));
  wait_to_write();
}

void HttpServer::Connection::wait_to_write() {
  if (writing_) return;
  writing_ = true;
  deadline_ = Clock::now() + server_.limits.write_time;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code& error) {
    self->writing_ = false;
    if (error || self->phase_ == Phase::closed) return;
    self->flush();
  });
}

void HttpServer::Connection::flush() {
  error_code error;
  const std::size_t size = socket_.write_some(asio::buffer(out_) + sent_, error);
  if (error && error != asio::error::would_block && error != asio::error::interrupted) return close();
  if (!error) sent_ += size;
  if (sent_ < out_.size()) return wait_to_write();
  out_ = {};
  sent_ = 0;
  if (phase_ != Phase::answering) return;
  deadline_ = Time::max();
  if (complete_)
    end_answer();
  else
    server_.handler.writable(id_);
}

// Closing a connection with unread input would reset it, and the client might lose the answer. So for a short time the
// input is read and dropped, until the client closes.
void HttpServer::Connection::end_answer() {
  id_ = 0;
  if (keep_alive_) {
    begin_request();
    parse();
    if (phase_ != Phase::closed) wait_to_read();
    return;
  }
  phase_ = Phase::lingering;
  set_waiting(true);
  deadline_ = Clock::now() + kLinger;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  wait_to_read();
}

void HttpServer::Connection::refuse(int status, std::string_view text) {
  server_.bodies -= std::exchange(counted_, 0);
  reader_.reset();
  in_ = {};
  set_waiting(false);
  phase_ = Phase::answering;
  deadline_ = Clock::now() + server_.limits.write_time;
  keep_alive_ = head_ = false;
  answer({.status = status, .body = server_.handler.error_body(status, text)});
}

void HttpServer::Connection::close() {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  phase_ = Phase::closed;
  set_waiting(false);
  server_.bodies -= std::exchange(counted_, 0);
  error_code ignored;
  socket_.close(ignored);
  server_.slots[slot_].reset();
  server_.free_slots.push_back(slot_);
  --server_.open;
  if (const ExchangeId id = std::exchange(id_, 0); id != 0) server_.handler.gone(id);
}

// ---- the server ---------------------------------------------------------------------------------------------

std::shared_ptr<HttpServer::Connection> HttpServer::State::find(ExchangeId id) const {
  const auto slot = static_cast<std::size_t>(id & 0xffffffffU);
  if (id == 0 || slot >= slots.size() || !slots[slot] || slots[slot]->id() != id) return {};
  return slots[slot];
}

void HttpServer::State::accept() {
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (!error) {
      add(std::move(socket));
      return accept();
    }
    accept_again.expires_after(kAcceptAgain);  // an error such as too many open files
    accept_again.async_wait([this](const error_code& stopped) {
      if (!stopped && acceptor.is_open()) accept();
    });
  });
}

void HttpServer::State::add(tcp::socket&& socket) {
  if (open >= limits.connections) {
    if (waiting.empty()) return;  // returning closes the new connection
    waiting.front()->close();
  }
  if (free_slots.empty()) {
    free_slots.push_back(static_cast<std::uint32_t>(slots.size()));
    slots.emplace_back();
  }
  const std::uint32_t slot = free_slots.back();
  free_slots.pop_back();
  ++open;
  slots[slot] = std::make_shared<Connection>(*this, std::move(socket), slot);
  slots[slot]->start();
}

void HttpServer::State::await_signal() {
  signals.async_wait([this](const error_code& error, int) {
    if (error) return;
    handler.stop_requested();
    await_signal();
  });
}

void HttpServer::State::sweep() {
  sweeper.expires_after(std::min(kSweepEvery, limits.header_time));
  sweeper.async_wait([this](const error_code& error) {
    if (error) return;
    date = http_date();
    const Time now = Clock::now();
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i] && slots[i]->is_late(now)) slots[i]->close();
    sweep();
  });
}

void HttpServer::State::drop_largest_body() {
  const auto size = [](const std::shared_ptr<Connection>& c) { return c ? c->body_bytes() : 0; };
  // Refusing the largest body frees the most memory at the price of one request.
  const auto largest =
      std::max_element(slots.begin(), slots.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
  const std::shared_ptr<Connection> dropped = *largest;
  dropped->refuse(503, "the bodies of all requests together are too large");
}

HttpServer::HttpServer(HttpHandler& handler, const HttpLimits& limits, std::string headers)
    : state_(std::make_shared<State>(handler, limits, std::move(headers))) {
  state_->sweep();
}

HttpServer::~HttpServer() {
  error_code ignored;
  state_->acceptor.close(ignored);
  for (std::size_t i = 0; i < state_->slots.size(); ++i)
    if (state_->slots[i]) state_->slots[i]->close();
}

std::string HttpServer::listen(const std::string& host, std::uint16_t port) {
  State& s = *state_;
  try {
    tcp::resolver resolver(s.io);
    const tcp::endpoint endpoint = resolver.resolve(host, fmt::format("{}", port)).begin()->endpoint();
    s.acceptor.open(endpoint.protocol());
    s.acceptor.set_option(tcp::acceptor::reuse_address(true));
    s.acceptor.bind(endpoint);
    s.acceptor.listen(asio::socket_base::max_listen_connections);
  } catch (const boost::system::system_error& error) {
    throw DeviceError(fmt::format("cannot listen on {} port {}: {}", host, port, error.code().message()));
  }
  s.accept();
  const bool bracketed = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", bracketed ? "[" : "", host, bracketed ? "]" : "",
                     s.acceptor.local_endpoint().port());
}

void HttpServer::watch_signals() {
  State& s = *state_;
  s.signals.add(SIGTERM);
  s.signals.add(SIGINT);
  s.await_signal();
}

void HttpServer::stop_listening() {
  error_code ignored;
  state_->acceptor.close(ignored);
}

void HttpServer::run_until(Time until) {
  State& s = *state_;
  s.woken = false;
  if (Clock::now() >= until) {
    for (int i = 0; i < kBurst && s.io.poll_one() > 0; ++i) {}
    return;
  }
  // The timer is set again only if the time has changed, as this runs very often.
  if (until != s.armed) {
    s.armed = until;
    s.timer.cancel();
    if (until != Time::max()) {
      s.timer.expires_at(until);
      s.timer.async_wait([&s, until](const error_code& error) {
        if (error || s.armed != until) return;
        s.due = true;
        s.armed = Time::max();
      });
    }
  }
  s.due = false;
  while (!s.woken && !s.due) s.io.run_one();
}

void HttpServer::wake() { state_->woken = true; }

void HttpServer::post(std::function<void()> work) { asio::post(state_->io, std::move(work)); }

void HttpServer::answer(ExchangeId id, const ServerAnswer& answer) {
  if (const auto c = state_->find(id)) c->answer(answer);
}

void HttpServer::begin_stream(ExchangeId id, std::string_view content_type) {
  if (const auto c = state_->find(id)) c->begin_stream(content_type);
}

bool HttpServer::is_writable(ExchangeId id) const {
  const auto c = state_->find(id);
  return c != nullptr && c->is_writable();
}

void HttpServer::write(ExchangeId id, std::string_view part, bool last) {
  if (const auto c = state_->find(id)) c->write(part, last);
}

void HttpServer::cut(ExchangeId id) {
  if (const auto c = state_->find(id)) c->close();
}

std::size_t HttpServer::connections() const { return state_->open; }

bool HttpServer::is_idle() const { return state_->open == state_->waiting.size(); }

}  // namespace plimsoll::net
