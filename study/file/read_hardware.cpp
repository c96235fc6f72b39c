// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "configs/hardware_name.h"
#include "study/file/read_point.h"
#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using configs::Catalogue;
using configs::Node;
using Keys = std::vector<std::string_view>;

Hardware read_instance(const Node& node, const std::string& price_date, const Catalogue& catalogue) {
  const std::string name = node.as_string();
  const auto instance = catalogue.instance(name, node.where());
  const bool sagemaker = name.starts_with("ml.");
  Hardware hardware;
  hardware.label = (sagemaker ? "ml." : "") + instance->id;
  hardware.accelerator = catalogue.accelerator(instance->accelerator, node.where());
  hardware.count = instance->count;
  if (instance->count > 1)
    hardware.interconnect = catalogue.link(*hardware.accelerator, instance->interconnect, node.where());
  // SageMaker has prices of its own for the same machine, above those of the cloud.
  const auto price = sagemaker ? instance->sagemaker : instance->price(price_date);
  if (!price) return hardware;
  hardware.usd_per_hour = price->usd_per_hour;
  hardware.price_date = price->date;
  hardware.price_note = fmt::format("{} {}, {}", sagemaker ? "SageMaker on demand" : instance->cloud + " on demand",
                                    price->date, instance->region);
  return hardware;
}

double read_usd(const Node& node) {
  return configs::parse_number(node.as_string()) ? node.as_number(0, 1e9) : node.as_usd().value;
}

// The user's prices override those of the catalogue. They are stated per instance or per accelerator.
void read_prices(const Section& study, const Catalogue& catalogue, Hardware& hardware) {
  constexpr std::string_view kGpuHour = "gpu_hour";
  const auto prices = study.find("prices");
  if (!prices) return;
  for (const configs::Item& item : prices->items()) {
    const double usd = read_usd(item.value);
    if (item.key == kGpuHour) {
      hardware.usd_per_hour = usd * hardware.count;
      hardware.price_note = fmt::format("own price of {} USD per accelerator and hour", configs::number_text(usd));
      hardware.price_date.clear();
    } else {
      // A misspelt name is refused here, even if the study uses other hardware.
      static_cast<void>(catalogue.instance(item.key, item.key_where));
    }
  }
  for (const configs::Item& item : prices->items()) {
    if (item.key == kGpuHour) continue;
    const std::string label =
        (item.key.starts_with("ml.") ? "ml." : "") + catalogue.instance(item.key, item.key_where)->id;
    if (label != hardware.label) continue;
    hardware.usd_per_hour = read_usd(item.value);
    hardware.price_note = "own price";
    hardware.price_date.clear();
  }
}

bool is_this_machine(const Node& node) {
  return node.is_scalar() && configs::canonical_name(node.as_string()) == "this-machine";
}

// settle_this_machine() completes this, once the number of ranks that share the machine is known.
Hardware read_this_machine(const Node& node, const Catalogue& catalogue, const PointSpec& spec) {
  Hardware hardware;
  hardware.label = "this-machine";
  hardware.this_machine = catalogue.this_machine(spec.engine->id == "plimsoll-cuda" ? "cuda" : "cpu", node.where());
  hardware.accelerator = hardware.this_machine->shares.front().accelerator;
  hardware.interconnect = hardware.this_machine->interconnect;
  hardware.count = hardware.this_machine->cores;
  return hardware;
}

void settle_machine(Hardware& hardware, const Catalogue& catalogue, const std::string& link, const Where& where) {
  hardware.label = fmt::format("{} x {}", hardware.accelerator->id, hardware.count);
  if (!link.empty() || hardware.count > 1) {  // a single GPU needs no interconnect
    hardware.interconnect = catalogue.link(*hardware.accelerator, link, where);
  }
}

Hardware read_machine(const Node& node, const Catalogue& catalogue) {
  const Section section(node, Keys{"accelerator", "count", "interconnect", "usd_per_hour"});
  const Node accelerator = section.need("accelerator", "a100-sxm-40gb");
  Hardware hardware;
  hardware.accelerator = accelerator.is_map() ? catalogue.accelerator(accelerator)
                                              : catalogue.accelerator(accelerator.as_string(), accelerator.where());
  hardware.count = static_cast<std::int32_t>(section.whole("count", 1, kMaxDegree).value_or(1));
  settle_machine(hardware, catalogue, section.text("interconnect").value_or(""), section.where("interconnect"));
  if (const auto usd = section.find("usd_per_hour")) {
    hardware.usd_per_hour = read_usd(*usd);
    hardware.price_note = "own price";
  }
  return hardware;
}

