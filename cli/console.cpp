// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "cli/commands.h"

namespace plimsoll::cli {
namespace {

constexpr double kShowEvery = 0.1;  // seconds between progress reports
constexpr double kLineEvery = 30;   // the same between lines, if there is no terminal for a bar
constexpr int kBarWidth = 28;

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 360000) return "-";
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Both streams may go to the same file, so standard output is flushed first to keep their order.
void write(std::FILE* file, std::string_view text) {
  if (file == stderr) std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), file);
}

// Messages quote input, whose line breaks and escape sequences must not reach the terminal.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

void Console::configure(ProgressMode mode, bool quiet) {
  mode_ = mode;
  quiet_ = quiet;
  bar_allowed_ = mode == ProgressMode::automatic && !quiet && ::isatty(STDERR_FILENO) == 1;
}

// NO_COLOR (no-color.org) counts if it is set and not empty.
std::optional<study::TextCanvas> Console::picture_size() {
  constexpr int kMinWidth = 50, kMaxWidth = 120, kMinHeight = 12, kMaxHeight = 20;
  const char* const kind = std::getenv("TERM");
  if (::isatty(STDOUT_FILENO) != 1 || (kind != nullptr && std::string_view(kind) == "dumb")) return {};
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const int width = known ? size.ws_col : 80, height = known ? size.ws_row : 24;
  if (width < kMinWidth) return {};
  const char* const no_colour = std::getenv("NO_COLOR");
  return study::TextCanvas{.width = std::min(width, kMaxWidth),
                           .height = std::clamp(height / 2, kMinHeight, kMaxHeight),
                           .colour = no_colour == nullptr || *no_colour == '\0'};
}

double Console::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Console::line(std::string_view type, const std::string& members) {
  write(stdout, fmt::format("{{\"v\":1,\"type\":\"{}\",\"t_s\":{:.6f}{}{}}}\n", type, elapsed(),
                            members.empty() ? "" : ",", members));
  std::fflush(stdout);
}

void Console::print(std::string_view text) {
  clear_bar();
  if (!is_jsonl()) write(stdout, text);
}

void Console::log(std::string_view level, const std::string& text) {
  if (is_jsonl()) {
    line("log", fmt::format("\"level\":\"{}\",\"text\":{}", level, study::json_quoted(text)));
  } else if (!quiet_) {
    clear_bar();
    write(stderr, fmt::format("plimsoll: {}: {}\n", level, one_line(text)));
  }
}

void Console::note(const std::string& text) { log("note", text); }
void Console::warn(const std::string& text) { log("warning", text); }

void Console::error(const Where& where, const std::string& text, int exit_code) {
  clear_bar();
  write(stderr, fmt::format("plimsoll: {}\n", one_line(to_string(where) + text)));
  if (is_jsonl()) {
    line("error", fmt::format("\"code\":{},\"file\":{},\"line\":{},\"text\":{}", exit_code,
                              study::json_quoted(where.file), where.line, study::json_quoted(text)));
  }
}

void Console::progress(double done, std::size_t total, double known) {
  const bool lines = mode_ == ProgressMode::automatic && !quiet_ && !bar_allowed_;
  if (!is_jsonl() && !bar_allowed_ && !lines) return;
  const double now = elapsed();
  const bool complete = done >= static_cast<double>(total);
  if (now - last_shown_ < (lines ? kLineEvery : kShowEvery) && !(complete && is_jsonl())) return;
  last_shown_ = now;
  const double rate = (done - known) / now;
  const double most = ends_ > 0 ? std::max(0.0, ends_ - now) : std::numeric_limits<double>::infinity();
  const double left = complete ? 0 : std::min((static_cast<double>(total) - done) / rate, most);
  if (is_jsonl()) {
    const std::string eta = std::isfinite(left) ? fmt::format("{:.3f}", left) : "null";
    line("progress", fmt::format("\"done\":{:.3f},\"total\":{},\"eta_s\":{}", done, total, eta));
  } else if (lines) {
    write(stderr, fmt::format("plimsoll: {:.0f} % after {}, about {} left\n", 100 * done / static_cast<double>(total),
                              duration_text(now), duration_text(left)));
  } else {
    draw_bar(done, total, rate, left);
  }
}

void Console::draw_bar(double done, std::size_t total, double rate, double left) {
  const auto filled = static_cast<int>(done / static_cast<double>(total) * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < filled ? "█" : "░";
  write(stderr, fmt::format("\r{} {:.0f}/{} points  {:.3g}/s  {} left\033[K", bar, std::floor(done), total, rate,
                            duration_text(left)));
  std::fflush(stderr);
  bar_shown_ = true;
}

void Console::clear_bar() {
  if (bar_shown_) write(stderr, "\r\033[K");
  bar_shown_ = false;
}

void Console::point(const std::vector<std::string>& columns, const study::PointResult& point) {
  if (!is_jsonl()) return;
  line("point", fmt::format("\"index\":{},{}", point.index,
                            study::json_members(columns, study::point_row(point, study::pools_in(columns)))));
}

void Console::object(std::string_view type, const std::string& members) {
  if (is_jsonl()) line(type, members);
}

int Console::finish(int exit_code) {
  clear_bar();
  if (is_jsonl()) line("done", fmt::format("\"exit\":{}", exit_code));
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  write(stderr, "plimsoll: cannot write to standard output\n");
  return exit_code == kDone ? kDeviceFailed : exit_code;
}

}  // namespace plimsoll::cli
