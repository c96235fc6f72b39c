// SPDX-License-Identifier: Apache-2.0
// Runs the points of a study on a server given by --endpoint: its options, what is refused before a run, and the labels
// of the results (docs/endpoints.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cli/console.h"
#include "cli/options.h"
#include "endpoints/measure_endpoint.h"
#include "study/output/outputs.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

/// Adds --endpoint and the options of its connection.
void add_server_options(po::options_description& options);
/// Adds the same, and the options for running a study on the server.
void add_endpoint_options(po::options_description& options);
/// Asks the server named by --endpoint for its engine, model and limits. Throws InputError and DeviceError.
[[nodiscard]] endpoints::ServerFacts ask_server(const Parsed& parsed, Console& console);
[[nodiscard]] bool names_endpoint(const Parsed& parsed);

class EndpointPoints {
 public:
  /// Queries the server for its facts. Throws InputError and DeviceError.
  EndpointPoints(const study::Study& study, const Parsed& parsed, Console& console);

  /// Sets a function that is asked before each point whether it may begin. Without one, all points may.
  void limit_by(std::function<bool(std::size_t index)> fits) { fits_ = std::move(fits); }
  [[nodiscard]] bool may_begin(std::size_t index) const { return !fits_ || fits_(index); }

  /// Measures a point (study::RunPoint). If the server fails, `stopped` is set and failure() says why.
  [[nodiscard]] sim::RunResult run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options);
  /// Adds to a result that it was measured, and on which server.
  void label(study::PointResult& point) const;
  /// Returns why the server failed; empty if it has not.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Returns endpoint.csv: one row per point, with the values that only a measurement of a server has.
  [[nodiscard]] std::string figures_csv() const;
  /// Keeps the rows of an earlier endpoint.csv for points that are not measured again.
  void keep_rows(const std::string& earlier_csv);
  /// Returns the lengths of a point's answers, as a trace without arrivals, if this run measured it and more than one
  /// in a hundred ended early; else null.
  [[nodiscard]] std::shared_ptr<const traces::Trace> short_lengths(std::size_t index) const;
  /// Returns the server's KV pool as keys of a study; empty if the server does not report it.
  [[nodiscard]] study::Overrides adopted() const;
  /// Returns everything besides the study on which a stored result depends.
  [[nodiscard]] std::string identity() const;
  /// Returns server.csv of the point that ran last: the server's metrics every second; empty if it reported none.
  [[nodiscard]] const std::string& states_csv() const { return states_; }

 private:
  void check() const;
  void describe(const study::Study& study);
  void keep(std::size_t index, const endpoints::EndpointPoint& point);

  const study::Study& study_;
  Console& console_;
  std::uint64_t nonce_ = 0;
  std::int64_t vocabulary_ = 0;  // 0: that of the study's model
  std::unique_ptr<endpoints::Server> server_;
  endpoints::Prompts prompts_;  // what is known of the server's tokenizer
  std::string failure_, states_;
  std::function<bool(std::size_t index)> fits_;
  std::map<std::size_t, std::string> rows_;                                    // rows of endpoint.csv, by point
  std::map<std::size_t, std::shared_ptr<const traces::Trace>> short_lengths_;  // by point
};

/// Measures all points of a study one after another, and writes the files of each. A point that may not begin ends the
/// run as if it were cancelled.
[[nodiscard]] study::StudyResult measure_points(const study::Study& study, study::OutputChoice files,
                                                EndpointPoints& points, Console& console);

/// Runs `measure STUDY --endpoint URL`. Returns the exit code.
[[nodiscard]] int measure_endpoint(const Parsed& parsed, Console& console);
/// The same for `validate`: every point is predicted too.
[[nodiscard]] int validate_endpoint(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
