// SPDX-License-Identifier: Apache-2.0
#include "study/output/metrics_record.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <map>
#include <sstream>
#include <type_traits>

#include "model/error.h"

namespace plimsoll::study {
namespace {

constexpr std::string_view kFleetLine = "fleet over time:";

using sched::PointMetrics;
using Quantiles = PointMetrics::Quantiles;

// A field added to these structures but not to the list below would be lost in the store.
static_assert(sizeof(PointMetrics) == 1240 && sizeof(Quantiles) == 80, "name the new field below");

template <class Archive, class Metrics>
void all_fields(Archive& archive, Metrics& m) {
  archive(m.input_tokens_mean, m.output_tokens_mean, m.requests_completed, m.requests_rejected, m.requests_timed_out,
          m.rejections, m.preemptions, m.duration_s, m.requests_per_s, m.output_tokens_per_s, m.total_tokens_per_s);
  for (auto* q : {&m.latency, &m.ttft, &m.tpot, &m.itl, &m.latency_per_token})
    archive(q->mean, q->p50, q->p90, q->p95, q->p99);
  archive(m.batch_mean, m.kv_used_mean, m.kv_used_peak, m.kv_wasted_mean, m.slo_attainment, m.slo_values,
          m.latency_mean_ci95_s, m.output_tokens_per_s_ci95, m.in_system_mean, m.queue_mean, m.kv_internal_mean,
          m.kv_reserved_unused_mean, m.kv_external_mean, m.kv_last_block_mean);
  archive(m.time_weights_s, m.time_kv_s, m.time_compute_s, m.time_allreduce_s, m.time_host_s, m.time_queue_s,
          m.time_preempt_s, m.time_other_s, m.replica_s, m.instance_s, m.replica_starts, m.replica_failures,
          m.ttft_first_wave_mean, m.ttft_steady_mean, m.ttft_steady_p99, m.latency_steady_mean);
  archive(m.steady.verdict, m.steady.grows, m.steady.reason, m.steady.requests_needed);
  for (auto* band : {&m.latency_mean_band, &m.ttft_mean_band, &m.tpot_mean_band, &m.latency_per_token_p90_band,
                     &m.output_tokens_per_s_band})
    archive(band->low, band->high);
  // Only points with two pools have more.
  if constexpr (std::is_const_v<Metrics>) {
    if (!m.pools) return;
  } else {
    if (archive.rest.empty()) return;
    m.pools.emplace();
  }
  auto& p = *m.pools;
  archive(p.transfer_mean, p.transfer_p99, p.staging_blocks_peak, p.local_prefill_share, p.time_queue_prefill,
          p.time_prefill, p.time_transfer, p.time_queue_decode, p.time_decode, p.prefill_busy, p.decode_busy,
          p.prefill_instance_s);
}

struct Writer {
  std::string text;
  template <class... Ts>
  void operator()(const Ts&... values) {
    (put(values), ...);
  }

 private:
  void put(double value) { fmt::format_to(std::back_inserter(text), "{},", value); }
  void put(std::int64_t value) { fmt::format_to(std::back_inserter(text), "{},", value); }
  void put(sched::Steadiness value) { put(static_cast<std::int64_t>(value)); }
  void put(const std::string& value) { fmt::format_to(std::back_inserter(text), "{},{},", value.size(), value); }
  void put(bool value) { text += value ? "1," : "0,"; }
  void put(const std::vector<double>& values) {
    put(static_cast<std::int64_t>(values.size()));
    for (const double value : values) put(value);
  }
  void put(const std::map<std::string, std::int64_t>& counts) {
    put(static_cast<std::int64_t>(counts.size()));
    for (const auto& [name, count] : counts) fmt::format_to(std::back_inserter(text), "{},{},", name, count);
  }
  void put(const std::optional<double>& value) { value ? put(*value) : text.push_back(','); }
};

struct Reader {
  std::string_view rest;
  template <class... Ts>
  void operator()(Ts&... values) {
    (take(values), ...);
  }

 private:
  std::string_view word() {
    const std::size_t comma = rest.find(',');
    if (comma == std::string_view::npos) refuse();
    const std::string_view text = rest.substr(0, comma);
    rest.remove_prefix(comma + 1);
    return text;
  }
  template <class T>
  static T number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse();
    return value;
  }
  void take(double& value) { value = number<double>(word()); }
  void take(std::int64_t& value) { value = number<std::int64_t>(word()); }
  void take(sched::Steadiness& value) { value = static_cast<sched::Steadiness>(number<std::uint8_t>(word())); }
  void take(std::string& value) {  // the text may contain commas
    const auto size = number<std::size_t>(word());
    if (rest.size() <= size) refuse();
    value = rest.substr(0, size);
    rest.remove_prefix(size + 1);
  }
  void take(bool& value) { value = number<int>(word()) != 0; }
  void take(std::vector<double>& values) {
    const auto count = number<std::uint16_t>(word());
    values.resize(count);
    for (double& value : values) take(value);
  }
  void take(std::map<std::string, std::int64_t>& counts) {
    const auto size = number<std::uint16_t>(word());
    for (std::uint16_t i = 0; i < size; ++i) {
      const std::string_view name = word();
      take(counts[std::string(name)]);
    }
  }
  void take(std::optional<double>& value) {
    const std::string_view text = word();
    if (!text.empty()) value = number<double>(text);
  }
  [[noreturn]] static void refuse() { throw DeviceError("a stored result cannot be read"); }
};

}  // namespace

std::string metrics_record(const PointMetrics& metrics) {
  Writer writer;
  all_fields(writer, metrics);
  return std::move(writer.text);
}

PointMetrics read_metrics_record(std::string_view text) {
  PointMetrics metrics;
  Reader reader{text};
  all_fields(reader, metrics);
  if (!reader.rest.empty()) throw DeviceError("a stored result cannot be read");
  return metrics;
}

std::string fleet_record(const std::vector<sched::FleetRow>& fleet) {
  std::string text(kFleetLine);
  for (const sched::FleetRow& row : fleet)
    text +=
        fmt::format(" {} {} {} {} {} {}", row.time, row.starting, row.serving, row.draining, row.failed, row.instances);
  return text;
}

std::optional<std::vector<sched::FleetRow>> read_fleet_record(std::string_view line) {
  if (!line.starts_with(kFleetLine)) return {};
  std::istringstream text{std::string(line.substr(kFleetLine.size()))};
  std::vector<sched::FleetRow> fleet;
  for (sched::FleetRow row;
       text >> row.time >> row.starting >> row.serving >> row.draining >> row.failed >> row.instances;)
    fleet.push_back(row);
  return fleet;
}

}  // namespace plimsoll::study
