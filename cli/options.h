// SPDX-License-Identifier: Apache-2.0
// The options shared by the verbs, and how a verb describes itself in --help.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/console.h"

namespace plimsoll::cli {

namespace po = boost::program_options;

enum class Format : unsigned char { table, csv, json };

/// Which options of a study (cli/stated_study.h) a verb accepts: `points` are those of simulate and measure, for which
/// --requests without a number asks for a file.
enum class StudyOptions : unsigned char { none, points, search, memory, file_of_its_own };

/// The values of the options that the verbs share.
struct CommonOptions {
  std::vector<std::pair<std::string, std::string>> set;  // --set path=value, in order
  std::string out;                                       // folder; empty: none
  Format format = Format::table;
  int jobs = 0;  // 0: one per core
  std::optional<std::uint64_t> seed;
  ProgressMode progress = ProgressMode::automatic;
  bool quiet = false, stepwise = false;
};

/// The description of a verb. `positional` names its operand in the usage line; empty: none.
struct Usage {
  std::string verb, positional, summary, example;
  bool positional_required = true;
  po::options_description options;  // the verb's own options; common ones are added
  std::vector<std::string_view> without =
      {};  // common options without effect on this verb: accepted with a note, left out of its help
  StudyOptions study_options = StudyOptions::none;
  bool many = false;   // accepts more than one operand
  bool pools = false;  // handles studies with pools for prefill and decode
};

/// The parsed arguments of a verb.
struct Parsed {
  CommonOptions common;
  std::string operand;                // the first operand
  std::vector<std::string> operands;  // all operands
  po::variables_map values;           // the verb's own options
  StudyOptions study_options = StudyOptions::none;
  std::string verb;
  bool pools = false;    // as in Usage
  std::string requests;  // N of --requests N; empty: not given
};

/// Reads a verb's arguments. For --help, prints the help text and returns nullopt. Throws InputError for an unknown
/// option, with the nearest known one.
[[nodiscard]] std::optional<Parsed> parse_arguments(const Usage& usage, const std::vector<std::string>& arguments,
                                                    Console& console);

/// What an option allows, both ends included.
struct WholeRange {
  std::int64_t low = 0, high = 0;
};
/// Returns the verb's own option `name` as a whole number; `fallback` if it is not given. Throws InputError.
[[nodiscard]] std::int64_t whole_option(const Parsed& parsed, const std::string& name, WholeRange range,
                                        std::int64_t fallback);

/// Returns --max-error, a percentage; nullopt if not given. Throws InputError.
[[nodiscard]] std::optional<double> max_error_option(const Parsed& parsed);

/// Returns the verb's own option `name`; `fallback` if it is not given.
[[nodiscard]] std::string text_option(const Parsed& parsed, const std::string& name, const std::string& fallback = {});

/// Applies --progress and --quiet before other options are read, so that errors in those are reported accordingly.
void configure_console(Console& console, const std::vector<std::string>& arguments);

}  // namespace plimsoll::cli
