// SPDX-License-Identifier: GPL-3.0-or-later
// What a scenario runs on, in words: model, hardware, engine, and the machines that its deployment occupies.
#pragma once

#include <QString>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll::gui {

/// The machines of a deployment. Whole instances are paid for.
struct Footprint {
  QString instance;       // "p5.48xlarge"
  std::int64_t gpus = 0;  // in use by the replicas; 0: not GPUs, or a deployment that is impossible
  std::int64_t paid = 0;  // of the instances
  std::int32_t instances = 1;
  std::optional<double> usd_per_hour;  // of all instances
  std::int64_t replicas = 1;
  std::int64_t fitting_replicas = 1;  // as many as the instances hold
  bool impossible = false;            // no instance holds it, so it has neither GPUs nor a price
  QString pools = {};                 // "prefill 2 × TP 2 + decode 2 × TP 4"; empty: one pool
  [[nodiscard]] std::int64_t idle() const { return paid - gpus; }
  [[nodiscard]] std::int64_t gpus_per_replica() const { return gpus / std::max<std::int64_t>(1, replicas); }
};
[[nodiscard]] Footprint footprint_of(const study::PointResult& point);
/// The same, with the TP degrees of pools. `point` may be impossible.
[[nodiscard]] Footprint footprint_of(const study::ResolvedPoint& point);
/// Returns "24 GPUs, 3 × p4d.24xlarge, 113 USD/h, 0 idle".
[[nodiscard]] QString footprint_text(const Footprint& footprint);
/// Returns the footprints of several curves as one text: equal ones as such, others as their range. Impossible ones are
/// left out. `machines` says whether to name the instances.
[[nodiscard]] QString footprint_range(const std::vector<Footprint>& footprints, bool machines = true);

/// The parts of a study that identify what is simulated.
struct Setup {
  QString model;     // "llama-3.1-70b, fp8"
  QString hardware;  // "8 × H100 SXM, p5.48xlarge"
  QString engine;    // "vllm-0.12"
};
[[nodiscard]] Setup setup_of(const study::PointSpec& spec);
/// Returns a catalogue id as readers know the product: "a100-sxm-40gb" as "A100 SXM 40 GB". Leaves other names alone.
[[nodiscard]] QString accelerator_words(const std::string& id);

}  // namespace plimsoll::gui
