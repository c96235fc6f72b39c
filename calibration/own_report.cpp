// SPDX-License-Identifier: Apache-2.0
// The report of a fit to a user's own runs.
#include <fmt/format.h>

#include <algorithm>

#include "calibration/own_fit.h"
#include "configs/catalogue.h"
#include "study/file/cell.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {

std::vector<const validation::Comparison*> figures_of(const ServingFit& fit, const std::string& metric, bool fitted) {
  std::vector<const validation::Comparison*> group;
  for (std::size_t i = 0; i < fit.comparisons.size(); ++i) {
    const validation::Comparison& c = fit.comparisons[i];
    const bool counts = metric != "ttft_mean_s" || !fit.beyond_pool.contains(c.point);
    if (c.metric == metric && fit.fitted[i] == fitted && counts) group.push_back(&c);
  }
  return group;
}

std::string own_report(const OwnFit& fit) {
  std::string text = "fitted values (start):\n";
  std::size_t width = 44;  // a long name of the profile makes the column wider
  for (const ServingNumber& n : fit.model.numbers) width = std::max(width, n.file.size() + 1 + n.path.size());
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const ServingNumber& n = fit.model.numbers[i];
    text += fmt::format("  {:<{}} {:>9.4g} {:<8} ({:.4g})\n", n.file + " " + n.path, width, fit.fit.values[i], n.unit,
                        n.number.prior);
  }
  text += fmt::format("\n{:<20} {:>22} {:>22}\n{:<20} {:>22} {:>22}\n", "absolute errors", "in the fit", "never fitted",
                      "", "median    90 %   of", "median    90 %   of");
  for (const auto& [metric, scale] : fit.model.scales) {
    std::string cells;
    for (const bool fitted : {true, false}) {
      const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, fitted));
      cells += s.count == 0 ? fmt::format(" {:>22}", "-")
                            : fmt::format(" {:>8.1f} % {:>5.1f} % {:>4}", 100 * s.median, 100 * s.p90, s.count);
    }
    if (cells.find('%') != std::string::npos) text += fmt::format("{:<20}{}\n", metric, cells);
  }
  return text + fmt::format(
                    "90 % bands hold {:.0f} % of the figures, each predicted by a fit without its quarter of the "
                    "runs\n",
                    100 * coverage_of(fit.left_out.comparisons));
}

std::string own_fit_members(const OwnFit& fit) {
  const auto number = [](double value) { return study::json_text(study::number_cell(value)); };
  std::string values, errors, figures;
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const ServingNumber& n = fit.model.numbers[i];
    values += fmt::format("{}{{\"name\":{},\"value\":{},\"unit\":{},\"start\":{}}}", values.empty() ? "" : ",",
                          study::json_quoted(n.file + " " + n.path), number(fit.fit.values[i]),
                          study::json_quoted(n.unit), number(n.number.prior));
  }
  for (const auto& [metric, scale] : fit.model.scales) {
    for (const bool fitted : {true, false}) {
      const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, fitted));
      if (s.count == 0) continue;
      errors += fmt::format("{}{{\"metric\":{},\"fitted\":{},\"median\":{},\"p90\":{},\"count\":{}}}",
                            errors.empty() ? "" : ",", study::json_quoted(metric), fitted, number(s.median),
                            number(s.p90), s.count);
    }
  }
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i) {
    const validation::Comparison& c = fit.fit.comparisons[i];
    if (!c.predicted) continue;
    figures +=
        fmt::format("{}{{\"metric\":{},\"fitted\":{},\"measured\":{},\"predicted\":{},\"run\":{}}}",
                    figures.empty() ? "" : ",", study::json_quoted(c.metric), fit.fit.fitted[i] ? "true" : "false",
                    number(c.measured), number(*c.predicted), study::json_quoted(run_name(*c.point)));
  }
  return fmt::format("\"accelerator\":{},\"values\":[{}],\"errors\":[{}],\"coverage\":{},\"figures\":[{}],\"text\":{}",
                     study::json_quoted(fit.accelerator), values, errors, number(coverage_of(fit.left_out.comparisons)),
                     figures, study::json_quoted(own_report(fit)));
}

}  // namespace plimsoll::calibration
