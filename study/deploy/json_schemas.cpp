// SPDX-License-Identifier: Apache-2.0
#include "study/deploy/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>

#include "configs/text_file.h"
#include "model/error.h"

namespace plimsoll::study::deploy {
namespace {

/// Checks values against one schema and the definitions in its file.
class Checker {
 public:
  explicit Checker(const Tree& root) : root_(root) {}

  /// Returns "path: problem"; empty if there is none.
  [[nodiscard]] std::string check(const Tree& value, const Tree& schema, const std::string& path, int depth = 0) const {
    constexpr int kDeepest = 100;
    if (schema.is_boolean()) return schema.get<bool>() ? "" : at(path, "not allowed");
    if (!schema.is_object() || depth > kDeepest) return {};
    if (const auto reference = schema.find("$ref"); reference != schema.end())
      return check(value, referred(*reference), path, depth + 1);
    for (const auto part : {&Checker::check_type, &Checker::check_choice, &Checker::check_limits})
      if (std::string text = (this->*part)(value, schema, path); !text.empty()) return text;
    if (std::string text = check_combined(value, schema, path, depth); !text.empty()) return text;
    return value.is_object() ? check_members(value, schema, path, depth) : check_items(value, schema, path, depth);
  }

 private:
  static std::string at(const std::string& path, const std::string& text) {
    return (path.empty() ? std::string() : path + ": ") + text;
  }
  static std::string shown(const Tree& value) {
    const std::string text = value.dump();
    return text.size() <= 40 ? text : text.substr(0, 37) + "...";
  }
  static bool is_type(const Tree& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    const bool whole =
        value.is_number_integer() ||
        (value.is_number_float() && value.get<double>() == static_cast<double>(value.get<std::int64_t>()));
    return type == "integer" ? whole : type == "number" && value.is_number();
  }

  [[nodiscard]] const Tree& referred(const Tree& reference) const {
    static const Tree kAnything = true;
    const std::string text = reference.is_string() ? reference.get<std::string>() : "";
    if (!text.starts_with("#")) return kAnything;  // in another file
    const nlohmann::json::json_pointer pointer(text.substr(1));
    const Tree::json_pointer own(pointer.to_string());
    return root_.contains(own) ? root_.at(own) : kAnything;
  }

  [[nodiscard]] std::string check_type(const Tree& value, const Tree& schema, const std::string& path) const {
    if (schema.value("x-kubernetes-int-or-string", false))
      return value.is_string() || value.is_number_integer()
                 ? ""
                 : at(path, "found " + shown(value) + ", expected a whole number or text");
    if (value.is_null() && schema.value("nullable", false)) return {};
    const auto type = schema.find("type");
    if (type == schema.end()) return {};
    std::vector<std::string> types;
    if (type->is_string()) types.push_back(type->get<std::string>());
    if (type->is_array())
      for (const Tree& one : *type)
        if (one.is_string()) types.push_back(one.get<std::string>());
    if (types.empty() ||
        std::any_of(types.begin(), types.end(), [&](const std::string& t) { return is_type(value, t); }))
      return {};
    std::string all;
    for (const std::string& one : types) all += (all.empty() ? "" : " or ") + one;
    return at(path, fmt::format("found {}, expected {}", shown(value), all));
  }

  [[nodiscard]] std::string check_choice(const Tree& value, const Tree& schema, const std::string& path) const {
    if (const auto one = schema.find("const"); one != schema.end() && *one != value)
      return at(path, fmt::format("found {}, expected {}", shown(value), shown(*one)));
    const auto choice = schema.find("enum");
    if (choice == schema.end() || std::find(choice->begin(), choice->end(), value) != choice->end()) return {};
    return at(path, fmt::format("found {}, expected one of {}", shown(value), choice->dump()));
  }

