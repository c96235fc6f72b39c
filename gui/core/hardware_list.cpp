// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/hardware_list.h"

#include <QStringList>
#include <algorithm>
#include <cmath>

#include "configs/quantity.h"
#include "gui/core/footprint.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "study/file/cell.h"

namespace plimsoll::gui {
namespace {

constexpr const char* kGpuHour = "gpu_hour";

QString link_words(model::LinkKind kind) {
  switch (kind) {
    case model::LinkKind::nvswitch: return QStringLiteral("NVSwitch");
    case model::LinkKind::nvlink: return QStringLiteral("NVLink");
    case model::LinkKind::pcie: return QStringLiteral("PCIe");
    default: return {};
  }
}

QString link_of(const configs::Catalogue& catalogue, const configs::Instance& instance,
                const model::Accelerator& accelerator) {
  if (instance.count < 2) return {};
  const auto link = catalogue.link(accelerator, instance.interconnect);
  if (link == nullptr) return {};
  const QString words = link_words(link->kind);
  return words.isEmpty() ? qs(link->id) : words;
}

// For some makers a gigabyte is 10^9 bytes, for others 2^30. A whole number of 2^30 bytes is shown as such.
double maker_gb(double bytes) {
  constexpr double kBinary = 1024.0 * 1024 * 1024, kDecimal = 1e9;
  const double binary = bytes / kBinary;
  return binary == std::round(binary) ? binary : std::round(bytes / kDecimal);
}

double usd_of(const configs::Node& node) {
  return configs::parse_number(node.as_string()) ? node.as_number(0, 1e9) : node.as_usd().value;
}

}  // namespace

QString gpu_name(const std::string& accelerator) {
  QStringList parts = qs(accelerator).split(QChar(u'-'));
  // Rows show the memory in a column of its own.
  if (parts.size() > 1 && parts.back().endsWith(QStringLiteral("gb"))) parts.removeLast();
  return accelerator_words(utf8(parts.join(QChar(u'-'))));
}

std::vector<HardwareRow> hardware_rows(const configs::Catalogue& catalogue) {
  std::vector<HardwareRow> rows;
  for (const std::string& name : catalogue.names("instances")) {
    try {
      const auto instance = catalogue.instance(name);
      const auto accelerator = catalogue.accelerator(instance->accelerator);
      HardwareRow row{name,
                      gpu_name(accelerator->id),
                      instance->count,
                      maker_gb(accelerator->memory.value),
                      link_of(catalogue, *instance, *accelerator),
                      qs(instance->cloud),
                      {},
                      {}};
      if (const auto price = instance->price()) {
        row.usd_per_hour = price->usd_per_hour;
        row.price_note = QStringLiteral("%1, %2").arg(qs(instance->region), qs(price->date));
      }
      rows.push_back(row);
      if (!instance->sagemaker) continue;
      row.name = "ml." + row.name;
      row.cloud = QStringLiteral("SageMaker");
      row.usd_per_hour = instance->sagemaker->usd_per_hour;
      row.price_note = QStringLiteral("%1, %2").arg(qs(instance->region), qs(instance->sagemaker->date));
      rows.push_back(std::move(row));
    } catch (const InputError&) {
      continue;  // an invalid file of the catalogue is reported when it is chosen
    }
  }
  return rows;
}

QString hardware_words(const HardwareRow& row) {
  return QStringLiteral("%1 × %2 %3 GB").arg(row.count).arg(row.gpu, reader_text(row.memory_gb, 3));
}

OwnPrices own_prices(const Scenario& scenario) {
  OwnPrices out;
  const std::string text = utf8(field_value(scenario, "prices").text);
  if (text.empty()) return out;
  try {
    const auto document = configs::Document::from_text(text, "prices");
    for (const configs::Item& item : document.root().items()) {
      if (item.key == kGpuHour)
        out.gpu_hour = usd_of(item.value);
      else
        out.instances.emplace_back(item.key, usd_of(item.value));
    }
  } catch (const InputError&) {
    return {};
  }
  return out;
}

void set_own_prices(Scenario& scenario, const OwnPrices& prices) {
  if (prices == own_prices(scenario)) return;
  std::erase_if(scenario.edits,
                [](const auto& edit) { return edit.first == "prices" || edit.first.starts_with("prices."); });
  if (prices == own_prices(scenario)) return;
  std::string map;
  // A name with dots is a key of its own.
  for (const auto& [name, usd] : prices.instances)
    map += (map.empty() ? "" : ", ") + study::json_quoted(name) + ": " + study::number_text(usd);
  if (prices.gpu_hour)
    map += (map.empty() ? "" : ", ") + std::string(kGpuHour) + ": " + study::number_text(*prices.gpu_hour);
  set_edit(scenario, "prices", "{" + map + "}");
}

}  // namespace plimsoll::gui
