// SPDX-License-Identifier: Apache-2.0
// Compiles chat templates to functions. Private to text/chat_template.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace plimsoll::text {

/// The variables of a loop's pass, of a macro's call or of the whole template, and where it prints.
struct Scope {
  Scope* parent = nullptr;
  std::string* out = nullptr;
  std::vector<std::pair<std::string, Value>> names = {};
  std::shared_ptr<const bool> life = {};  // of the scope, for the macros that are defined in it
  /// Returns a variable or a function; undefined if there is none.
  [[nodiscard]] Value find(const std::string& name) const;
  void set(const std::string& name, Value value);
};

/// What follows a statement: the next one, or the end of a loop or of its pass.
enum class Flow : std::uint8_t { next, breaks, continues };
using Expression = std::function<Value(Scope&)>;
using Statement = std::function<Flow(Scope&)>;

struct MacroNode {
  struct Parameter {
    std::string name;
    Expression fallback;  // empty if none
  };
  std::string name;
  std::vector<Parameter> parameters;
  Statement body;
  // Whether the body names what a call passes besides the parameters.
  bool takes_caller = false, takes_more = false, takes_named = false;
};

/// Compiles a template. Throws InputError for a construct outside the subset, with its name and line.
[[nodiscard]] Statement compile_template(std::string source);

}  // namespace plimsoll::text
