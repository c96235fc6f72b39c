// SPDX-License-Identifier: Apache-2.0
// Compiles the expressions of chat templates. Private to the template's files.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_calls.h"
#include "text/template_lexer.h"
#include "text/template_parser.h"
#include "text/template_run.h"

namespace plimsoll::text {

/// Each parse function takes the tokens of a construct, and throws InputError for what is outside the subset. Those of
/// operators are in the order of binding, loosest first.
class ExpressionParser : protected TokenReader {
 protected:
  using FilterCall = std::function<Value(Scope&, const Value&)>;

  explicit ExpressionParser(std::vector<LexToken> tokens);

  Expression parse_tuple();
  /// Takes the items of a tuple behind its first one.
  Expression rest_of_tuple(Expression first, const std::function<Expression()>& parse);
  Expression parse_expression();
  Expression parse_or();
  Expression parse_primary();
  Expression parse_postfix(Expression value);
  CallArguments parse_arguments();
  FilterCall parse_filter_call();

  std::size_t depth_ = 0;           // nesting of expressions and statements
  std::vector<MacroNode*> macros_;  // that contain the construct, outermost first

 private:
  void note_assigned();
  Expression parse_and();
  Expression parse_not();
  std::optional<Comparison> take_comparison();
  Expression parse_comparison();  // a < b < c is a < b and b < c
  Expression parse_sum();
  Expression parse_concatenation();
  Expression parse_product();
  Expression parse_power();
  Expression parse_unary(bool with_filters);
  Expression parse_number();
  Expression parse_name();
  Expression parse_dict();
  Expression parse_call(Expression callee);
  Expression parse_attribute(Expression object);
  Expression parse_subscript(Expression object);
  Expression parse_filters(Expression value);
  Expression parse_filter(Expression value);
  Expression parse_test(Expression value);
  std::vector<Expression> parse_items(std::string_view end);
  void check_applied(const std::string& filter);
  [[nodiscard]] std::int64_t whole_number(const std::string& digits) const;
  void link();
  Expression binary(Operator op, Expression left, Expression right);

  std::set<std::string> assigned_;  // names that the template gives a value, which may be a macro
  std::size_t links_ = 0;
};

}  // namespace plimsoll::text
