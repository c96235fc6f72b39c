// SPDX-License-Identifier: Apache-2.0
#include "text/template_value.h"

#include <fmt/format.h>

#include <cmath>

namespace plimsoll::text {
namespace {

constexpr std::int64_t kMostCopies = 100'000;
constexpr std::int64_t kMostElements = 16'000'000;  // bytes of a text, items of a list

[[noreturn]] void refuse_operands(std::string_view sign, const Value& a, const Value& b) {
  throw TemplateError(fmt::format("'{}' does not take {} and {}", sign, a.kind(), b.kind()));
}

// Integers have 64 bits here; Python's are unbounded.
[[noreturn]] void refuse_size(const char* op) {
  throw TemplateError(fmt::format("'{}': the result is beyond 64 bits", op));
}
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) refuse_size("+");
  return out;
}
std::int64_t difference_of(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) refuse_size("-");
  return out;
}
std::int64_t product_of(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) refuse_size("*");
  return out;
}

// A text as Jinja joins it to a safe one.
std::string escaped(const Value& text) {
  if (text.is_safe_text()) return *text.as_string();
  std::string out;
  for (const char c : *text.as_string()) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

Value add_values(const Value& a, const Value& b) {
  if (a.as_string() != nullptr && b.as_string() != nullptr && (a.is_safe_text() || b.is_safe_text()))
    return Value::safe_text(escaped(a) + escaped(b));
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() + *b.as_string();
  if (a.as_list() != nullptr && b.as_list() != nullptr && a.as_sequence()->kind == b.as_sequence()->kind) {
    List out = *a.as_list();
    out.insert(out.end(), b.as_list()->begin(), b.as_list()->end());
    return Sequence{.kind = a.as_sequence()->kind, .items = std::move(out)};
  }
  if (!a.is_number() || !b.is_number()) refuse_operands("+", a, b);
  if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() + b.number();
  return sum_of(a.whole(), b.whole());
}

Value repeated(const Value& what, std::int64_t times) {
  if (times > kMostCopies) throw TemplateError("'*': more than 100000 copies");
  const auto length =
      static_cast<std::int64_t>(what.as_string() != nullptr ? what.as_string()->size() : what.as_list()->size());
  if (times > 0 && length > kMostElements / times) throw TemplateError("'*': the result is longer than 16 million");
  std::string text;
  List list;
  for (std::int64_t i = 0; i < times; ++i) {
    if (what.as_string() != nullptr)
      text += *what.as_string();
    else
      list.insert(list.end(), what.as_list()->begin(), what.as_list()->end());
  }
  if (what.as_string() != nullptr) return what.is_safe_text() ? Value::safe_text(text) : Value(text);
  return Sequence{.kind = what.as_sequence()->kind, .items = std::move(list)};
}

Value multiplied(const Value& a, const Value& b) {
  const auto repeats = [](const Value& v) { return v.as_string() != nullptr || v.as_list() != nullptr; };
  const auto counts = [](const Value& v) { return v.as_int() != nullptr || v.as_bool() != nullptr; };
  if (repeats(a) && counts(b)) return repeated(a, b.whole());
  if (repeats(b) && counts(a)) return repeated(b, a.whole());
  if (!a.is_number() || !b.is_number()) refuse_operands("*", a, b);
  if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() * b.number();
  return product_of(a.whole(), b.whole());
}

// Python rounds quotients down, and a remainder has the divisor's sign.
Value floored(bool modulo, double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0)
    rest = std::copysign(0.0, b);
  else if ((b < 0) != (rest < 0))
    rest += b;
  if (modulo) return rest;
  const double exact = (a - rest) / b, quotient = std::floor(exact);
  return exact - quotient > 0.5 ? quotient + 1 : quotient == 0 ? std::copysign(0.0, a / b) : quotient;
}
Value floored(bool modulo, std::int64_t a, std::int64_t b) {
  if (b == -1) return modulo ? std::int64_t{0} : difference_of(0, a);
  std::int64_t quotient = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
  return modulo ? a - quotient * b : quotient;
}

Value raised(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands("**", a, b);
  if (a.number() == 0 && b.number() < 0) throw TemplateError("a division by zero");
  if (a.as_float() != nullptr || b.as_float() != nullptr || b.whole() < 0) {
    if (a.number() < 0 && b.number() != std::floor(b.number())) throw TemplateError("'**': the result is complex");
    return std::pow(a.number(), b.number());
  }
  std::int64_t out = 1, factor = a.whole();
  for (std::int64_t left = b.whole(); left > 0; left /= 2) {
    if (left % 2 != 0) out = product_of(out, factor);
    if (left > 1) factor = product_of(factor, factor);
  }
  return out;
}

}  // namespace

Value calculate(Operator op, const Value& a, const Value& b) {
  if (op == Operator::concatenate) return a.text() + b.text();
  if (op == Operator::modulo && a.as_string() != nullptr)
    throw TemplateError("the operator '%' of a string is not supported");
  a.required();
  b.required();
  switch (op) {
    case Operator::add: return add_values(a, b);
    case Operator::multiply: return multiplied(a, b);
    case Operator::power: return raised(a, b);
    default: break;
  }
  if (!a.is_number() || !b.is_number()) refuse_operands(op == Operator::modulo ? "%" : "-, / or //", a, b);
  if (op == Operator::subtract) {
    if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() - b.number();
    return difference_of(a.whole(), b.whole());
  }
  if (b.number() == 0) throw TemplateError("a division by zero");
  if (op == Operator::divide) return a.number() / b.number();
  const bool modulo = op == Operator::modulo;
  if (a.as_float() != nullptr || b.as_float() != nullptr) return floored(modulo, a.number(), b.number());
  return floored(modulo, a.whole(), b.whole());
}

bool compare(Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal: return equal(a, b);
    case Comparison::unequal: return !equal(a, b);
    case Comparison::less: return less(a.required(), b.required());
    case Comparison::greater: return less(b.required(), a.required());
    case Comparison::at_most: return !less(b.required(), a.required());
    case Comparison::at_least: return !less(a.required(), b.required());
    case Comparison::in: return contains(b, a);
    case Comparison::not_in: return !contains(b, a);
  }
  return false;
}

std::optional<Comparison> comparison_of(std::string_view sign) {
  if (sign == "==") return Comparison::equal;
  if (sign == "!=") return Comparison::unequal;
  if (sign == "<") return Comparison::less;
  if (sign == "<=") return Comparison::at_most;
  if (sign == ">") return Comparison::greater;
  if (sign == ">=") return Comparison::at_least;
  return std::nullopt;
}

}  // namespace plimsoll::text