// Reads an instance's name, or accelerators as in "8xH100".
Hardware read_named(const Node& node, const std::string& month, const Catalogue& catalogue) {
  const std::string name = node.as_string();
  if (catalogue.has_instance(name)) return read_instance(node, month, catalogue);
  const auto found = configs::find_accelerators(catalogue, name);
  if (!found) {
    const auto counted = configs::parse_accelerator_count(name);
    catalogue.refuse_hardware(counted && counted->count > 1 ? counted->accelerator : name, node.where());
  }
  if (found->count > kMaxDegree)
    node.fail(fmt::format("found {} accelerators, expected at most {}", found->count, kMaxDegree));
  Hardware hardware;
  hardware.accelerator = catalogue.accelerator(found->accelerator, node.where());
  hardware.count = static_cast<std::int32_t>(found->count);
  settle_machine(hardware, catalogue, "", node.where());
  return hardware;
}

// Reads a month such as "2025-04"; empty: the newest prices.
std::string read_month(const Section& study) {
  const auto node = study.find("price_date");
  if (!node) return {};
  const std::string text = node->as_string();
  const auto digits = [&text](std::size_t from, std::size_t to) {
    return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(from), text.begin() + static_cast<std::ptrdiff_t>(to),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  // Months are compared as text, so the form is checked exactly.
  const bool shaped = text.size() == 7 && text[4] == '-' && digits(0, 4) && digits(5, 7);
  if (!shaped || text.substr(5) < "01" || text.substr(5) > "12") {
    node->fail(fmt::format("found {}, expected a month, as in 2025-04", node->to_text()));
  }
  return text;
}

}  // namespace

void read_hardware(const Section& study, const Catalogue& catalogue, PointSpec& spec) {
  if (spec.engine->constant && !study.has("hardware")) return;
  const Node node = study.need("hardware", "ml.g5.12xlarge");
  const std::string month = read_month(study);
  if (node.is_map())
    spec.hardware = read_machine(node, catalogue);
  else if (is_this_machine(node))
    spec.hardware = read_this_machine(node, catalogue, spec);
  else
    spec.hardware = read_named(node, month, catalogue);
  spec.places.hardware = node.where();
  if (!node.is_map() || !node.has("usd_per_hour")) read_prices(study, catalogue, spec.hardware);
}

namespace {
std::int64_t ranks_of(const PointSpec& spec) {
  const Deployment& d = spec.deployment;
  const std::int32_t tp = d.tp_is_max ? spec.hardware.count : d.tp;
  return std::int64_t{tp} * d.pp * d.replicas;
}
}  // namespace

// All ranks of all replicas share the machine. Its engine profile was measured together with it.
void settle_this_machine(PointSpec& spec, std::int64_t others) {
  Hardware& hardware = spec.hardware;
  if (!hardware.this_machine) return;
  const std::int64_t own_ranks = ranks_of(spec), ranks = std::min<std::int64_t>(own_ranks + others, kMaxReplicas);
  hardware.count = static_cast<std::int32_t>(std::clamp<std::int64_t>(own_ranks, hardware.count, kMaxReplicas));
  const configs::ThisMachine::Share share =
      configs::share_of(*hardware.this_machine, static_cast<std::int32_t>(ranks), spec.weight_dtype);
  hardware.accelerator = share.accelerator;
  if (share.interconnect) hardware.interconnect = share.interconnect;
  const auto& own = hardware.this_machine->engine;
  if (own && own->id == spec.engine->id) spec.engine = own;
}

void settle_shared_machine(PointSpec& decode, PointSpec& prefill) {
  if (!decode.hardware.this_machine || decode.hardware.this_machine != prefill.hardware.this_machine) return;
  const std::int64_t decodes = ranks_of(decode), prefills = ranks_of(prefill);
  settle_this_machine(decode, prefills);
  settle_this_machine(prefill, decodes);
}

}  // namespace plimsoll::study
