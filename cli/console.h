// SPDX-License-Identifier: Apache-2.0
// The program's messages while it runs: results on standard output; notes, errors and a progress bar on standard error.
// With --progress jsonl, everything is written as JSON lines on standard output (docs/study-file.md, "Progress").
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"
#include "study/output/chart.h"
#include "study/run/point_result.h"

namespace plimsoll::cli {

enum class ProgressMode : unsigned char { automatic, none, jsonl };

class Console {
 public:
  Console() : start_(std::chrono::steady_clock::now()) {}
  void configure(ProgressMode mode, bool quiet);
  [[nodiscard]] bool is_jsonl() const { return mode_ == ProgressMode::jsonl; }

  /// Returns the size of the terminal on standard output; nullopt for a file, a pipe, or one too narrow for a chart.
  [[nodiscard]] static std::optional<study::TextCanvas> picture_size();

  /// Prints a result to standard output; in jsonl mode prints nothing, since JSON lines replace the text.
  void print(std::string_view text);
  /// Print a line to standard error unless quiet; in jsonl mode, print a JSON line instead.
  void note(const std::string& text);
  void warn(const std::string& text);
  /// Prints the error that ends the program with this exit code.
  void error(const Where& where, const std::string& text, int exit_code);

  /// Shows the progress; `known` of the `done` points had already been stored.
  void progress(double done, std::size_t total, double known = 0);
  /// Work that ends in this time at the latest: progress shows no longer remaining time.
  void end_within(double seconds) { ends_ = elapsed() + seconds; }
  /// In jsonl mode, prints a finished point as a JSON line.
  void point(const std::vector<std::string>& columns, const study::PointResult& point);
  /// In jsonl mode prints a line of a verb's own type; `members` is a JSON object without its braces.
  void object(std::string_view type, const std::string& members);
  /// Prints the last line of a jsonl run, or clears the bar. Returns the exit code, which differs from `exit_code` if
  /// output could not be written.
  [[nodiscard]] int finish(int exit_code);

 private:
  void line(std::string_view type, const std::string& members);
  void log(std::string_view level, const std::string& text);
  void draw_bar(double done, std::size_t total, double rate, double left);
  void clear_bar();
  [[nodiscard]] double elapsed() const;

  std::chrono::steady_clock::time_point start_;
  ProgressMode mode_ = ProgressMode::none;
  bool quiet_ = false, bar_allowed_ = false, bar_shown_ = false;
  double last_shown_ = 0, ends_ = 0;  // in seconds since start_; 0: no end is set
};

}  // namespace plimsoll::cli
