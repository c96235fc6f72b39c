// SPDX-License-Identifier: Apache-2.0
#include "text/template_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::text {
namespace {

constexpr std::size_t kDeepest = 200;  // nesting of expressions, statements and macro calls

// loop.cycle(): the index of the pass chooses an argument.
Value cycle(const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("cycle: no items");
  return arguments.positional[static_cast<std::size_t>(self.whole()) % arguments.positional.size()];
}
constexpr NamedCallable kCycle{"cycle", cycle, "*"};

Value loop_state(const List& items, std::size_t i) {
  const auto whole = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  auto out = std::make_shared<Dict>();
  out->items = {{"index", whole(i + 1)},
                {"index0", whole(i)},
                {"first", i == 0},
                {"last", i + 1 == items.size()},
                {"length", whole(items.size())},
                {"revindex", whole(items.size() - i)},
                {"revindex0", whole(items.size() - i - 1)},
                {"depth", whole(1)},
                {"depth0", whole(0)},
                {"cycle", Function{.callable = &kCycle, .self = std::make_shared<const Value>(whole(i))}},
                {"previtem", i > 0 ? items[i - 1] : Value::undefined("loop.previtem")},
                {"nextitem", i + 1 < items.size() ? items[i + 1] : Value::undefined("loop.nextitem")}};
  return Value::Namespace{std::move(out)};
}

// Sets the parameters of a macro. Jinja passes what they do not take as `varargs`, `kwargs` and `caller`.
void bind(Scope& scope, const MacroNode& node, Arguments& arguments) {
  const std::size_t given = std::min(arguments.positional.size(), node.parameters.size());
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    const auto found = std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const auto& [name, fallback] = node.parameters[i];
    if (i < given)
      scope.set(name, arguments.positional[i]);
    else if (std::optional<Value> named = take(name))
      scope.set(name, *std::move(named));
    else
      scope.set(name, fallback ? fallback(scope) : Value::undefined(name));
  }
  if (node.takes_caller) scope.set("caller", take("caller").value_or(Value::undefined("caller")));
  const auto kwargs = [&] {
    Dict out;
    for (auto& [name, value] : arguments.named) out.items.emplace_back(name, std::move(value));
    return out;
  };
  if (node.takes_named)
    scope.set("kwargs", kwargs());
  else if (!arguments.named.empty())
    throw TemplateError(fmt::format("macro {}: found the argument '{}'", node.name, arguments.named[0].first));
  if (node.takes_more)
    scope.set("varargs", Sequence{.kind = Sequence::Kind::tuple,
                                  .items = {arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                                            arguments.positional.end()}});
  else if (arguments.positional.size() > given)
    throw TemplateError(fmt::format("macro {}: more arguments than parameters", node.name));
}

// Returns what the macro prints.
std::string call_macro(const MacroValue& macro, Arguments& arguments) {
  thread_local std::size_t depth = 0;
  const Depth guard(depth);
  if (macro.alive.expired())
    throw TemplateError(fmt::format("macro {}: the scope that defined it has ended", macro.node->name));
  std::string out;
  Scope scope{.parent = macro.scope, .out = &out};
  bind(scope, *macro.node, arguments);
  static_cast<void>(macro.node->body(scope));
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
  if (const NamedCallable* function = find_function(name)) return Function{.callable = function, .self = {}};
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
  if (unpacked_list)
    for (Value& item : items_of(unpacked_list(scope).required())) out.positional.push_back(std::move(item));
  if (!unpacked_dict) return out;
  const Value dict = unpacked_dict(scope).required();
  if (dict.as_dict() == nullptr) throw TemplateError("'**': expected a dictionary, found " + dict.kind());
  for (const auto& [key, value] : dict.as_dict()->items) {
    if (key.as_string() == nullptr) throw TemplateError("'**': expected a string as key, found " + key.kind());
    const std::string& name = *key.as_string();
    if (out.find(std::string::npos, name) != nullptr) throw TemplateError("the argument '" + name + "' is given twice");
    out.named.emplace_back(name, value);
  }
  return out;
}

MacroValue macro_in(Scope& scope, const MacroNode& node) {
  if (!scope.life) scope.life = std::make_shared<const bool>(true);
  return {.node = &node, .scope = &scope, .alive = scope.life};
}

Value call(const Value& callee, Arguments arguments) {
  if (const MacroValue* macro = callee.required().as_macro()) return call_macro(*macro, arguments);
  const Function* const function = callee.as_function();
  if (function == nullptr) throw TemplateError(callee.kind() + " cannot be called");
  return (*function->callable)(function->self ? *function->self : Value(), arguments);
}

Value filtered(const NamedCallable& filter, const Value& value, const Arguments& arguments) {
  Value out = filter(value, arguments);
  if (!value.is_safe_text() || out.as_string() == nullptr || filter.name == "tojson") return out;
  return Value::safe_text(*out.as_string());
}

std::string printed(const Statement& body, Scope& scope) {
  std::string out;
  Scope inner{.parent = &scope, .out = &out};
  static_cast<void>(body(inner));
  return out;
}

void assign(Scope& scope, const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return scope.set(targets[0], value);
  const List items = items_of(value.required());
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
  if (!items.empty() || !otherwise) return Flow::next;
  Scope inner{.parent = &scope, .out = scope.out};
  return otherwise(inner);
}

}  // namespace plimsoll::text