  [[nodiscard]] std::string check_limits(const Tree& value, const Tree& schema, const std::string& path) const {
    const auto limit = [&](const char* key) -> std::optional<double> {
      const auto found = schema.find(key);
      return found != schema.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
    };
    const auto outside = [&](double size, const char* low, const char* high, const char* what) -> std::string {
      const auto least = limit(low), most = limit(high);
      if (least && size < *least) return at(path, fmt::format("found {}{}, expected at least {}", what, size, *least));
      if (most && size > *most) return at(path, fmt::format("found {}{}, expected at most {}", what, size, *most));
      return {};
    };
    if (value.is_number()) return outside(value.get<double>(), "minimum", "maximum", "");
    if (value.is_array())
      return outside(static_cast<double>(value.size()), "minItems", "maxItems", "a list of length ");
    if (!value.is_string()) return {};
    const auto& text = value.get_ref<const std::string&>();
    if (std::string wrong = outside(static_cast<double>(text.size()), "minLength", "maxLength", "text of length ");
        !wrong.empty())
      return wrong;
    const auto pattern = schema.find("pattern");
    if (pattern == schema.end() || !pattern->is_string()) return {};
    try {
      if (std::regex_search(text, std::regex(pattern->get<std::string>(), std::regex::ECMAScript))) return {};
    } catch (const std::regex_error&) {
      return {};  // from a dialect that is not supported
    }
    return at(path, fmt::format("found {}, expected the pattern {}", shown(value), pattern->get<std::string>()));
  }

  [[nodiscard]] std::string check_combined(const Tree& value, const Tree& schema, const std::string& path,
                                           int depth) const {
    if (const auto all = schema.find("allOf"); all != schema.end())
      for (const Tree& part : *all)
        if (std::string text = check(value, part, path, depth + 1); !text.empty()) return text;
    for (const char* const key : {"anyOf", "oneOf"}) {
      const auto choice = schema.find(key);
      if (choice == schema.end() || choice->empty()) continue;
      std::string first;
      const bool fits = std::any_of(choice->begin(), choice->end(), [&](const Tree& part) {
        const std::string text = check(value, part, path, depth + 1);
        if (first.empty()) first = text;
        return text.empty();
      });
      if (!fits) return first;
    }
    return {};
  }

  [[nodiscard]] std::string check_members(const Tree& value, const Tree& schema, const std::string& path,
                                          int depth) const {
    if (const auto required = schema.find("required"); required != schema.end() && required->is_array())
      for (const Tree& key : *required)
        if (key.is_string() && !value.contains(key.get<std::string>()))
          return at(path, fmt::format("found no {}, which is required", key.get<std::string>()));
    const auto properties = schema.find("properties");
    const auto others = schema.find("additionalProperties");
    const auto patterns = schema.find("patternProperties");
    for (const auto& [key, member] : value.items()) {
      const std::string here = path.empty() ? key : path + '.' + key;
      const bool known = properties != schema.end() && properties->contains(key);
      std::string text;
      if (known)
        text = check(member, properties->at(key), here, depth + 1);
      else if (others != schema.end() && others->is_object())
        text = check(member, *others, here, depth + 1);
      else if (others != schema.end() && *others == false && !fits_pattern(key, patterns, schema))
        text = at(here, "this key is not allowed");
      if (!text.empty()) return text;
    }
    return {};
  }

