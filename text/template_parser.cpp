// SPDX-License-Identifier: Apache-2.0
#include "text/template_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "model/error.h"
#include "text/template_expressions.h"
#include "text/template_value.h"

namespace plimsoll::text {

namespace {

class Parser : ExpressionParser {
 public:
  explicit Parser(std::vector<LexToken> tokens) : ExpressionParser(std::move(tokens)) {}

  Statement run() {
    Statement body = parse_body({});
    if (peek().kind != Kind::end) fail(fmt::format("found '{}' without its beginning", peek().text));
    return body;
  }

 private:
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
    if (name == "call") return parse_call_block();
    if (name == "filter") return parse_filter_block();
    if (name == "with") return parse_with();
    if (name == "generation") {  // marks what a model wrote; has no effect on the text
      expect_block_end();
      return [body = parse_inner("endgeneration")](Scope& scope) {
        return *scope.out += printed(body, scope), Flow::next;
      };
    }
    if (name == "break" || name == "continue") {
      expect_block_end();
      if (loops_ == 0) fail(fmt::format("'{}' outside a loop", name));
      return [flow = name == "break" ? Flow::breaks : Flow::continues](Scope&) { return flow; };
    }
    put_back();
    refuse("statement", name);
  }

  // Parses a body with a scope of its own, which no loop's end leaves, and its end.
  Statement parse_inner(std::string_view end) {
    const std::size_t loops = std::exchange(loops_, 0U);
    Statement body = parse_body({end});
    loops_ = loops;
    take_end();
    return body;
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
      if (object.as_namespace() == nullptr) throw TemplateError("attributes of " + object.kind() + " cannot be set");
      check_namespace_name(attribute);
      if (value.contains_namespace(object.as_namespace()->members.get()))
        throw TemplateError("a namespace cannot contain itself");
      object.as_namespace()->members->set(attribute, value);
    };
    if (take_op("=")) {
      Expression value = parse_tuple();
      expect_block_end();
      return [store, value = std::move(value)](Scope& scope) { return store(scope, value(scope)), Flow::next; };
    }
    std::vector<FilterCall> filters;
    while (take_op("|")) filters.push_back(parse_filter_call());
    expect_block_end();
    Statement body = parse_inner("endset");
    return [store, filters = std::move(filters), body = std::move(body)](Scope& scope) {
      Value value = printed(body, scope);
      for (const FilterCall& filter : filters) value = filter(scope, value);
      store(scope, value);
      return Flow::next;
    };
  }

  // {% filter name %} … {% endfilter %}
  Statement parse_filter_block() {
    std::vector<FilterCall> filters{parse_filter_call()};
    while (take_op("|")) filters.push_back(parse_filter_call());
    expect_block_end();
    return [filters = std::move(filters), body = parse_inner("endfilter")](Scope& scope) {
      Value value = printed(body, scope);
      for (const FilterCall& filter : filters) value = filter(scope, value);
      *scope.out += value.text();
      return Flow::next;
    };
  }

  // {% with a = 1, b = 2 %} … {% endwith %}. The values do not see one another.
  Statement parse_with() {
    std::vector<std::pair<std::vector<std::string>, Expression>> variables;
    while (peek().kind != Kind::end_block) {
      if (!variables.empty()) expect_op(",");
      std::vector<std::string> targets{expect_identifier()};
      expect_op("=");
      variables.emplace_back(std::move(targets), parse_expression());
    }
    expect_block_end();
    Statement body = parse_body({"endwith"});
    take_end();
    return [variables = std::move(variables), body = std::move(body)](Scope& scope) {
      Scope inner{.parent = &scope, .out = scope.out};
      for (const auto& [targets, value] : variables) assign(inner, targets, value(scope));
      return body(inner);
    };
  }

  void parse_parameters(MacroNode& node) {
    while (!take_op(")")) {
      MacroNode::Parameter parameter{.name = expect_identifier(), .fallback = {}};
      if (take_op("=")) parameter.fallback = parse_expression();
      node.parameters.push_back(std::move(parameter));
      if (!is_op(")")) expect_op(",");
    }
  }

  void parse_macro_body(MacroNode& node, std::string_view end) {
    expect_block_end();
    macros_.push_back(&node);
    node.body = parse_inner(end);
    macros_.pop_back();
    for (const auto& [name, fallback] : node.parameters) {
      if (name == "caller") node.takes_caller = false;
      if (name == "varargs") node.takes_more = false;
      if (name == "kwargs") node.takes_named = false;
    }
  }

  Statement parse_macro() {
    auto node = std::make_shared<MacroNode>();
    node->name = expect_identifier();
    expect_op("(");
    parse_parameters(*node);
    parse_macro_body(*node, "endmacro");
    return [node](Scope& scope) { return scope.set(node->name, macro_in(scope, *node)), Flow::next; };
  }

  // {% call(parameters) macro(arguments) %} … {% endcall %}: the macro gets the body as the macro `caller`.
  Statement parse_call_block() {
    auto node = std::make_shared<MacroNode>();
    node->name = "caller";
    if (take_op("(")) parse_parameters(*node);
    if (peek().kind != Kind::name || peek(1).text != "(") refuse("call block", "of a value");
    const std::string name = take().text;
    CallArguments arguments = parse_arguments();
    parse_macro_body(*node, "endcall");
    return [node, name, arguments = std::move(arguments)](Scope& scope) {
      Arguments given = arguments.compute(scope);
      given.named.emplace_back("caller", macro_in(scope, *node));
      *scope.out += call(scope.find(name), std::move(given)).text();
      return Flow::next;
    };
  }

  std::size_t loops_ = 0;
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
