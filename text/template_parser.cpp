// SPDX-License-Identifier: Apache-2.0
#include "text/template_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>

#include "model/error.h"
#include "text/template_calls.h"
#include "text/template_lexer.h"
#include "text/template_run.h"
#include "text/template_value.h"

namespace plimsoll::text {

namespace {

class Parser : TokenReader {
 public:
  explicit Parser(std::vector<LexToken> tokens) : TokenReader(std::move(tokens)) { note_macros(); }

  Statement run() {
    Statement body = parse_body({});
    if (peek().kind != Kind::end) fail(fmt::format("found '{}' without its beginning", peek().text));
    return body;
  }

 private:
  // Macros may be called before the place where they are defined.
  void note_macros() {
    for (std::size_t i = 0; i + 2 < tokens().size(); ++i)
      if (tokens()[i].kind == Kind::begin_block && tokens()[i + 1].text == "macro")
        macros_.insert(tokens()[i + 2].text);
  }

  // ---- statements --------------------------------------------------------------------------------------------
  // Parses up to a block that begins with one of `ends`, which is not taken.
  Statement parse_body(const std::vector<std::string_view>& ends) {
    const Depth guard(depth_);
    std::vector<Statement> parts;
    for (;;) {
      const LexToken& token = peek();
      if (token.kind == Kind::text) {
        parts.emplace_back([text = take().text](Scope& scope) { return *scope.out += text, Flow::next; });
      } else if (token.kind == Kind::begin_print) {
        take();
        parts.emplace_back(
            [value = parse_tuple()](Scope& scope) { return *scope.out += value(scope).text(), Flow::next; });
        if (take().kind != Kind::end_print) fail("an expression does not end where it should");
      } else if (token.kind == Kind::begin_block) {
        const std::string& name = peek(1).text;
        if (std::ranges::find(ends, name) != ends.end()) break;
        skip(2);
        parts.push_back(parse_statement(name));
      } else {
        if (!ends.empty()) fail(fmt::format("'{}' is missing", ends.back()));
        break;
      }
    }
    return [parts = std::move(parts)](Scope& scope) {
      for (const Statement& part : parts)
        if (const Flow flow = part(scope); flow != Flow::next) return flow;
      return Flow::next;
    };
  }
  // Takes `{% end… %}`; parse_body() stopped there.
  void take_end() {
    skip(2);
    expect_block_end();
  }

  Statement parse_statement(const std::string& name) {
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "generation") {  // marks what a model wrote; has no effect on the text
      expect_block_end();
      Statement body = parse_body({"endgeneration"});
      take_end();
      return body;
    }
    if (name == "break" || name == "continue") {
      expect_block_end();
      if (loops_ == 0) fail(fmt::format("'{}' outside a loop", name));
      return [flow = name == "break" ? Flow::breaks : Flow::continues](Scope&) { return flow; };
    }
    put_back();
    refuse("statement", name);
  }

  Statement parse_if() {
    struct Branch {
      Expression condition;
      Statement body;
    };
    std::vector<Branch> branches;
    Expression condition = parse_tuple();
    for (;;) {
      expect_block_end();
      branches.push_back({std::move(condition), parse_body({"elif", "else", "endif"})});
      skip();
      const std::string end = take().text;
      if (end == "endif") break;
      condition = end == "elif" ? parse_tuple() : [](Scope&) { return Value(true); };
    }
    expect_block_end();
    return [branches = std::move(branches)](Scope& scope) {
      for (const Branch& branch : branches)
        if (branch.condition(scope).truth()) return branch.body(scope);
      return Flow::next;
    };
  }

  std::vector<std::string> parse_targets() {
    const bool closes = take_op("(");
    std::vector<std::string> out{expect_identifier()};
    while (take_op(",")) out.push_back(expect_identifier());
    if (closes) expect_op(")");
    return out;
  }

  Statement parse_for() {
    ForLoop loop;
    loop.targets = parse_targets();
    if (!take_name("in")) fail("'in' is missing");
    loop.list = parse_or();
    if (is_op(",")) loop.list = rest_of_tuple(std::move(loop.list), [this] { return parse_or(); });
    if (take_name("if")) loop.condition = parse_expression();
    if (is_name("recursive")) refuse("loop", "recursive");
    expect_block_end();
    ++loops_;
    loop.body = parse_body({"else", "endfor"});
    --loops_;
    skip();
    if (take().text == "else") {
      expect_block_end();
      loop.otherwise = parse_body({"endfor"});
      skip(2);
    }
    expect_block_end();
    return [loop = std::move(loop)](Scope& scope) { return loop.run(scope); };
  }

