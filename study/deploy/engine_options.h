// SPDX-License-Identifier: Apache-2.0
// The options of vLLM's and SGLang's servers: every setting that a prediction depends on, even if it equals the
// product's default. One table per product serves both directions, so written options read back as the same settings.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/yaml_document.h"
#include "study/deploy/served.h"

namespace plimsoll::study::deploy {

/// One option of a server. An option without a value is a switch.
struct ServerOption {
  std::string name;
  std::optional<std::string> value;
};

/// Returns the options of a pool's servers, without model, host and port. `whole` is the point of both pools.
[[nodiscard]] std::vector<ServerOption> server_options(const Served& served, const Pool& pool);
/// Returns the options as separate arguments.
[[nodiscard]] std::vector<std::string> arguments_of(const std::vector<ServerOption>& options);
/// Returns the environment that the pool's servers need: {name, value}; the value kPodAddress stands for the pod's own
/// address.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> server_environment(const Served& served);
inline constexpr std::string_view kPodAddress = "POD_IP";

/// Returns the settings that the options state although the study does not, as {key of scheduler, value}. They must not
/// be read back, because stating them in a study would change its figures.
[[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> unstated_options(const Pool& pool);

// Each returns why a product's options cannot express a point; empty: they can.

/// Names a setting for which there is no option.
[[nodiscard]] std::string option_problem(const PointSpec& spec, sched::Server server);
/// Names an option that this version lacks.
[[nodiscard]] std::string version_problem(const PointSpec& spec, sched::Server server, const std::string& version);
/// Names a property that the product's KV transfers lack.
[[nodiscard]] std::string transfer_problem(const PointSpec& spec, sched::Server server, const std::string& version);
/// Returns whether servers take weights of this type only from a checkpoint.
[[nodiscard]] bool served_dtype_needs_checkpoint(model::DType dtype);

// Reading back.

/// A scalar of a manifest and its place.
struct Token {
  std::string text;
  Where where;
};
/// An option as found in a manifest.
struct GivenOption {
  Token name;
  std::optional<Token> value;
};
/// Splits arguments into options: "--name value", "--name=value" or "--switch". Throws InputError for anything else.
[[nodiscard]] std::vector<GivenOption> options_of(const std::vector<Token>& arguments);

/// Where a pool's settings are in a study.
struct PoolSettings {
  std::string deployment, scheduler;      // paths: these words, or paths below deployment.pools
  std::optional<configs::Node> unstated;  // options with these values are left out of the study
};
/// Writes the settings into the study. Throws InputError, at the option, if no setting corresponds to it.
void read_options(sched::Server server, const std::vector<GivenOption>& options, const PoolSettings& pool,
                  configs::Document& study);
/// Throws InputError, at the option, if an option that was found differs from those that would be written for this
/// pool.
void compare_options(const std::vector<GivenOption>& found, const std::vector<ServerOption>& written,
                     const std::optional<configs::Node>& unstated);

}  // namespace plimsoll::study::deploy
