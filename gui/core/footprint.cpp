// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/footprint.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <QStringList>
#include <algorithm>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("plimsoll::gui::Footprint", text); }

QString gpus_text(std::int64_t least, std::int64_t most) {
  if (least != most) return tr("%1 to %2 GPUs").arg(least).arg(most);
  return most == 1 ? tr("1 GPU") : tr("%1 GPUs").arg(most);
}

QString price_text(double least, double most) {
  // Two decimals: prices are compared to the cent.
  const auto text = [](double usd) { return QString::number(usd, 'f', 2); };
  return least == most ? tr("%1 USD/h").arg(text(most)) : tr("%1 to %2 USD/h").arg(text(least), text(most));
}

}  // namespace

Footprint footprint_of(const study::PointResult& point) {
  Footprint out;
  out.instance = qs(point.labels.hardware);
  out.gpus = point.gpus;
  out.paid = std::int64_t{point.instances} * point.gpus_per_instance;
  out.instances = point.instances;
  out.usd_per_hour = point.usd_per_hour;
  out.replicas = out.fitting_replicas = std::max(1, point.labels.replicas);
  // No replica spans instances.
  if (out.gpus_per_replica() > 0)
    out.fitting_replicas = out.instances * (point.gpus_per_instance / out.gpus_per_replica());
  return out;
}

QString footprint_text(const Footprint& footprint) { return footprint_range({footprint}); }

QString footprint_range(const std::vector<Footprint>& footprints) {
  if (footprints.empty()) return {};
  const auto range = [&](const auto& value) {
    const auto [low, high] =
        std::minmax_element(footprints.begin(), footprints.end(),
                            [&](const Footprint& a, const Footprint& b) { return value(a) < value(b); });
    return std::pair(value(*low), value(*high));
  };
  QStringList words;
  const auto gpus = range([](const Footprint& f) { return f.gpus; });
  if (gpus.second > 0) words << gpus_text(gpus.first, gpus.second);
  const auto instances = range([](const Footprint& f) { return f.instances; });
  const QString count = instances.first == instances.second ? QString::number(instances.second)
                                                            : tr("%1 to %2").arg(instances.first).arg(instances.second);
  QStringList names;
  for (const Footprint& f : footprints) {
    if (!names.contains(f.instance)) names << f.instance;
  }
  words << QStringLiteral("%1 × %2").arg(count,
                                         names.size() > 2 ? tr("%1 kinds").arg(names.size()) : names.join(tr(" or ")));
  const bool priced =
      std::all_of(footprints.begin(), footprints.end(), [](const Footprint& f) { return f.usd_per_hour.has_value(); });
  const auto price = range([](const Footprint& f) { return f.usd_per_hour.value_or(0); });
  words << (priced ? price_text(price.first, price.second) : tr("price not known"));
  if (gpus.first > 0) {
    const auto idle = range([](const Footprint& f) { return f.idle(); });
    words << (idle.first == idle.second ? tr("%1 idle").arg(idle.second)
                                        : tr("%1 to %2 idle").arg(idle.first).arg(idle.second));
  }
  return words.join(QStringLiteral(", "));
}

QString accelerator_words(const std::string& id) {
  static const QRegularExpression memory(QStringLiteral("^(\\d+)gb$"));
  QStringList words;
  for (const QString& part : qs(id).split(QChar(u'-'))) {
    const auto size = memory.match(part);
    words << (size.hasMatch()                  ? tr("%1 GB").arg(size.captured(1))
              : part == QStringLiteral("pcie") ? QStringLiteral("PCIe")
              : part.size() > 6                ? part  // a word, not an abbreviation
                                               : part.toUpper());
  }
  return words.join(QChar(u' '));
}

Setup setup_of(const study::PointSpec& spec) {
  Setup out;
  out.model = qs(spec.model_stated.empty() ? spec.model_name : spec.model_stated);
  if (spec.shape) out.model = tr("%1, %2").arg(out.model, qs(model::name(spec.weight_dtype)));
  const study::Hardware& hardware = spec.hardware;
  out.hardware = qs(hardware.label);
  if (hardware.this_machine) {
    out.hardware = tr("this machine");
  } else if (hardware.accelerator) {
    const QString words =
        QStringLiteral("%1 × %2").arg(hardware.count).arg(accelerator_words(hardware.accelerator->id));
    // The label of an accelerator that belongs to no instance says the same.
    const bool instance = !out.hardware.startsWith(qs(hardware.accelerator->id));
    out.hardware = instance ? QStringLiteral("%1, %2").arg(words, out.hardware) : words;
  }
  out.engine = qs(spec.engine ? spec.engine->id : spec.engine_name);
  return out;
}

}  // namespace plimsoll::gui
