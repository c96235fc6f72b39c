// SPDX-License-Identifier: Apache-2.0
#include "text/template_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace plimsoll::text {
namespace {

Expression sequence_of(Sequence::Kind kind, std::vector<Expression> items) {
  return [kind, items = std::move(items)](Scope& scope) -> Value {
    Sequence out{.kind = kind, .items = {}};
    for (const Expression& item : items) out.items.push_back(item(scope));
    return out;
  };
}

}  // namespace

ExpressionParser::ExpressionParser(std::vector<LexToken> tokens) : TokenReader(std::move(tokens)) { note_assigned(); }

void ExpressionParser::note_assigned() {
  const std::vector<LexToken>& all = this->tokens();
  bool all_names = false;  // in a block that assigns each name in it
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == Kind::begin_block && i + 1 < all.size())
      all_names = all[i + 1].text == "macro" || all[i + 1].text == "for" || all[i + 1].text == "call" ||
                  all[i + 1].text == "set";
    if (all[i].kind == Kind::end_block || all[i].text == "in" || all[i].text == "=") all_names = false;
    const bool named = i + 1 < all.size() && all[i + 1].kind == Kind::op && all[i + 1].text == "=";
    if (all[i].kind == Kind::name && (all_names || named)) assigned_.insert(all[i].text);
  }
}

Expression ExpressionParser::parse_tuple() {
  Expression first = parse_expression();
  return is_op(",") ? rest_of_tuple(std::move(first), [this] { return parse_expression(); }) : first;
}

Expression ExpressionParser::rest_of_tuple(Expression first, const std::function<Expression()>& parse) {
  std::vector<Expression> items{std::move(first)};
  while (take_op(",")) {
    const bool ends = peek().kind == Kind::end_print || peek().kind == Kind::end_block || is_op(")");
    if (!ends) items.push_back(parse());
  }
  return sequence_of(Sequence::Kind::tuple, std::move(items));
}

Expression ExpressionParser::parse_expression() {
  const Depth guard(depth_);
  Expression value = parse_or();
  while (take_name("if")) {
    Expression condition = parse_or();
    Expression otherwise =
        take_name("else") ? parse_expression() : [](Scope&) { return Value::undefined("an if without else"); };
    value = [value = std::move(value), condition = std::move(condition), otherwise = std::move(otherwise)](
                Scope& scope) { return condition(scope).truth() ? value(scope) : otherwise(scope); };
  }
  return value;
}

Expression ExpressionParser::parse_or() {
  Expression left = parse_and();
  while (take_name("or")) {
    link();
    left = [left = std::move(left), right = parse_and()](Scope& scope) {
      Value value = left(scope);
      return value.truth() ? value : right(scope);
    };
  }
  return left;
}

Expression ExpressionParser::parse_and() {
  Expression left = parse_not();
  while (take_name("and")) {
    link();
    left = [left = std::move(left), right = parse_not()](Scope& scope) {
      Value value = left(scope);
      return value.truth() ? right(scope) : value;
    };
  }
  return left;
}

Expression ExpressionParser::parse_not() {
  const Depth guard(depth_);
  if (take_name("not")) return [value = parse_not()](Scope& scope) -> Value { return !value(scope).truth(); };
  return parse_comparison();
}

std::optional<Comparison> ExpressionParser::take_comparison() {
  if (is_name("not") && peek(1).kind == Kind::name && peek(1).text == "in") {
    skip(2);
    return Comparison::not_in;
  }
  if (take_name("in")) return Comparison::in;
  if (peek().kind != Kind::op) return std::nullopt;
  const auto found = comparison_of(peek().text);
  if (found) skip();
  return found;
}

// a < b < c is a < b and b < c.
Expression ExpressionParser::parse_comparison() {
  Expression first = parse_sum();
  std::vector<std::pair<Comparison, Expression>> rest;
  while (const auto comparison = take_comparison()) rest.emplace_back(*comparison, parse_sum());
  if (rest.empty()) return first;
  return [first = std::move(first), rest = std::move(rest)](Scope& scope) -> Value {
    Value left = first(scope);
    for (const auto& [comparison, operand] : rest) {
      Value right = operand(scope);
      if (!compare(comparison, left, right)) return false;
      left = std::move(right);
    }
    return true;
  };
}

// A chain of n operators becomes n nested functions, so computing it needs a stack of that depth.
void ExpressionParser::link() {
  constexpr std::size_t kMostLinks = 10'000;  // of the whole template; 100 in published ones
  if (++links_ > kMostLinks) fail("more than 10000 operators");
}

Expression ExpressionParser::binary(Operator op, Expression left, Expression right) {
  link();
  return [op, left = std::move(left), right = std::move(right)](Scope& scope) {
    const Value a = left(scope);
    return calculate(op, a, right(scope));
  };
}

