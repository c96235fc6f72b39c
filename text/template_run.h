// SPDX-License-Identifier: Apache-2.0
// How chat templates run: scopes, calls of macros, loops. Private to the template's files.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "text/template_calls.h"
#include "text/template_parser.h"

namespace plimsoll::text {

/// Limits recursion, of the parser and of macros: throws TemplateError beyond the limit.
class Depth {
 public:
  explicit Depth(std::size_t& depth);
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  std::size_t& depth_;
};

/// The arguments of a call as expressions, not computed yet.
struct CallArguments {
  std::vector<Expression> positional;
  std::vector<std::pair<std::string, Expression>> named;
  Expression unpacked_list, unpacked_dict;  // *list and **dict; empty if none
  [[nodiscard]] Arguments compute(Scope& scope) const;
};

/// Calls a macro, function or method. Throws TemplateError for another value.
[[nodiscard]] Value call(const Value& callee, Arguments arguments);
/// Returns a macro that refers to the scope.
[[nodiscard]] MacroValue macro_in(Scope& scope, const MacroNode& node);
/// Returns what the filter makes of the value.
[[nodiscard]] Value filtered(const NamedCallable& filter, const Value& value, const Arguments& arguments);

/// Sets a variable, or several to the items of a value.
void assign(Scope& scope, const std::vector<std::string>& targets, const Value& value);

/// Returns what the statement prints in a scope of its own.
[[nodiscard]] std::string printed(const Statement& body, Scope& scope);

struct ForLoop {
  std::vector<std::string> targets;
  Expression list, condition;  // condition: empty if none
  Statement body, otherwise;   // otherwise: empty if none
  [[nodiscard]] Flow run(Scope& scope) const;
};

}  // namespace plimsoll::text
