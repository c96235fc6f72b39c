// SPDX-License-Identifier: Apache-2.0
// Writes the machine file and the report of a calibration.
#include <fmt/format.h>

#include <array>

#include "calibration/machine_calibration.h"
#include "configs/this_machine.h"

namespace plimsoll::calibration {

namespace {

constexpr std::array<const char*, model::kOpClasses> kClassKeys = {"gemm", "moe_gemm", "prefill_attention",
                                                                   "decode_attention", "pointwise"};

std::string numbers(const std::vector<double>& values, const char* form) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + fmt::format(fmt::runtime(form), value);
  return "[" + text + "]";
}

std::string coefficients_yaml(const model::OpCoefficients& c, const std::string& pad) {
  std::string text = fmt::format("{{compute: {:.6g}, memory: {:.6g}, p: {:.4g}, t0: {:.6g} us", c.compute_efficiency,
                                 c.memory_efficiency, c.p, c.t0.count() * 1e6);
  if (!c.residual) return text + "}\n";
  return text + fmt::format(", residual: {{\n{}  x: {},\n{}  y: {},\n{}  log_ratio: {}}}}}\n", pad,
                            numbers(c.residual->x, "{:.6f}"), pad, numbers(c.residual->y, "{:.6f}"), pad,
                            numbers(c.residual->log_ratio, "{:.4f}"));
}

std::string accelerator_yaml(const model::Accelerator& a, const std::string& pad, bool calibrated) {
  std::string text = fmt::format("{0}fp32: {1:.6g} GFLOP/s\n{0}fp16: {1:.6g} GFLOP/s\n{0}bf16: {1:.6g} GFLOP/s\n", pad,
                                 a.fp32.value / 1e9);
  text += fmt::format("{0}memory: {1:.0f} B\n{0}memory_bandwidth: {2:.6g} GB/s\n", pad, a.memory.value,
                      a.memory_bandwidth.value / 1e9);
  text += pad + "efficiency:\n";
  for (std::size_t i = 0; i < model::kOpClasses; ++i)
    text += fmt::format("{}  {}: {}", pad, kClassKeys[i], coefficients_yaml(a.coefficients[i], pad + "  "));
  if (!a.pointwise_kinds.empty()) text += pad + "  pointwise_kinds:\n";
  for (const auto& [kind, c] : a.pointwise_kinds)
    text += fmt::format("{}    {}: {}", pad, kind, coefficients_yaml(c, pad + "    "));
  text +=
      fmt::format("{0}  kernel_gap: {1:.3g} us\n{0}  source: \"{2}\"\n", pad, a.kernel_gap.count() * 1e6, a.fit_source);
  return text + fmt::format("{0}calibrated: {2}\n{0}source: \"{1}\"\n", pad, a.source, calibrated);
}

std::string interconnect_yaml(const model::Interconnect& link, const std::string& pad) {
  std::string text = fmt::format("{0}kind: none\n{0}unidirectional: 0 GB/s\n", pad);
  if (!link.all_reduce.empty()) text += pad + "all_reduce:\n";
  for (const model::AllReduceCurve& curve : link.all_reduce) {
    text += fmt::format("{0}- ranks: {1}\n{0}  segments:\n", pad, curve.ranks);
    for (const model::AllReduceSegment& s : curve.segments)
      text += fmt::format("{}  - {{latency: {:.4g} us, bandwidth: {:.6g} GB/s}}\n", pad, s.latency.count() * 1e6,
                          s.bandwidth.value / 1e9);
  }
  return text + fmt::format("{}source: \"{}\"\n", pad, link.source);
}

std::string engine_yaml(const model::EngineProfile& e) {
  return fmt::format(
      "engine:\n  host: {{step: {:.4g} us, sequence: {:.4g} us, token: {:.4g} us, prefill: {:.4g} us, overlap: none}}\n"
      "  memory: {{fraction: {:g}, overhead: {:.0f} B, activation_factor: {:g}}}\n"
      "  calibrated: true\n  calibrated_on: \"{}\"\n",
      e.host_step.count() * 1e6, e.host_sequence.count() * 1e6, e.host_token.count() * 1e6,
      e.host_prefill.count() * 1e6, e.memory_fraction, e.overhead.value, e.activation_factor, e.calibrated_on);
}

constexpr double kQuietSpread = 0.1;

std::string percent(double value) { return fmt::format("{:.1f} %", 100 * value); }

// Returns "1 row x 1.04, 6 x 1.07".
std::string live_text(const ShareCalibration& share) {
  std::string text;
  for (const auto& [rows, factor] : share.live_rows)
    text += fmt::format("{}{:g}{} x {:.2f}", text.empty() ? "" : ", ", rows, text.empty() ? " rows" : "", factor);
  return text;
}

// Returns a line for each product that was tuned: how near its limit it is, and with which choice.
std::string kernels_text(const exec::TunedMachine& kernels) {
  std::string text = fmt::format("\nkernels: read {:.1f} GB/s, multiply-add {:.0f} GFLOP/s",
                                 kernels.read_bandwidth / 1e9, kernels.multiply_add / 1e9);
  if (kernels.tuning.threads > 0) text += fmt::format(", {} threads", kernels.tuning.threads);
  text += "\n";
  if (kernels.parts_gain > 1)
    text += fmt::format("  decode attention: {} parts a thread, x {:.2f} faster than by default\n",
                        kernels.tuning.decode_parts, kernels.parts_gain);
  for (const exec::TunedProduct& p : kernels.products) {
    text += fmt::format("  {:<22} {:.2f} of {:<17}", p.name, p.fraction, p.reads ? "reading" : "the multiply-adds");
    text += p.reads ? fmt::format(" {} bytes ahead", p.chosen.ahead)
                    : fmt::format(" {} tiles, {} deep", p.chosen.tiles, p.chosen.depth);
    text += fmt::format("{}, x {:.2f} faster than by default\n", p.chosen.far ? ", into the second cache" : "", p.gain);
  }
  return text;
}

}  // namespace