Expression ExpressionParser::parse_sum() {
  Expression left = parse_concatenation();
  while (is_op("+") || is_op("-")) {
    const Operator op = take().text == "+" ? Operator::add : Operator::subtract;
    left = binary(op, std::move(left), parse_concatenation());
  }
  return left;
}

Expression ExpressionParser::parse_concatenation() {
  Expression left = parse_product();
  while (take_op("~")) left = binary(Operator::concatenate, std::move(left), parse_product());
  return left;
}

Expression ExpressionParser::parse_product() {
  const bool text = peek().kind == Kind::string && peek(1).kind == Kind::op && peek(1).text == "%";
  Expression left = parse_power();
  if (text && is_op("%")) refuse("operator of a string", "%");
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string text = take().text;
    const Operator op = text == "*"    ? Operator::multiply
                        : text == "/"  ? Operator::divide
                        : text == "//" ? Operator::floor_divide
                                       : Operator::modulo;
    left = binary(op, std::move(left), parse_power());
  }
  return left;
}

Expression ExpressionParser::parse_power() {
  Expression left = parse_unary(true);
  while (take_op("**")) left = binary(Operator::power, std::move(left), parse_unary(true));
  return left;
}

Expression ExpressionParser::parse_unary(bool with_filters) {
  const Depth guard(depth_);
  Expression value;
  if (is_op("-") || is_op("+")) {
    const Operator op = take().text == "-" ? Operator::subtract : Operator::add;
    value = binary(
        op, [](Scope&) { return Value(std::int64_t{0}); }, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : value;
}

Expression ExpressionParser::parse_primary() {
  const LexToken token = peek();
  if (token.kind == Kind::name) return parse_name();
  if (token.kind == Kind::string) {
    std::string text;
    while (peek().kind == Kind::string) text += take().text;
    return [text](Scope&) -> Value { return text; };
  }
  if (token.kind == Kind::integer || token.kind == Kind::number) return parse_number();
  if (take_op("(")) {
    if (take_op(")")) return sequence_of(Sequence::Kind::tuple, {});
    Expression inner = parse_tuple();
    expect_op(")");
    return inner;
  }
  if (take_op("[")) return sequence_of(Sequence::Kind::list, parse_items("]"));
  if (take_op("{")) return parse_dict();
  fail(fmt::format("found '{}' where a value is expected", token.text));
}

Expression ExpressionParser::parse_number() {
  const LexToken token = take();
  if (token.kind == Kind::number) {
    double number = 0;
    const char* const stop = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), stop, number).ec != std::errc())
      fail("the number " + token.text + " is too large or too small");
    return [number](Scope&) -> Value { return number; };
  }
  return [value = whole_number(token.text)](Scope&) -> Value { return value; };
}

std::int64_t ExpressionParser::whole_number(const std::string& digits) const {
  std::int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    fail("the number " + digits + " is too large");
  return value;
}

Expression ExpressionParser::parse_name() {
  const std::string name = take().text;
  if (name == "true" || name == "True") return [](Scope&) { return Value(true); };
  if (name == "false" || name == "False") return [](Scope&) { return Value(false); };
  if (name == "none" || name == "None") return [](Scope&) { return Value(); };
  const bool known = find_function(name) != nullptr || assigned_.contains(name);
  if (!known && (is_op("(") ? name != "caller" : name == "lipsum" || name == "cycler" || name == "joiner"))
    refuse("function", name);
  for (MacroNode* const macro : macros_) {
    macro->takes_caller = macro->takes_caller || name == "caller";
    macro->takes_more = macro->takes_more || name == "varargs";
    macro->takes_named = macro->takes_named || name == "kwargs";
  }
  return [name](Scope& scope) { return scope.find(name); };
}

std::vector<Expression> ExpressionParser::parse_items(std::string_view end) {
  std::vector<Expression> out;
  while (!take_op(end)) {
    out.push_back(parse_expression());
    if (!is_op(end)) expect_op(",");
  }
  return out;
}

Expression ExpressionParser::parse_dict() {
  std::vector<std::pair<Expression, Expression>> items;
  while (!take_op("}")) {
    Expression key = parse_expression();
    expect_op(":");
    items.emplace_back(std::move(key), parse_expression());
    if (!is_op("}")) expect_op(",");
  }
  return [items = std::move(items)](Scope& scope) -> Value {
    Dict out;
    for (const auto& [key, value] : items) {
      const Value name = key(scope);
      out.set(name, value(scope));
    }
    return out;
  };
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments out;
  expect_op("(");
  while (!take_op(")")) {
    if (take_op("*")) {
      out.unpacked_list = parse_expression();
    } else if (take_op("**")) {
      out.unpacked_dict = parse_expression();
    } else if (peek().kind == Kind::name && peek(1).kind == Kind::op && peek(1).text == "=") {
      const std::string name = take().text;
      skip();
      out.named.emplace_back(name, parse_expression());
    } else {
      out.positional.push_back(parse_expression());
    }
    if (!is_op(")")) expect_op(",");
  }
  return out;
}

