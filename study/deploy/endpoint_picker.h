// SPDX-License-Identifier: Apache-2.0
// The configuration of llm-d's endpoint picker: one scheduling profile for each pool, the decider between a local and a
// remote prefill, and the producer of prefix matches. Private to study/deploy.
#pragma once

#include <string>

#include "configs/yaml_document.h"
#include "study/deploy/products.h"

namespace plimsoll::study::deploy {

struct PickerConfig {
  Tree tree;            // EndpointPickerConfig
  std::string refresh;  // how often the picker asks the servers: "50ms"
  std::string refused;  // why the picker cannot route as predicted; empty: it can
};
[[nodiscard]] PickerConfig picker_config(const Served& served);

/// Reads the routers of the pools and the decider. `refresh`: "50ms"; empty: not stated. Throws InputError.
void read_picker_config(const configs::Node& config, const std::string& refresh, Found& found);

}  // namespace plimsoll::study::deploy
