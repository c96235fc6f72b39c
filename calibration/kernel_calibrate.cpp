// SPDX-License-Identifier: Apache-2.0
#include "calibration/kernel_calibrate.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace plimsoll::calibration {
namespace {

using Rows = std::vector<const KernelMeasurement*>;
using TableName = std::tuple<model::KernelOp, std::string, std::string, std::string>;

// Rows by accelerator and table. The order does not depend on the order of the files.
struct Sorted {
  std::map<std::string, std::map<TableName, Rows>> kernels;
  std::map<std::string, std::vector<const AllReduceMeasurement*>> all_reduces;
  std::map<std::string, std::set<std::string>> origins;
};

std::string origin_of(const std::string& framework, const std::string& version, const std::string& device) {
  std::string name = framework;  // case is ignored: "VLLM" and "vLLM" are the same
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return fmt::format("{} {} on {}", name, version, device);
}

Sorted sort_rows(const std::vector<KernelRows>& files, const configs::Catalogue& catalogue, int hold_out) {
  Sorted sorted;
  std::map<std::string, std::string> ids;
  const auto id_of = [&](const std::string& device, const std::string& file, std::size_t line) {
    std::string& id = ids[device];
    if (id.empty()) id = catalogue.accelerator(device, Where{file, line, 0})->id;
    return id;
  };
  for (const KernelRows& file : files) {
    for (const KernelMeasurement& row : file.kernels) {
      // A chunk on a cached past is not fitted: its time is derived as the difference of two prefills.
      if (row.past > 0 || is_held_out(row, hold_out)) continue;
      const std::string id = id_of(row.device, file.file, row.line);
      sorted.kernels[id][{row.op, row.dtype, row.kv_dtype, row.kernel}].push_back(&row);
      sorted.origins[id].insert(origin_of(row.framework, row.version, row.device));
    }
    for (const AllReduceMeasurement& row : file.all_reduces) {
      if (is_held_out(row, hold_out)) continue;
      const std::string id = id_of(row.device, file.file, row.line);
      sorted.all_reduces[id].push_back(&row);
      sorted.origins[id].insert(origin_of(row.framework, row.version, row.device));
    }
  }
  return sorted;
}

// Drops sizes whose time exceeds that of both neighbours by half: the measurement was disturbed. Interpolation fills
// the gap.
void drop_outliers(std::vector<model::AllReducePoint>& points) {
  constexpr double kFar = 1.5;
  for (std::size_t i = 1; i + 1 < points.size();) {
    const double least = std::max(points[i - 1].time.count(), points[i + 1].time.count());
    if (points[i].time.count() > kFar * least)
      points.erase(points.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

// Returns the curves by kernel and ranks. The curve of the 16-bit type has the kernel's plain name, because engines
// reduce in that type; other types append their name.
std::vector<model::AllReduceCurve> curves_of(const std::vector<const AllReduceMeasurement*>& rows) {
  std::map<std::string, std::set<std::string>> types;
  for (const AllReduceMeasurement* row : rows) types[row->kernel].insert(row->dtype);
  // Without a 16-bit type, the first type in alphabetical order gets the plain name.
  const auto curve_name = [&](const AllReduceMeasurement& row) {
    const std::set<std::string>& of_kernel = types[row.kernel];
    const auto wide = std::find_if(of_kernel.begin(), of_kernel.end(),
                                   [](const std::string& t) { return model::stored_bytes(t) == 2.0; });
    const bool first = row.dtype == (wide == of_kernel.end() ? *of_kernel.begin() : *wide);
    return first ? row.kernel : all_reduce_name(row.kernel, row.dtype);
  };
  std::map<std::pair<std::string, std::uint32_t>, std::map<double, std::pair<double, int>>> sums;
  for (const AllReduceMeasurement* row : rows) {
    auto& [sum, count] = sums[{curve_name(*row), row->ranks}][row->bytes];
    // Use the geometric mean, so that a disturbed repetition counts less.
    sum += std::log(row->seconds);
    ++count;
  }
  std::vector<model::AllReduceCurve> curves;
  for (const auto& [name, points] : sums) {
    model::AllReduceCurve curve{.ranks = static_cast<std::int32_t>(name.second), .kernel = name.first};
    for (const auto& [bytes, sum] : points)
      curve.points.push_back({Bytes(bytes), Seconds(std::exp(sum.first / sum.second))});
    drop_outliers(curve.points);
    curves.push_back(std::move(curve));
  }
  return curves;
}

struct Task {
  std::size_t accelerator, table;
  const Rows* rows;
};

std::string key_part_text(const model::KernelTable& table, const model::KernelKey& key) {
  std::string text;
  for (std::size_t part = 0; part + 1 < model::key_names(table.op).size(); ++part)
    text += fmt::format(",{}", key[part]);
  return text;
}

}  // namespace

bool is_held_out(const KernelMeasurement& row, int hold_out) {
  if (hold_out <= 0) return false;
  // A configuration is what LeaveOut::configuration defines: attention at any batch size, experts at any skew.
  model::KernelKey key = row.key;
  if (row.op == model::KernelOp::moe) key[4] = 0;
  if (row.op == model::KernelOp::prefill_attention || row.op == model::KernelOp::decode_attention) key[0] = 0;
  std::string bytes(model::name(row.op));
  for (const std::uint32_t part : key) bytes += fmt::format(",{}", part);
  // Hash the configuration itself: the choice is then the same for every file and order of rows.
  return model::crc32_of(bytes) % static_cast<std::uint32_t>(hold_out) == 0;
}

bool is_held_out(const AllReduceMeasurement& row, int hold_out) {
  if (hold_out <= 0) return false;
  return model::crc32_of(fmt::format("all_reduce,{},{},{:.0f}", row.kernel, row.ranks, row.bytes)) %
             static_cast<std::uint32_t>(hold_out) ==
         0;
}

std::vector<FittedAccelerator> fit_kernels(const std::vector<KernelRows>& files, const configs::Catalogue& catalogue,
                                           const CalibrateSettings& settings) {
  const Sorted sorted = sort_rows(files, catalogue, settings.hold_out);
  std::vector<FittedAccelerator> fitted;
  std::vector<Task> tasks;
  for (const auto& [id, origins] : sorted.origins) {
    FittedAccelerator one{.id = id,
                          .interconnect = {},
                          .head = {id, settings.source, settings.date},
                          .command = settings.command,
                          .tables = {},
                          .errors = {},
                          .all_reduce = {}};
    for (const std::string& origin : origins) one.head.source += (one.head.source.empty() ? "" : "; ") + origin;
    if (const auto found = sorted.all_reduces.find(id); found != sorted.all_reduces.end()) {
      one.interconnect = catalogue.accelerator(id)->default_interconnect;
      one.all_reduce = curves_of(found->second);
    }
    if (const auto found = sorted.kernels.find(id); found != sorted.kernels.end()) {
      for (const auto& [name, rows] : found->second) {
        tasks.push_back({fitted.size(), one.tables.size(), &rows});
        one.tables.emplace_back();
      }
    }
    one.errors.resize(one.tables.size());
    fitted.push_back(std::move(one));
  }
  // Each task writes its own table and errors, so the result does not depend on the order.
  std::atomic<std::size_t> done = 0;
  tbb::parallel_for(std::size_t{0}, tasks.size(), [&](std::size_t i) {
    const Task& task = tasks[i];
    FittedAccelerator& one = fitted[task.accelerator];
    one.tables[task.table] = fit_kernel_table(*task.rows, *catalogue.accelerator(one.id));
    one.errors[task.table] = left_out_errors(one.tables[task.table]);
    if (settings.progress) settings.progress(static_cast<double>(++done), tasks.size());
  });
  return fitted;
}

namespace {

// Leaves out each size up to 8 MiB that lies between two others. Returns the mean error of one kernel's all-reduces at
// these sizes, and their number.
std::pair<double, std::size_t> sizes_left_out(const std::vector<model::AllReduceCurve>& curves,
                                              const std::string& kernel) {
  constexpr double kMaxBytes = 8 << 20;
  double sum = 0;
  std::size_t count = 0;
  for (const model::AllReduceCurve& curve : curves) {
    if (curve.kernel != kernel) continue;
    for (std::size_t i = 1; i + 1 < curve.points.size() && curve.points[i].bytes.value <= kMaxBytes; ++i) {
      model::Interconnect link;
      link.all_reduce = {curve};
      link.all_reduce.front().kernel.clear();
      link.all_reduce.front().points.erase(link.all_reduce.front().points.begin() + static_cast<std::ptrdiff_t>(i));
      const model::AllReducePoint& point = curve.points[i];
      sum += std::abs(model::all_reduce_time(link, point.bytes, curve.ranks) / point.time - 1);
      ++count;
    }
  }
  return {count > 0 ? sum / static_cast<double>(count) : 0, count};
}

std::string all_reduce_text(const FittedAccelerator& one) {
  std::string text = fmt::format("  all-reduce: {} curves of {}\n", one.all_reduce.size(), one.interconnect);
  std::set<std::string> kernels;
  for (const model::AllReduceCurve& curve : one.all_reduce) kernels.insert(curve.kernel);
  for (const std::string& kernel : kernels) {
    const auto [error, count] = sizes_left_out(one.all_reduce, kernel);
    if (count > 0)
      text += fmt::format("  all-reduce {}: size up to 8 MiB left out {:.1f} % ({})\n", kernel, 100 * error, count);
  }
  return text;
}

}  // namespace

std::string fit_text(const std::vector<FittedAccelerator>& fitted) {
  std::string text;
  for (const FittedAccelerator& one : fitted) {
    text += fmt::format("{}: {}\n", one.id, one.head.source);
    for (std::size_t i = 0; i < one.tables.size(); ++i) {
      const model::KernelTable& t = one.tables[i];
      const LeftOutErrors& e = one.errors[i];
      text += fmt::format(
          "  {} {}{}{} {}: {} points, roofline {:.1f} %, in fit {:.2f} %, configuration left out {:.1f} %, column left "
          "out {:.1f} %",
          model::name(t.op), t.dtype, t.kv_dtype.empty() ? "" : "/", t.kv_dtype, t.kernel, t.points,
          100 * t.roofline_error, 100 * t.in_fit, 100 * t.out_of_fit, 100 * e.column);
      if (t.op == model::KernelOp::moe) text += fmt::format(", shape left out {:.1f} %", 100 * e.shape);
      if (t.replaced > 0) text += fmt::format(", {} outliers replaced", t.replaced);
      text += '\n';
    }
    if (!one.all_reduce.empty()) text += all_reduce_text(one);
  }
  return text;
}

std::string kernel_file_text(const model::KernelFile& file) {
  std::string text = fmt::format("# accelerator: {}\n# source: {}\n# date: {}\n", file.head().accelerator,
                                 file.head().source, file.head().date);
  for (std::size_t i = 0; i < file.entries().size(); ++i) {
    const model::KernelTable& t = file.kernel(i).table();
    const model::OpCoefficients& c = t.coefficients;
    text += fmt::format(
        "# table: {} {} {} {}\n# compute {}, memory {}, p {}, t0 {} s, cold memory {}, cache {} B {} times as fast\n# "
        "points {}, replaced {}, "
        "mean error of the roofline {}, in fit {}, out of fit {}\n# nugget {}, neighbours {}, knee {}, scales",
        model::name(t.op), t.dtype, t.kv_dtype, t.kernel, c.compute_efficiency, c.memory_efficiency, c.p, c.t0.count(),
        t.cold_efficiency, t.cache.bytes.value, t.cache.speedup, t.points, t.replaced, t.roofline_error, t.in_fit,
        t.out_of_fit, t.metric.nugget, t.metric.neighbours, t.metric.knee);
    const auto features = model::feature_names(t.op);
    for (std::size_t f = 0; f < features.size(); ++f)
      text += fmt::format(" {}: {}{}", features[f], t.metric.scale[f], f + 1 < features.size() ? "," : "\n");
    const auto names = model::key_names(t.op);
    text += "op,dtype,kv_dtype,kernel";
    for (const std::string_view name : names) text += fmt::format(",{}", name);
    text += ",log_ratio\n";
    const std::string prefix = fmt::format("{},{},{},{}", model::name(t.op), t.dtype, t.kv_dtype, t.kernel);
    for (std::size_t site = 0; site < t.sites.size(); ++site) {
      const std::string key = key_part_text(t, t.sites[site]);
      for (std::size_t column = 0; column < t.columns.size(); ++column) {
        if (std::isnan(t.at(site, column))) continue;
        text += fmt::format("{}{},{},{}\n", prefix, key, t.columns[column], t.at(site, column));
      }
    }
  }
  return text;
}

}  // namespace plimsoll::calibration
