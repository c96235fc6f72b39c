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
  [[nodiscard]] Arguments compute(Scope& scope) const;
};

/// Returns what the macro prints.
[[nodiscard]] Value call_macro(const MacroValue& macro, const Arguments& arguments);

/// Sets a variable, or several to the items of a value.
void assign(Scope& scope, const std::vector<std::string>& targets, const Value& value);

struct ForLoop {
  std::vector<std::string> targets;
  Expression list, condition;  // condition: empty if none
  Statement body, otherwise;   // otherwise: empty if none
  [[nodiscard]] Flow run(Scope& scope) const;
};

}  // namespace plimsoll::text
