// SPDX-License-Identifier: Apache-2.0
#include "calibration/kernel_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>

#include "model/kernel_file.h"
#include "study/file/cell.h"
#include "study/output/table_view.h"

namespace plimsoll::calibration {
namespace {

using model::KernelKey;
using model::KernelOp;

// The accelerator of a device, and its link.
struct Device {
  std::shared_ptr<const model::Accelerator> accelerator;
  std::shared_ptr<const model::Interconnect> link;
};

class Comparer {
 public:
  Comparer(const configs::Catalogue& catalogue, KernelReport& report) : catalogue_(catalogue), report_(report) {}

  void add(const KernelRows& rows) {
    file_ = report_.files.size();
    report_.files.push_back(rows.file);
    for (const auto& [what, count] : rows.not_modelled) report_.not_predicted[what] += count;
    for (const KernelMeasurement& row : rows.kernels) add_kernel(row, rows.file);
    for (const AllReduceMeasurement& row : rows.all_reduces) add_all_reduce(row, rows.file);
  }

 private:
  // Looks each device up only once, because a table has thousands of rows for the same device.
  const Device& device(const std::string& name, const std::string& file, std::size_t line) {
    Device& found = devices_[name];
    if (!found.accelerator) {
      const Where where{file, line, 0};
      found.accelerator = catalogue_.accelerator(name, where);
      found.link = catalogue_.link(*found.accelerator, "", where);
    }
    return found;
  }

  // Returns the table of the row's own kernel, else the closest one of the same op and type.
  static const model::MeasuredKernel* table_for(const model::KernelFile& file, const KernelMeasurement& row) {
    for (std::size_t i = 0; i < file.entries().size(); ++i) {
      const model::KernelFile::Entry& e = file.entries()[i];
      if (e.op == row.op && e.dtype == row.dtype && e.kv_dtype == row.kv_dtype && e.kernel == row.kernel)
        return &file.kernel(i);
    }
    return file.find(row.op, row.dtype, row.kv_dtype, row.key);
  }

  static double time_of(const model::MeasuredKernel& kernel, const model::Accelerator& a, const KernelKey& key,
                        double column) {
    const model::KernelTable& table = kernel.table();
    const model::KernelWork work = model::kernel_work(table, key, column);
    const double roofline = model::kernel_roofline(
        table.op, table.coefficients, {{model::kernel_peak(a, table.dtype), a.memory_bandwidth}, table.cache}, work);
    return roofline * std::exp(model::log_ratio_at(table, *kernel.row(key), column));
  }

  void add_kernel(const KernelMeasurement& row, const std::string& file) {
    const model::Accelerator& a = *device(row.device, file, row.line).accelerator;
    const model::MeasuredKernel* kernel = a.kernels ? table_for(*a.kernels, row) : nullptr;
    if (kernel == nullptr) {
      const bool attention = !row.kv_dtype.empty();
      ++report_.not_predicted[fmt::format("{} {}{}{} on {}: no measured kernels", model::name(row.op), row.dtype,
                                          attention ? "/" : "", row.kv_dtype, a.id)];
      return;
    }
    const model::KernelTable& table = kernel->table();
    const auto ratios = kernel->row(row.key);
    KernelComparison c{
        .accelerator = a.id, .op = std::string(model::name(row.op)), .dtype = row.dtype, .kernel = row.kernel};
    if (!row.kv_dtype.empty()) c.dtype += "/" + row.kv_dtype;
    c.measured = row.seconds;
    const double last = row.past + row.column;
    c.predicted = time_of(*kernel, a, row.key, last);
    // The table has no measurements of chunks. A chunk's time is the difference of the prefills with and without it.
    if (row.past > 0) {
      c.derived = true;
      c.predicted =
          model::chunk_time(table.coefficients.t0.count(), c.predicted, time_of(*kernel, a, row.key, row.past));
    }
    // Count a row as seen if it was fitted: the same shape, kernel and kind of measurement.
    c.seen = ratios->measured && table.kernel == row.kernel && row.past == 0;
    c.outside =
        ratios->outside || last > table.columns.back() || last < table.columns.front() || table.kernel != row.kernel;
    c.file = file_;
    c.line = row.line;
    report_.rows.push_back(std::move(c));
  }

  void add_all_reduce(const AllReduceMeasurement& row, const std::string& file) {
    const Device& d = device(row.device, file, row.line);
    const auto ranks = static_cast<std::int32_t>(row.ranks);
    const std::string typed = all_reduce_name(row.kernel, row.dtype);
    const auto has = [&](auto&& is) {
      return d.link && std::any_of(d.link->all_reduce.begin(), d.link->all_reduce.end(), is);
    };
    // A type without its own curve is compared with the 16-bit curve.
    const bool own_type = has([&](const model::AllReduceCurve& c) { return c.kernel == typed; });
    const std::string& wanted = own_type ? typed : row.kernel;
    const auto is_own = [&](const model::AllReduceCurve& c) {
      return c.kernel == wanted || (wanted == "NCCL" && model::is_nccl(c));
    };
    if (!has(is_own)) {
      ++report_.not_predicted[fmt::format("all_reduce {} on {}: not measured", row.kernel, d.accelerator->id)];
      return;
    }
    KernelComparison c{.accelerator = d.accelerator->id, .op = "all_reduce", .dtype = row.dtype, .kernel = row.kernel};
    c.measured = row.seconds;
    c.predicted = model::all_reduce_time(*d.link, Bytes(row.bytes), ranks,
                                         wanted == "NCCL" ? std::string_view() : std::string_view(wanted))
                      .count();
    // Assume that the row is outside until a curve for exactly these ranks covers the size.
    c.outside = true;
    for (const model::AllReduceCurve& curve : d.link->all_reduce) {
      if (!is_own(curve) || curve.ranks != ranks || curve.points.empty()) continue;
      c.outside = row.bytes < curve.points.front().bytes.value || row.bytes > curve.points.back().bytes.value;
      c.seen = std::any_of(curve.points.begin(), curve.points.end(),
                           [&](const auto& p) { return p.bytes.value == row.bytes; });
    }
    c.file = file_;
    c.line = row.line;
    report_.rows.push_back(std::move(c));
  }

