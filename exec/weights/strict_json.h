// SPDX-License-Identifier: Apache-2.0
// Reads JSON as events, so that a hostile file builds no tree. A reader handles the events that it expects; any other
// event is an error. Private to exec/.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "model/error.h"

namespace plimsoll::exec {

class StrictReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictReader(Where where) : where_(std::move(where)) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number that is not whole"); }
  bool string(string_t&) override { return unexpected("text"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_object(std::size_t) override { return unexpected("an object"); }
  bool start_array(std::size_t) override { return unexpected("a list"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw InputError(where_, "not valid JSON at byte " + std::to_string(position) + " of the " + part());
  }

 protected:
  /// Throws InputError with the place in the document.
  [[noreturn]] virtual bool unexpected(const std::string& found) = 0;
  /// Returns the name of the document for messages: "header".
  [[nodiscard]] virtual std::string part() const = 0;
  [[nodiscard]] const Where& where() const { return where_; }

 private:
  Where where_;
};

}  // namespace plimsoll::exec