// Attributes, subscripts and calls of methods.
Expression ExpressionParser::parse_call(Expression callee) {
  link();
  return [callee = std::move(callee), arguments = parse_arguments()](Scope& scope) {
    const Value value = callee(scope);
    return call(value, arguments.compute(scope));
  };
}

Expression ExpressionParser::parse_postfix(Expression value) {
  for (;;) {
    if (is_op(".") || is_op("[")) link();
    if (take_op("."))
      value = parse_attribute(std::move(value));
    else if (take_op("["))
      value = parse_subscript(std::move(value));
    else if (is_op("("))
      value = parse_call(std::move(value));
    else
      return value;
  }
}

Expression ExpressionParser::parse_attribute(Expression object) {
  if (peek().kind == Kind::integer)
    return [object = std::move(object), key = Value(whole_number(take().text))](Scope& scope) {
      return member(object(scope), key);
    };
  const std::string name = expect_identifier();
  if (name.starts_with("__")) refuse("attribute", name);
  if (is_op("(") && name != "cycle" && !is_method(name) && !assigned_.contains(name)) refuse("method", name);
  return [object = std::move(object), name](Scope& scope) { return attribute(object(scope), name); };
}

Expression ExpressionParser::parse_subscript(Expression object) {
  const auto none = [](Scope&) { return Value(); };
  Expression begin = none, end = none, step = none;
  if (!is_op(":")) begin = parse_expression();
  if (take_op("]"))
    return [object = std::move(object), key = std::move(begin)](Scope& scope) {
      const Value self = object(scope);
      return member(self, key(scope));
    };
  expect_op(":");
  if (!is_op(":") && !is_op("]")) end = parse_expression();
  if (take_op(":") && !is_op("]")) step = parse_expression();
  expect_op("]");
  return [object = std::move(object), begin = std::move(begin), end = std::move(end),
          step = std::move(step)](Scope& scope) {
    const Value self = object(scope);
    return slice(self, begin(scope), end(scope), step(scope));
  };
}

Expression ExpressionParser::parse_filters(Expression value) {
  for (;;) {
    if (is_op("|") || is_name("is")) link();
    if (take_op("|"))
      value = parse_filter(std::move(value));
    else if (take_name("is"))
      value = parse_test(std::move(value));
    else if (is_op("("))
      value = parse_call(std::move(value));
    else
      return value;
  }
}

Expression ExpressionParser::parse_filter(Expression value) {
  return [value = std::move(value), apply = parse_filter_call()](Scope& scope) { return apply(scope, value(scope)); };
}

// map('name') and select('name') apply a filter or a test by its name.
void ExpressionParser::check_applied(const std::string& filter) {
  const bool maps = filter == "map", of_attribute = filter.ends_with("attr");
  if (!maps && !filter.starts_with("select") && !filter.starts_with("reject")) return;
  const std::size_t at = of_attribute ? 3 : 1;
  if (!is_op("(") || peek(at).kind != Kind::string || (of_attribute && peek(2).text != ",")) return;
  const std::string& name = peek(at).text;
  if ((maps ? find_filter(name) : find_test(name)) == nullptr) refuse(maps ? "filter" : "test", name);
}

ExpressionParser::FilterCall ExpressionParser::parse_filter_call() {
  const std::string name = expect_identifier();
  const NamedCallable* const filter = find_filter(name);
  if (filter == nullptr) refuse("filter", name);
  check_applied(name);
  CallArguments arguments;
  if (is_op("(")) arguments = parse_arguments();
  return [filter, arguments = std::move(arguments)](Scope& scope, const Value& value) {
    return filtered(*filter, value, arguments.compute(scope));
  };
}

// An operand without parentheses may follow: `is divisibleby 3`.
Expression ExpressionParser::parse_test(Expression value) {
  const bool negated = take_name("not");
  const std::string name = expect_identifier();
  const NamedCallable* const test = find_test(name);
  if (test == nullptr) refuse("test", name);
  CallArguments arguments;
  const Kind kind = peek().kind;
  const bool word = kind == Kind::name && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("is") &&
                    !is_name("if") && !is_name("in") && !is_name("not");
  if (is_op("("))
    arguments = parse_arguments();
  else if (word || kind == Kind::string || kind == Kind::integer || kind == Kind::number || is_op("[") || is_op("{"))
    arguments.positional.push_back(parse_postfix(parse_primary()));
  return [value = std::move(value), negated, test, arguments = std::move(arguments)](Scope& scope) -> Value {
    const Value self = value(scope);
    return (*test)(self, arguments.compute(scope)).truth() != negated;
  };
}

}  // namespace plimsoll::text
