// SPDX-License-Identifier: Apache-2.0
// Parts of verbs with source files of their own: calibrate --engine, calibrate --from, validate --live, and the report
// on simulated points.
#pragma once

#include <string>

#include "cli/console.h"
#include "cli/options.h"
#include "study/output/chart.h"
#include "study/output/outputs.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

// The part of `plimsoll calibrate` that fits an engine's profile to measured serving runs.

/// Adds --engine.
void add_engine_options(po::options_description& options);

/// Fits the engine named by --engine from scratch, prints the errors in and out of the fit, and writes its files to
/// --out (default: the catalogue). Returns an exit code.
int calibrate_engine(const Parsed& parsed, Console& console, const std::string& date);

// The part of `plimsoll calibrate` that fits a profile of the user's own engine.

/// Adds --like, --hardware, --fit-hardware, the options of the ladder of runs, and --endpoint with its own options.
void add_own_options(po::options_description& options);
/// Returns the name of an option of add_own_options() that the command states; empty if it states none.
[[nodiscard]] std::string stated_own_option(const Parsed& parsed);
/// Returns whether --engine names an engine of the user's own, measured by --from or --endpoint. Throws InputError for
/// options that only such a fit takes.
[[nodiscard]] bool fits_own_engine(const Parsed& parsed);
/// Fits the user's own engine, prints the errors in and out of the fit, and writes the profile below --out (default:
/// the user's catalogue). Returns an exit code.
int calibrate_own(const Parsed& parsed, Console& console, const std::string& date);

// The part of `plimsoll calibrate` that fits tables of kernels measured elsewhere.

/// Adds --from, --hold-out, --source, --export.
void add_kernel_options(po::options_description& options);

/// Fits the tables named by --from and writes the files of accelerators and links to --out. Returns an exit code.
int calibrate_from(const Parsed& parsed, Console& console, const std::string& date);
/// Prints a file of measured kernels as text.
int export_kernels(const Parsed& parsed, Console& console);

// validate --live STUDY: measures every point of a study on this machine, beside its simulation.

/// Adds --live and its related options to those of `validate`.
void add_live_options(po::options_description& options);
/// Runs validate --live. Returns the exit code; throws InputError and DeviceError.
[[nodiscard]] int validate_live_runs(const Parsed& parsed, Console& console);

// The part of `plimsoll init` that reads manifests of deployments.

/// Adds --from-deployment and --workload-of.
void add_deployment_options(po::options_description& options);
/// Returns the study of the deployment that --from-deployment names, under the load of --workload-of and the options.
/// Throws InputError.
[[nodiscard]] std::string study_of_deployment(const Parsed& parsed, Console& console);

// The folder deploy/ of `plan` and `simulate`.

/// Adds --schemas.
void add_schema_option(po::options_description& options);
/// Returns the folder of --schemas; empty if it is not given. Throws InputError if it is given without --out.
[[nodiscard]] std::string schema_folder(const Parsed& parsed);

// Reports the points that a command ran: results on standard output, notes and warnings on standard error.

/// Prints the first chart if standard output is a terminal.
void print_curve(const std::vector<study::Chart>& charts, Console& console);

/// Throws InputError if every point of the study is impossible.
void report_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console);
/// Reports how many points an earlier run left in `folder`; prints nothing if there are none.
void note_recalled(const study::Study& study, const study::Outputs& outputs, const std::string& folder,
                   Console& console);

}  // namespace plimsoll::cli
