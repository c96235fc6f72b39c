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

Value add_values(const Value& a, const Value& b) {
  if (a.as_string() != nullptr && b.as_string() != nullptr) return *a.as_string() + *b.as_string();
  if (a.as_list() != nullptr && b.as_list() != nullptr) {
    List out = *a.as_list();
    out.insert(out.end(), b.as_list()->begin(), b.as_list()->end());
    return out;
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
  return what.as_string() != nullptr ? Value(text) : Value(list);
}

Value multiplied(const Value& a, const Value& b) {
  const auto repeats = [](const Value& v) { return v.as_string() != nullptr || v.as_list() != nullptr; };
  if (repeats(a) && b.as_int() != nullptr) return repeated(a, *b.as_int());
  if (repeats(b) && a.as_int() != nullptr) return repeated(b, *a.as_int());
  if (!a.is_number() || !b.is_number()) refuse_operands("*", a, b);
  if (a.as_float() != nullptr || b.as_float() != nullptr) return a.number() * b.number();
  return product_of(a.whole(), b.whole());
}

// Python rounds quotients down, and a remainder has the divisor's sign.
Value floored(Operator op, const Value& a, const Value& b) {
  const bool modulo = op == Operator::modulo;
  if (a.as_float() != nullptr || b.as_float() != nullptr) {
    const double quotient = std::floor(a.number() / b.number());
    return modulo ? a.number() - quotient * b.number() : quotient;
  }
  const std::int64_t x = a.whole(), y = b.whole();
  if (y == -1) return modulo ? std::int64_t{0} : difference_of(0, x);
  std::int64_t quotient = x / y;
  if (x % y != 0 && (x < 0) != (y < 0)) --quotient;
  return modulo ? x - quotient * y : quotient;
}

Value raised(const Value& a, const Value& b) {
  const double power = std::pow(a.number(), b.number());
  const bool whole = a.as_float() == nullptr && b.as_float() == nullptr && b.number() >= 0 && std::abs(power) < 9e15;
  return whole ? Value(static_cast<std::int64_t>(power)) : Value(power);
}

}  // namespace

Value calculate(Operator op, const Value& a, const Value& b) {
  if (op == Operator::concatenate) return a.text() + b.text();
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
  return floored(op, a, b);
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