  Statement parse_set() {
    const std::vector<std::string> targets = parse_targets();
    std::string attribute;
    if (targets.size() == 1 && take_op(".")) attribute = expect_identifier();
    const auto store = [targets, attribute](Scope& scope, const Value& value) {
      if (attribute.empty()) return assign(scope, targets, value);
      const Value object = scope.find(targets[0]);
      // It refers to the scope that it is defined in, which a namespace may outlive.
      if (value.as_macro() != nullptr) throw TemplateError("a macro cannot be kept in a namespace");
      if (object.as_namespace() == nullptr) throw TemplateError("attributes of " + object.kind() + " cannot be set");
      object.as_namespace()->members->set(attribute, value);
    };
    if (take_op("=")) {
      Expression value = parse_tuple();
      expect_block_end();
      return [store, value = std::move(value)](Scope& scope) { return store(scope, value(scope)), Flow::next; };
    }
    if (is_op("|")) refuse("filter", "of a set block");
    expect_block_end();
    Statement body = parse_body({"endset"});
    take_end();
    return [store, body = std::move(body)](Scope& scope) {
      std::string out;
      Scope inner{.parent = &scope, .out = &out};
      static_cast<void>(body(inner));
      store(scope, out);
      return Flow::next;
    };
  }

  Statement parse_macro() {
    auto node = std::make_shared<MacroNode>();
    node->name = expect_identifier();
    expect_op("(");
    while (!take_op(")")) {
      MacroNode::Parameter parameter{.name = expect_identifier(), .fallback = {}};
      if (take_op("=")) parameter.fallback = parse_expression();
      node->parameters.push_back(std::move(parameter));
      if (!is_op(")")) expect_op(",");
    }
    expect_block_end();
    const std::size_t loops = std::exchange(loops_, 0U);
    node->body = parse_body({"endmacro"});
    loops_ = loops;
    take_end();
    return [node](Scope& scope) { return scope.set(node->name, MacroValue{node.get(), &scope}), Flow::next; };
  }

  // ---- expressions, loosest first ------------------------------------------------------------------------------
  Expression parse_tuple() {
    Expression first = parse_expression();
    return is_op(",") ? rest_of_tuple(std::move(first), [this] { return parse_expression(); }) : first;
  }

  template <class Parse>
  Expression rest_of_tuple(Expression first, const Parse& parse) {
    std::vector<Expression> items{std::move(first)};
    while (take_op(",")) {
      const bool ends = peek().kind == Kind::end_print || peek().kind == Kind::end_block || is_op(")");
      if (!ends) items.push_back(parse());
    }
    return list_of(std::move(items));
  }

  static Expression list_of(std::vector<Expression> items) {
    return [items = std::move(items)](Scope& scope) -> Value {
      List out;
      for (const Expression& item : items) out.push_back(item(scope));
      return out;
    };
  }

  Expression parse_expression() {
    const Depth guard(depth_);
    Expression value = parse_or();
    while (take_name("if")) {
      Expression condition = parse_or();
      Expression otherwise =
          take_name("else") ? parse_expression() : [](Scope&) { return Value::undefined("the value without else"); };
      value = [value = std::move(value), condition = std::move(condition), otherwise = std::move(otherwise)](
                  Scope& scope) { return condition(scope).truth() ? value(scope) : otherwise(scope); };
    }
    return value;
  }

