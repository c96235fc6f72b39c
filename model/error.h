// SPDX-License-Identifier: Apache-2.0
// The project's two exception types, and the check for our own bugs (rules: CONTRIBUTING.md, "Errors").
//
// InputError  - the user's input is wrong: exit code 2.
// DeviceError - the machine lacks something, or a device failed: exit code 3.
// Expected outcomes (rejected, timed out, does not fit) are values, never exceptions.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll {

/// A place in an input file; lines and columns count from 1, 0 means "not applicable".
struct Where {
  std::string file;
  std::size_t line = 0;
  std::size_t column = 0;
  bool operator==(const Where&) const = default;
};

/// Formats "file:line:column: " with the known parts; empty if the file is not known.
[[nodiscard]] std::string to_string(const Where& where);

/// Input that cannot be used: what() is "file:line:column: what was found, what is allowed".
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& text) : std::runtime_error(text), text_(text) {}
  InputError(Where where, const std::string& text);
  [[nodiscard]] const Where& where() const { return where_; }
  /// The message without the place.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Where where_;
  std::string text_;
};

/// The environment or a device failed: for example a missing library, no GPU, or a full disk.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Prints the text with its place in the source and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view why);

}  // namespace plimsoll

/// Checks an invariant of our own code, also in release builds. Never for user input.
#define PLIMSOLL_CHECK(condition, why)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::plimsoll::check_failed(#condition, __FILE__, __LINE__, (why)); \
  } while (false)
