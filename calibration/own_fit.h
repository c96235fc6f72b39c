// SPDX-License-Identifier: Apache-2.0
// Fits a profile of the user's own engine to its runs. It starts from a similar profile and fits its host times and
// scales; on hardware that the catalogue lacks, it also fits an accelerator. The method is that of the shipped profiles
// (serving_fit.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration/own_runs.h"
#include "calibration/serving_fit.h"

namespace plimsoll::calibration {

struct OwnEngine {
  std::string name;           // in the catalogue's spelling; not the name of a shipped engine or accelerator
  std::string like;           // an engine of the shipped catalogue; may be a version that is an alias of another
  bool fit_hardware = false;  // fit an accelerator even if the catalogue has it
  std::optional<double> memory_bytes;        // of hardware that the catalogue lacks
  std::optional<double> pool_tokens;         // the server's KV pool
  std::optional<std::int64_t> block_tokens;  // its blocks
  std::optional<std::int64_t> max_running;   // requests that it serves at once
  std::string server, data, date, command;   // for the files: where the values come from
};

/// The properties of a profile that are chosen by trying both values instead of fitted.
struct OwnForm {
  bool intake = false;   // requests pass the front end one after the other
  bool drift = false;    // requests of a closed loop drift apart, as in the profile named by `like`
  bool serial = false;   // unknown hardware only: the device waits while the host works
  bool one_row = false;  // unknown hardware only: products of one row have a kernel of their own
};

/// `fit` points to the runs, which must outlive it.
struct OwnFit {
  ServingModel model;
  ServingFit fit;       // `fitted` is false for the held-out runs
  ServingFit left_out;  // every run predicted by a fit without its fold, with bands
  OwnForm form;
  std::string accelerator;                   // identifier of the fitted one; empty: none
  std::map<std::string, std::string> files;  // by path below the catalogue's root
  std::vector<std::string> warnings;
};

/// Throws InputError if the name is invalid or shipped, if `like` is not shipped, if the runs have several kinds of
/// hardware and the catalogue lacks one, or if the profile cannot describe the runs. Throws ServingCancelled as the
/// fits do. Adds entries to `catalogue`. Removes runs that no values explain from `runs`, and sets the engine and
/// hardware of the others to the fitted ones.
[[nodiscard]] OwnFit fit_own(const OwnEngine& engine, OwnRuns& runs,
                             const std::shared_ptr<configs::Catalogue>& catalogue, const ServingSettings& settings);

/// Returns the figures of one metric that were fitted, or that were not. TTFT of runs that exceed the KV pool does not
/// count. The pointers are valid as long as the fit.
[[nodiscard]] std::vector<const validation::Comparison*> figures_of(const ServingFit& fit, const std::string& metric,
                                                                    bool fitted);

/// Returns the fitted values, and the errors in and out of the fit, as text.
[[nodiscard]] std::string own_report(const OwnFit& fit);

/// Returns the same as members of a JSON object (docs/calibrate.md): `values` with their start, `errors` by metric in
/// and out of the fit as fractions, `coverage` of the 90 % bands, and `figures` with measured and predicted values.
[[nodiscard]] std::string own_fit_members(const OwnFit& fit);

// ---- names of engines (engine_names.cpp) ----------------------------------------------------------------------

/// Throws InputError for a name that a user's engine cannot have.
void check_own_name(const std::string& name, const configs::Catalogue& catalogue);

/// Returns the identifier of the shipped engine that `name` means. Throws InputError for an unknown name, and for a
/// profile of the user's own: a fit of a fit would count its runs twice.
[[nodiscard]] std::string shipped_engine(const configs::Catalogue& catalogue, const std::string& name);

/// Returns the shipped engine for the product and version that a server reports ("vLLM", "0.16.1"): the newest version
/// that is not newer than the server's, else the oldest; the profile of a product without versions; empty if there is
/// none of this product.
[[nodiscard]] std::string engine_of_server(const configs::Catalogue& catalogue, const std::string& product,
                                           const std::string& version);

}  // namespace plimsoll::calibration
