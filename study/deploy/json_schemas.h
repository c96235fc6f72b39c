// SPDX-License-Identifier: Apache-2.0
// Checks objects against JSON schemas from a user's folder: schemas of Kubernetes, of Helm values and of Compose.
#pragma once

#include <string>
#include <vector>

#include "study/deploy/yaml_text.h"

namespace plimsoll::study::deploy {

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
