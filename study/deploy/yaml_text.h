// SPDX-License-Identifier: Apache-2.0
// Manifests as trees of values: written as YAML in block style, as people write them, and checked against JSON schemas
// from a user's folder (of Kubernetes, Helm values and Compose).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plimsoll::study::deploy {

using Tree = nlohmann::ordered_json;

/// Returns the tree as one YAML document, without "---". Text that another reader could take for a number, a truth
/// value or null is quoted. Text of several lines becomes a literal block.
[[nodiscard]] std::string yaml_text(const Tree& tree);
/// Returns a comment of one line for each line of `text`.
[[nodiscard]] std::string yaml_comment(const std::string& text);

struct CheckedObject {
  std::string file;  // manifest that contains it
  Tree object;
};

/// Checks each object against the schema for its kind. A schema states its kind by its fields
/// (x-kubernetes-group-version-kind, or constants for apiVersion and kind) or by its file name
/// (deployment-apps-v1.json, inferencepool_v1.json, values.schema.json, compose-spec.json). Objects without a schema
/// are not checked. Throws InputError with the place in the object if one violates its schema, if a schema cannot be
/// read, or if no object has one.
void check_schemas(const std::vector<CheckedObject>& objects, const std::string& folder);

/// Returns the first violation, such as "spec.replicas: found text, expected integer"; empty if there is none. Supports
/// types, properties, required, additionalProperties, items, enum, const, limits of numbers and sizes, patterns, anyOf,
/// oneOf, allOf and references within `schema`; other keywords are ignored.
[[nodiscard]] std::string schema_violation(const Tree& value, const Tree& schema);

}  // namespace plimsoll::study::deploy