  Expression parse_or() {
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

  Expression parse_and() {
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

  Expression parse_not() {
    const Depth guard(depth_);
    if (take_name("not")) return [value = parse_not()](Scope& scope) -> Value { return !value(scope).truth(); };
    return parse_comparison();
  }

  std::optional<Comparison> take_comparison() {
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
  Expression parse_comparison() {
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
  void link() {
    constexpr std::size_t kMostLinks = 10'000;  // of the whole template; 100 in published ones
    if (++links_ > kMostLinks) fail("more than 10000 operators");
  }

  Expression binary(Operator op, Expression left, Expression right) {
    link();
    return [op, left = std::move(left), right = std::move(right)](Scope& scope) {
      const Value a = left(scope);
      return calculate(op, a, right(scope));
    };
  }

  Expression parse_sum() {
    Expression left = parse_concatenation();
    while (is_op("+") || is_op("-")) {
      const Operator op = take().text == "+" ? Operator::add : Operator::subtract;
      left = binary(op, std::move(left), parse_concatenation());
    }
    return left;
  }

  Expression parse_concatenation() {
    Expression left = parse_product();
    while (take_op("~")) left = binary(Operator::concatenate, std::move(left), parse_product());
    return left;
  }

  Expression parse_product() {
    Expression left = parse_power();
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

  Expression parse_power() {
    Expression left = parse_unary(true);
    while (take_op("**")) left = binary(Operator::power, std::move(left), parse_unary(true));
    return left;
  }

  Expression parse_unary(bool with_filters) {
    const Depth guard(depth_);
    Expression value;
    if (take_op("-"))
      value = binary(
          Operator::subtract, [](Scope&) { return Value(std::int64_t{0}); }, parse_unary(false));
    else if (take_op("+"))
      value = parse_unary(false);
    else
      value = parse_primary();
    value = parse_postfix(std::move(value));
    return with_filters ? parse_filters(std::move(value)) : value;
  }

  Expression parse_primary() {
    const LexToken token = peek();
    if (token.kind == Kind::name) return parse_name();
    if (token.kind == Kind::string) {
      std::string text;
      while (peek().kind == Kind::string) text += take().text;
      return [text](Scope&) -> Value { return text; };
    }
    if (token.kind == Kind::integer || token.kind == Kind::number) return parse_number();
    if (take_op("(")) {
      if (take_op(")")) return list_of({});
      Expression inner = parse_tuple();
      expect_op(")");
      return inner;
    }
    if (take_op("[")) return list_of(parse_items("]"));
    if (take_op("{")) return parse_dict();
    fail(fmt::format("found '{}' where a value is expected", token.text));
  }

  Expression parse_number() {
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

  [[nodiscard]] std::int64_t whole_number(const std::string& digits) const {
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
      fail("the number " + digits + " is too large");
    return value;
  }

  Expression parse_name() {
    const std::string name = take().text;
    if (name == "true" || name == "True") return [](Scope&) { return Value(true); };
    if (name == "false" || name == "False") return [](Scope&) { return Value(false); };
    if (name == "none" || name == "None") return [](Scope&) { return Value(); };
    if (is_op("(")) return parse_call(name);
    return [name](Scope& scope) { return scope.find(name); };
  }

  Expression parse_call(const std::string& name) {
    const Callable function = find_function(name);
    if (function == nullptr && !macros_.contains(name)) refuse("function", name);
    CallArguments arguments = parse_arguments();
    return [name, function, arguments = std::move(arguments)](Scope& scope) -> Value {
      const Value found = scope.find(name);
      if (found.as_macro() != nullptr) return call_macro(*found.as_macro(), arguments.compute(scope));
      if (function == nullptr) throw TemplateError("a macro was expected, found " + found.kind());
      return function({}, arguments.compute(scope));
    };
  }

  std::vector<Expression> parse_items(std::string_view end) {
    std::vector<Expression> out;
    while (!take_op(end)) {
      out.push_back(parse_expression());
      if (!is_op(end)) expect_op(",");
    }
    return out;
  }

  Expression parse_dict() {
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
        std::string name = key(scope).text();
        out.set(std::move(name), value(scope));
      }
      return out;
    };
  }

  CallArguments parse_arguments() {
    CallArguments out;
    expect_op("(");
    while (!take_op(")")) {
      if (is_op("*") || is_op("**")) refuse("argument list", peek().text);
      if (peek().kind == Kind::name && peek(1).kind == Kind::op && peek(1).text == "=") {
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
  Expression parse_postfix(Expression value) {
    for (;;) {
      if (is_op(".") || is_op("[")) link();
      if (take_op(".")) {
        const bool index = peek().kind == Kind::integer;
        const std::string name = take().text;
        if (is_op("(")) {
          value = parse_method(std::move(value), name);
        } else {
          const Value key = index ? Value(whole_number(name)) : Value(name);
          value = [value = std::move(value), key](Scope& scope) { return member(value(scope), key); };
        }
      } else if (take_op("[")) {
        value = parse_subscript(std::move(value));
      } else if (is_op("(")) {
        refuse("call", "of a value");
      } else {
        return value;
      }
    }
  }

  Expression parse_method(Expression object, const std::string& name) {
    const Callable method = find_method(name);
    const bool is_loop = name == "cycle";
    if (method == nullptr && !is_loop) refuse("method", name);
    CallArguments arguments = parse_arguments();
    return [object = std::move(object), name, method, arguments = std::move(arguments)](Scope& scope) -> Value {
      const Value self = object(scope);
      self.required();
      if (method != nullptr) return method(self, arguments.compute(scope));
      const Arguments choices = arguments.compute(scope);  // loop.cycle()
      if (choices.positional.empty()) throw TemplateError("cycle: no items");
      const auto at = static_cast<std::size_t>(member(self, "index0").whole());
      return choices.positional[at % choices.positional.size()];
    };
  }

  Expression parse_subscript(Expression object) {
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

  Expression parse_filters(Expression value) {
    for (;;) {
      if (is_op("|") || is_name("is")) link();
      if (take_op("|"))
        value = parse_filter(std::move(value));
      else if (take_name("is"))
        value = parse_test(std::move(value));
      else
        return value;
      value = parse_postfix(std::move(value));
    }
  }

  Expression parse_filter(Expression value) {
    const std::string name = expect_identifier();
    const Callable filter = find_filter(name);
    if (filter == nullptr) refuse("filter", name);
    CallArguments arguments;
    if (is_op("(")) arguments = parse_arguments();
    return [value = std::move(value), filter, arguments = std::move(arguments)](Scope& scope) {
      const Value self = value(scope);
      return filter(self, arguments.compute(scope));
    };
  }

  // An operand without parentheses may follow: `is divisibleby 3`.
  Expression parse_test(Expression value) {
    const bool negated = take_name("not");
    const std::string name = expect_identifier();
    const Callable test = find_test(name);
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
      return test(self, arguments.compute(scope)).truth() != negated;
    };
  }

  std::set<std::string> macros_;
  std::size_t depth_ = 0, loops_ = 0, links_ = 0;
};

}  // namespace

Statement compile_template(std::string source) {
  try {
    return Parser(lex_template(std::move(source))).run();
  } catch (const TemplateError& error) {
    throw InputError(std::string("chat template: ") + error.what());
  }
}

}  // namespace plimsoll::text