  const configs::Catalogue& catalogue_;
  KernelReport& report_;
  std::map<std::string, Device> devices_;
  std::size_t file_ = 0;
};

double error_of(const KernelComparison& c) { return c.predicted / c.measured - 1; }

std::string per_cent(double value) { return fmt::format("{:.1f} %", 100 * value); }

const std::vector<std::string>& summary_columns() {
  static const std::vector<std::string> kColumns = {
      "accelerator", "op",   "dtype",  "kernel_source", "n",    "unseen",     "extrapolates",
      "derived",     "mean", "median", "p90",           "bias", "unseen_mean"};
  return kColumns;
}

std::vector<study::Cell> summary_cells(const KernelSummary& s) {
  const auto whole = [](std::size_t n) { return study::Cell(static_cast<std::int64_t>(n)); };
  return {s.accelerator,
          s.op,
          s.dtype,
          s.kernel,
          whole(s.errors.count),
          whole(s.unseen),
          whole(s.outside),
          whole(s.derived),
          s.errors.mean,
          s.errors.median,
          s.errors.p90,
          s.errors.bias,
          s.unseen > 0 ? study::Cell(s.unseen_mean) : study::Cell(std::monostate{})};
}

}  // namespace

KernelReport compare_kernels(const std::vector<KernelRows>& files, const configs::Catalogue& catalogue) {
  KernelReport report;
  Comparer comparer(catalogue, report);
  for (const KernelRows& file : files) comparer.add(file);
  return report;
}

// Averages the errors of unseen shapes separately, because the fit used all others.
std::vector<KernelSummary> summarise(const KernelReport& report) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::vector<const KernelComparison*>> groups;
  for (const KernelComparison& c : report.rows) groups[{c.accelerator, c.op, c.dtype, c.kernel}].push_back(&c);
  std::vector<KernelSummary> out;
  for (const auto& [name, rows] : groups) {
    KernelSummary s{.accelerator = std::get<0>(name),
                    .op = std::get<1>(name),
                    .dtype = std::get<2>(name),
                    .kernel = std::get<3>(name),
                    .errors = {}};
    std::vector<double> errors;
    for (const KernelComparison* c : rows) {
      errors.push_back(error_of(*c));
      s.outside += c->outside ? 1 : 0;
      s.derived += c->derived ? 1 : 0;
      if (c->seen) continue;
      ++s.unseen;
      s.unseen_mean += std::abs(errors.back());
    }
    if (s.unseen > 0) s.unseen_mean /= static_cast<double>(s.unseen);
    s.errors = validation::summarise_errors(std::move(errors));
    out.push_back(std::move(s));
  }
  return out;
}

std::string kernel_report_text(const KernelReport& report) {
  study::TextTable table{.header = {{"accelerator", "op", "type", "kernel", "n", "unseen", "extrapolates", "mean",
                                     "median", "p90", "bias", "unseen mean"}},
                         .rows = {},
                         .left = 4};
  std::size_t derived = 0;
  for (const KernelSummary& s : summarise(report)) {
    derived += s.derived;
    table.rows.push_back({s.accelerator, s.op, s.dtype, s.kernel, fmt::format("{}", s.errors.count),
                          fmt::format("{}", s.unseen), fmt::format("{}", s.outside), per_cent(s.errors.mean),
                          per_cent(s.errors.median), per_cent(s.errors.p90), per_cent(s.errors.bias),
                          s.unseen > 0 ? per_cent(s.unseen_mean) : ""});
  }
  std::string text = study::text_table(table);
  text += "unseen: shapes that are not in the fit; extrapolates: beyond the fitted shapes, rows or contexts\n";
  if (derived > 0)
    text += fmt::format("derived: {} rows of later chunks are differences of two whole prefills\n", derived);
  for (const auto& [what, count] : report.not_predicted)
    text += fmt::format("not predicted: {} ({} rows)\n", what, count);
  return text;
}

std::string kernel_report_csv(const KernelReport& report) {
  std::string text = study::csv_header(summary_columns());
  for (const KernelSummary& s : summarise(report)) text += study::csv_line(summary_cells(s));
  return text;
}

std::string kernel_report_json(const KernelReport& report) {
  std::string text = "[";
  for (const KernelSummary& s : summarise(report)) {
    const std::vector<study::Cell> cells = summary_cells(s);
    text += text.size() > 1 ? ",\n {" : "\n {";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += fmt::format("{}{}: {}", i > 0 ? ", " : "", study::json_quoted(summary_columns()[i]),
                          study::json_text(cells[i]));
    }
    text += "}";
  }
  return text + "\n]\n";
}

std::string kernel_rows_csv(const KernelReport& report) {
  std::string text =
      "file,line,accelerator,op,dtype,kernel_source,predicted_ms,measured_ms,relative_error,unseen,extrapolates,"
      "derived\n";
  for (const KernelComparison& c : report.rows) {
    text +=
        study::csv_line({report.files[c.file], static_cast<std::int64_t>(c.line), c.accelerator, c.op, c.dtype,
                         c.kernel, c.predicted * 1e3, c.measured * 1e3, error_of(c), !c.seen, c.outside, c.derived});
  }
  return text;
}

}  // namespace plimsoll::calibration