std::string machine_yaml(const MachineCalibration& c) {
  std::string text = fmt::format(
      "# SPDX-License-Identifier: Apache-2.0\n# Measured on this machine; `hardware: this-machine` reads it. Another "
      "run replaces it.\n"
      "plimsoll_calibration: {}\nfingerprint: {}\nmachine: \"{}\"\ncores: {}\ndevice: {}\ndate: \"{}\"\ncommand: "
      "\"{}\"\n",
      configs::kMachineFileVersion, configs::machine_fingerprint(), c.description, c.cores, c.device, c.date,
      c.command);
  if (c.rates.read_bandwidth > 0)
    text += fmt::format("probes: {{read_bandwidth: {:.5g} GB/s, multiply_add: {:.5g} GFLOP/s, spread: {:.3f}}}\n",
                        c.rates.read_bandwidth / 1e9, c.rates.multiply_add / 1e9, c.rates_spread);
  if (c.kernels) text += "kernels:\n" + configs::tuning_yaml(c.kernels->tuning, "  ");
  text += "shares:\n";
  const bool quiet = c.rates_spread <= kQuietSpread;
  for (const ShareCalibration& share : c.shares) {
    model::Accelerator a = share.accelerator;
    if (!quiet)
      a.fit_source += fmt::format(", on a machine that was not quiet: one probe in five differs by more than {:.0f} %",
                                  100 * c.rates_spread);
    text += fmt::format("- ranks: {}\n  dtype: {}\n  accelerator:\n{}", share.ranks, model::name(share.dtype),
                        accelerator_yaml(a, "    ", quiet));
    text += "  interconnect:\n" + interconnect_yaml(share.interconnect, "    ");
  }
  text += engine_yaml(c.engine) + "fit:\n";
  for (const ShareCalibration& share : c.shares)
    text += fmt::format(
        "- {{ranks: {}, dtype: {}, held_out_forwards: {}, mean_error: {:.4f}, p90_error: {:.4f}, bias: {:.4f}}}\n",
        share.ranks, model::name(share.dtype), share.held_out.count, share.held_out.mean, share.held_out.p90,
        share.held_out.bias);
  return text;
}

std::string machine_report(const MachineCalibration& c) {
  std::string text = fmt::format("{}: {} in {:.0f} s\n", c.description, fmt::join(c.models, ", "), c.seconds);
  if (c.kernels) text += kernels_text(*c.kernels);
  for (const ShareCalibration& share : c.shares) {
    text += fmt::format("\n{}, {} rank{} at once: read {:.1f} GB/s, multiply-add {:.0f} GFLOP/s\n",
                        model::name(share.dtype), share.ranks, share.ranks > 1 ? "s" : "", share.read_bandwidth / 1e9,
                        share.multiply_add / 1e9);
    text += fmt::format("  {:<18} {:>6} {:>9} {:>9} {:>6} {:>9} {:>10} {:>7}\n", "op", "shapes", "compute", "memory",
                        "p", "t0", "p-norm", "table");
    for (const ClassFit& f : share.fits) {
      const model::OpCoefficients& k = f.fit.coefficients;
      text += fmt::format("  {:<18} {:>6} {:>9.3f} {:>9.3f} {:>6.2f} {:>6.1f} us {:>10} {:>7}\n", f.name, f.fit.samples,
                          k.compute_efficiency, k.memory_efficiency, k.p, k.t0.count() * 1e6,
                          percent(f.fit.roofline_error), percent(f.fit.fit_error));
    }
    if (!share.live_rows.empty()) text += "  a step takes longer in live runs than its ops: " + live_text(share) + "\n";
    text += fmt::format("  {} whole forwards that were not fitted{}: error mean {}, median {}, p90 {}, bias {}\n",
                        share.held_out.count, share.live_rows.empty() ? "" : ", by the tables before that factor",
                        percent(share.held_out.mean), percent(share.held_out.median), percent(share.held_out.p90),
                        percent(share.held_out.bias));
  }
  if (c.rates_spread > kQuietSpread)
    text += fmt::format(
        "\nnot quiet: one probe in five between the measurements differs by more than {:.0f} %; calibrate again when "
        "nothing else runs\n",
        100 * c.rates_spread);
  return text + fmt::format("\nhost: {:.1f} us a step, {:.2f} us a sequence, {:.3f} us a token\n",
                            c.engine.host_step.count() * 1e6, c.engine.host_sequence.count() * 1e6,
                            c.engine.host_token.count() * 1e6);
}

}  // namespace plimsoll::calibration