  static bool fits_pattern(const std::string& key, Tree::const_iterator patterns, const Tree& schema) {
    if (patterns == schema.end() || !patterns->is_object()) return false;
    for (const auto& [pattern, inner] : patterns->items()) {
      try {
        if (std::regex_search(key, std::regex(pattern))) return true;
      } catch (const std::regex_error&) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::string check_items(const Tree& value, const Tree& schema, const std::string& path,
                                        int depth) const {
    const auto items = schema.find("items");
    if (!value.is_array() || items == schema.end()) return {};
    for (std::size_t i = 0; i < value.size(); ++i)
      if (std::string text = check(value[i], *items, fmt::format("{}[{}]", path, i), depth + 1); !text.empty())
        return text;
    return {};
  }

  const Tree& root_;
};

struct SchemaFile {
  std::string name;  // within the folder
  Tree schema;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<SchemaFile> schemas_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw InputError(fmt::format("--schemas {}: found no such folder", folder));
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json") paths.push_back(it->path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<SchemaFile> files;
  for (const std::string& path : paths) {
    Tree schema = Tree::parse(configs::read_text_file(path, "a JSON schema"), nullptr, false);
    if (schema.is_discarded()) throw InputError(Where{path, 1, 1}, "found no JSON, expected a JSON schema");
    files.push_back({lower(fs::relative(path, folder).string()), std::move(schema)});
  }
  return files;
}

std::string text_of(const Tree& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Kind {
  std::string group, version, kind;
};
Kind kind_of(const Tree& object) {
  const std::string api = text_of(object, "apiVersion");
  const std::size_t slash = api.find('/');
  return {slash == std::string::npos ? "" : api.substr(0, slash),
          slash == std::string::npos ? api : api.substr(slash + 1), text_of(object, "kind")};
}

bool states_kind(const Tree& schema, const Kind& kind, const std::string& api) {
  if (!schema.is_object()) return false;
  if (const auto kinds = schema.find("x-kubernetes-group-version-kind"); kinds != schema.end() && kinds->is_array())
    for (const Tree& one : *kinds)
      if (text_of(one, "group") == kind.group && text_of(one, "version") == kind.version &&
          text_of(one, "kind") == kind.kind)
        return true;
  const auto only = [&](const char* key) -> std::string {
    const Tree::json_pointer choice(std::string("/properties/") + key + "/enum/0"),
        one(std::string("/properties/") + key + "/const");
    if (schema.contains(one) && schema.at(one).is_string()) return schema.at(one).get<std::string>();
    return schema.contains(choice) && schema.at(choice).is_string() ? schema.at(choice).get<std::string>() : "";
  };
  return only("kind") == kind.kind && only("apiVersion") == api;
}

bool is_named_for(const std::string& file, const Kind& kind) {
  const std::string name = file.substr(file.rfind('/') + 1), group = kind.group.substr(0, kind.group.find('.'));
  const std::string own = lower(kind.kind), version = lower(kind.version);
  return name == (group.empty() ? fmt::format("{}-{}.json", own, version)
                                : fmt::format("{}-{}-{}.json", own, lower(group), version)) ||
         (name == fmt::format("{}_{}.json", own, version) &&
          (kind.group.empty() || file.find(lower(kind.group)) != std::string::npos ||
           file.find('/') == std::string::npos));
}

const SchemaFile* schema_for(const CheckedObject& checked, const std::vector<SchemaFile>& files) {
  const Kind kind = kind_of(checked.object);
  const auto find = [&](const auto& fits) -> const SchemaFile* {
    const auto found = std::find_if(files.begin(), files.end(), fits);
    return found == files.end() ? nullptr : &*found;
  };
  if (kind.kind.empty()) {
    const std::string wanted = checked.object.contains("services") ? "compose-spec.json" : "values.schema.json";
    return find([&](const SchemaFile& f) { return f.name.substr(f.name.rfind('/') + 1) == wanted; });
  }
  if (const auto* own =
          find([&](const SchemaFile& f) { return states_kind(f.schema, kind, text_of(checked.object, "apiVersion")); }))
    return own;
  return find([&](const SchemaFile& f) { return is_named_for(f.name, kind); });
}

}  // namespace

std::string schema_violation(const Tree& value, const Tree& schema) { return Checker(schema).check(value, schema, ""); }

void check_schemas(const std::vector<CheckedObject>& objects, const std::string& folder) {
  const std::vector<SchemaFile> files = schemas_in(folder);
  std::size_t checked = 0;
  for (const CheckedObject& object : objects) {
    const SchemaFile* const file = schema_for(object, files);
    if (file == nullptr) continue;
    ++checked;
    const std::string wrong = schema_violation(object.object, file->schema);
    const std::string kind = text_of(object.object, "kind");
    if (!wrong.empty())
      throw InputError(fmt::format("--schemas {}: deploy/{}{} violates {}: {}", folder, object.file,
                                   kind.empty() ? "" : ", " + kind, file->name, wrong));
  }
  if (checked == 0 && !objects.empty())
    throw InputError(
        fmt::format("--schemas {}: found no schema for any of the manifests among {} JSON files there; "
                    "expected names such as deployment-apps-v1.json",
                    folder, files.size()));
}

}  // namespace plimsoll::study::deploy
