// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/footprint.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <optional>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

QString gpus_text(std::int64_t least, std::int64_t most) {
  if (least != most) return tr("%1 to %2 GPUs").arg(least).arg(most);
  return most == 1 ? tr("1 GPU") : tr("%1 GPUs").arg(most);
}

QString price_text(double least, double most) {
  // Two decimals: prices are compared to the cent.
  const auto text = [](double usd) { return QString::number(usd, 'f', 2); };
  return least == most ? tr("%1 USD/h").arg(text(most)) : tr("%1 to %2 USD/h").arg(text(least), text(most));
}

QString pools_text(const study::ResolvedPoint& point) {
  if (!point.scenario || !point.scenario->pools) return {};
  const load::Scenario &decode = *point.scenario, &prefill = *decode.pools->prefill;
  return tr("prefill %1 × TP %2 + decode %3 × TP %4")
      .arg(prefill.replicas)
      .arg(prefill.tp)
      .arg(decode.replicas)
      .arg(decode.tp);
}

// "3 × p4d.24xlarge"; empty for engines without hardware.
QString machines_text(const std::vector<Footprint>& footprints) {
  const auto [least, most] =
      std::minmax_element(footprints.begin(), footprints.end(),
                          [](const Footprint& a, const Footprint& b) { return a.instances < b.instances; });
  QStringList names;
  for (const Footprint& f : footprints) {
    if (!f.instance.isEmpty() && !names.contains(f.instance)) names << f.instance;
  }
  if (names.isEmpty()) return {};
  const QString count = least->instances == most->instances ? QString::number(most->instances)
                                                            : tr("%1 to %2").arg(least->instances).arg(most->instances);
  return QStringLiteral("%1 × %2").arg(count,
                                       names.size() > 2 ? tr("%1 kinds").arg(names.size()) : names.join(tr(" or ")));
}

}  // namespace

Footprint footprint_of(const study::ResolvedPoint& point) {
  Footprint out = footprint_of(point.result);
  if (const QString pools = pools_text(point); !pools.isEmpty()) out.pools = pools;
  return out;
}

Footprint footprint_of(const study::PointResult& point) {
  Footprint out;
  out.pools = qs(point.pools);
  out.instance = qs(point.labels.hardware);
  out.gpus = point.gpus;
  out.paid = std::int64_t{point.instances} * point.gpus_per_instance;
  out.instances = point.instances;
  out.usd_per_hour = point.usd_per_hour;
  out.impossible = !point.infeasible.empty() && point.gpus == 0;
  out.replicas = out.fitting_replicas = std::max(1, point.labels.replicas);
  // Pools may run on different machines, whose GPUs do not add up to one number.
  if (point.gpus_per_instance == 0) out.paid = out.gpus;
  // No replica spans instances. With pools, it is not known which one should grow.
  if (out.gpus_per_replica() > 0 && out.pools.isEmpty())
    out.fitting_replicas = out.instances * (point.gpus_per_instance / out.gpus_per_replica());
  return out;
}

QString footprint_text(const Footprint& footprint) { return footprint_range({footprint}); }

QString footprint_range(const std::vector<Footprint>& footprints, bool machines) {
  // A deployment that its instance cannot hold occupies nothing, and its price would be that of nothing.
  if (std::any_of(footprints.begin(), footprints.end(), [](const Footprint& f) { return f.impossible; })) {
    std::vector<Footprint> possible;
    for (const Footprint& f : footprints) {
      if (!f.impossible) possible.push_back(f);
    }
    return footprint_range(possible, machines);
  }
  if (footprints.empty()) return {};
  const auto range = [&](const auto& value) {
    const auto [low, high] =
        std::minmax_element(footprints.begin(), footprints.end(),
                            [&](const Footprint& a, const Footprint& b) { return value(a) < value(b); });
    return std::pair(value(*low), value(*high));
  };
  QStringList words, pools;
  for (const Footprint& f : footprints) {
    if (!f.pools.isEmpty() && !pools.contains(f.pools)) pools << f.pools;
  }
  if (!pools.isEmpty()) words << (pools.size() > 2 ? tr("%1 splits").arg(pools.size()) : pools.join(tr(" or ")));
  const auto gpus = range([](const Footprint& f) { return f.gpus; });
  if (gpus.second > 0) words << gpus_text(gpus.first, gpus.second);
  const QString names = machines_text(footprints);
  if (names.isEmpty()) return words.join(QStringLiteral(", "));
  if (machines) words << names;
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

namespace {

// Returns a part of a catalogue id as makers write it; nothing for a word that is no product's name.
std::optional<QString> maker_word(const QString& part) {
  static const QRegularExpression memory(QStringLiteral("^(\\d+)gb$"));
  static const QRegularExpression model(QStringLiteral("^[a-z]{1,3}\\d+[a-z]*$"));  // h100, mi300x, sxm2
  static const QRegularExpression version(QStringLiteral("^(v\\d[a-z]?|\\d+)$"));   // v5e, 4090
  static const QRegularExpression name(QStringLiteral("^[a-z]{4,}\\d+$"));          // gaudi2
  static const QStringList families{QStringLiteral("sxm"), QStringLiteral("nvl"), QStringLiteral("rtx"),
                                    QStringLiteral("tpu")};
  if (const auto size = memory.match(part); size.hasMatch()) return tr("%1 GB").arg(size.captured(1));
  if (part == QStringLiteral("pcie")) return QStringLiteral("PCIe");
  if (version.match(part).hasMatch()) return part;
  if (families.contains(part) || model.match(part).hasMatch()) return part.toUpper();
  if (name.match(part).hasMatch()) return part.left(1).toUpper() + part.mid(1);
  return {};
}

}  // namespace

QString accelerator_words(const std::string& id) {
  QStringList words;
  for (const QString& part : qs(id).split(QChar(u'-'))) {
    const std::optional<QString> word = maker_word(part);
    if (!word) return qs(id);  // the user's own accelerator has the name that the user gave it
    words << *word;
  }
  return words.join(QChar(u' '));
}

namespace {

QString hardware_text(const study::Hardware& hardware) {
  if (hardware.this_machine) return tr("this machine");
  if (!hardware.accelerator) return qs(hardware.label);
  const QString words = QStringLiteral("%1 × %2").arg(hardware.count).arg(accelerator_words(hardware.accelerator->id));
  // Without an instance, the label only repeats the accelerator.
  const bool instance = !qs(hardware.label).startsWith(qs(hardware.accelerator->id));
  return instance ? QStringLiteral("%1, %2").arg(words, qs(hardware.label)) : words;
}

}  // namespace

Setup setup_of(const study::PointSpec& spec) {
  Setup out;
  out.model = qs(spec.model_stated.empty() ? spec.model_name : spec.model_stated);
  if (spec.shape) out.model = tr("%1, %2").arg(out.model, qs(model::name(spec.weight_dtype)));
  out.hardware = hardware_text(spec.hardware);
  if (spec.prefill && spec.prefill->hardware.label != spec.hardware.label)
    out.hardware = tr("prefill %1; decode %2").arg(hardware_text(spec.prefill->hardware), out.hardware);
  out.engine = qs(spec.engine ? spec.engine->id : spec.engine_name);
  return out;
}

}  // namespace plimsoll::gui
