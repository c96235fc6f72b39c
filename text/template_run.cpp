// SPDX-License-Identifier: Apache-2.0
#include "text/template_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::text {
namespace {

constexpr std::size_t kDeepest = 200;  // nesting of expressions, statements and macro calls

Value loop_state(const List& items, std::size_t i) {
  const auto whole = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  Dict out;
  out.items = {{"index", whole(i + 1)},
               {"index0", whole(i)},
               {"first", i == 0},
               {"last", i + 1 == items.size()},
               {"length", whole(items.size())},
               {"revindex", whole(items.size() - i)},
               {"revindex0", whole(items.size() - i - 1)},
               {"previtem", i > 0 ? items[i - 1] : Value::undefined("loop.previtem")},
               {"nextitem", i + 1 < items.size() ? items[i + 1] : Value::undefined("loop.nextitem")}};
  return out;
}

}  // namespace

Depth::Depth(std::size_t& depth) : depth_(depth) {
  if (++depth_ > kDeepest) {
    --depth_;
    throw TemplateError("the template nests too deeply");
  }
}

Value Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
    for (const auto& [key, value] : scope->names)
      if (key == name) return value;
  return Value::undefined(name);
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : names) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

Arguments CallArguments::compute(Scope& scope) const {
  Arguments out;
  for (const Expression& argument : positional) out.positional.push_back(argument(scope));
  for (const auto& [name, argument] : named) out.named.emplace_back(name, argument(scope));
  return out;
}

Value call_macro(const MacroValue& macro, const Arguments& arguments) {
  thread_local std::size_t depth = 0;
  const Depth guard(depth);
  std::string out;
  Scope scope{.parent = macro.scope, .out = &out};
  const MacroNode& node = *macro.node;
  if (arguments.positional.size() > node.parameters.size())
    throw TemplateError(fmt::format("macro {}: more arguments than parameters", node.name));
  for (const auto& [name, value] : arguments.named)
    if (std::ranges::find(node.parameters, name, &MacroNode::Parameter::name) == node.parameters.end())
      throw TemplateError(fmt::format("macro {}: found the argument '{}'", node.name, name));
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const MacroNode::Parameter& parameter = node.parameters[i];
    const Value* const given = arguments.find(i, parameter.name);
    if (given != nullptr)
      scope.set(parameter.name, *given);
    else
      scope.set(parameter.name, parameter.fallback ? parameter.fallback(scope) : Value::undefined(parameter.name));
  }
  static_cast<void>(node.body(scope));
  return out;
}

void assign(Scope& scope, const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return scope.set(targets[0], value);
  const List items = items_of(value);
  if (items.size() != targets.size())
    throw TemplateError(fmt::format("{} values for {} names", items.size(), targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i) scope.set(targets[i], items[i]);
}

Flow ForLoop::run(Scope& scope) const {
  List items = items_of(list(scope));
  if (condition) {
    std::erase_if(items, [&](const Value& item) {
      Scope inner{.parent = &scope, .out = scope.out};
      assign(inner, targets, item);
      return !condition(inner).truth();
    });
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    Scope inner{.parent = &scope, .out = scope.out};
    inner.set("loop", loop_state(items, i));
    assign(inner, targets, items[i]);
    if (body(inner) == Flow::breaks) break;
  }
  return items.empty() && otherwise ? otherwise(scope) : Flow::next;
}

}  // namespace plimsoll::text
