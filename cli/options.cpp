// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "cli/stated_study.h"
#include "configs/quantity.h"
#include "model/error.h"
#include "study/file/not_modelled.h"

namespace plimsoll::cli {
namespace {

constexpr int kMaxJobs = 1024;
constexpr std::uint64_t kMaxSeed = (std::uint64_t{1} << 53U) - 1;  // the limit of a study: a double holds it exactly

po::options_description every_common_option() {
  po::options_description common;
  common.add_options()("help,h", "this text")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("PATH=VALUE"),
      "replace a value of the study, such as --set deployment.tp=4; repeatable")(
      "out", po::value<std::string>()->value_name("DIR"), "folder for the output files")(
      "format", po::value<std::string>()->value_name("table|csv|json"), "format of the result on standard output")(
      "jobs", po::value<std::string>()->value_name("N"), "threads (default: one per core)")(
      "seed", po::value<std::string>()->value_name("N"), "replaces the study's seed; forward: seed of random weights")(
      "progress", po::value<std::string>()->value_name("auto|none|jsonl"),
      "auto: a bar if standard error is a terminal; jsonl: JSON lines on standard output")(
      "quiet", po::bool_switch(), "no notes and no progress bar")("stepwise", po::bool_switch(),
                                                                  "simulate step by step, without leaps");
  return common;
}

po::options_description common_options(const std::vector<std::string_view>& without) {
  po::options_description common("Common options");
  const po::options_description every = every_common_option();
  for (const auto& option : every.options()) {
    const bool acts = std::none_of(without.begin(), without.end(),
                                   [&](std::string_view name) { return option->long_name() == name; });
    if (acts) common.add(option);
  }
  return common;
}

std::uint64_t whole_number(const std::string& option, const std::string& text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw InputError(fmt::format("--{}: found '{}', allowed: a whole number from {} to {}", option, text, low, high));
  }
  return value;
}

Format format_named(const std::string& text) {
  if (text == "table") return Format::table;
  if (text == "csv") return Format::csv;
  if (text == "json") return Format::json;
  throw InputError(fmt::format("--format: found '{}', allowed: table, csv, json", text));
}

ProgressMode progress_named(const std::string& text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "none") return ProgressMode::none;
  if (text == "jsonl") return ProgressMode::jsonl;
  throw InputError(fmt::format("--progress: found '{}', allowed: auto, none, jsonl", text));
}

std::pair<std::string, std::string> assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(fmt::format("--set: found '{}', allowed: path=value, e.g. deployment.tp=4", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

CommonOptions read_common(const po::variables_map& values) {
  CommonOptions common;
  const auto text = [&](const char* name) { return values.count(name) > 0 ? values[name].as<std::string>() : ""; };
  if (values.count("set") > 0) {
    for (const std::string& item : values["set"].as<std::vector<std::string>>()) common.set.push_back(assignment(item));
  }
  common.out = text("out");
  if (values.count("out") > 0 && common.out.empty()) throw InputError("--out: found '', allowed: a folder");
  if (values.count("format") > 0) common.format = format_named(text("format"));
  if (values.count("jobs") > 0) common.jobs = static_cast<int>(whole_number("jobs", text("jobs"), 1, kMaxJobs));
  if (values.count("seed") > 0) common.seed = whole_number("seed", text("seed"), 0, kMaxSeed);
  if (values.count("progress") > 0) common.progress = progress_named(text("progress"));
  common.quiet = values["quiet"].as<bool>();
  common.stepwise = values["stepwise"].as<bool>();
  return common;
}

po::options_description study_options(StudyOptions kind) {
  const char* const title = kind == StudyOptions::file_of_its_own
                                ? "What the study says"
                                : "Instead of STUDY, or to replace its values; N,N,... makes several points";
  po::options_description options(title);
  add_study_options(options, kind);
  return options;
}

bool is_count(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// --requests alone asks for a file, whereas --requests N states a number. Only the next argument distinguishes the two.
std::vector<std::string> without_count(const std::vector<std::string>& arguments, std::string& count) {
  constexpr std::string_view kOption = "--requests", kJoined = "--requests=";
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kOption && i + 1 < arguments.size() && is_count(arguments[i + 1])) {
      count = arguments[++i];
    } else if (arguments[i].starts_with(kJoined)) {
      count = arguments[i].substr(kJoined.size());
    } else {
      rest.push_back(arguments[i]);
    }
  }
  return rest;
}

void print_help(const Usage& usage, const po::options_description& own, const po::options_description& common) {
  std::ostringstream text;
  text << "usage: plimsoll " << usage.verb;
  if (!usage.positional.empty()) {
    text << (usage.positional_required ? " " : " [") << usage.positional << (usage.positional_required ? "" : "]");
  }
  text << " [options]\n\n" << usage.summary << "\n\n";
  if (!own.options().empty()) text << own << '\n';
  if (usage.study_options != StudyOptions::none) text << study_options(usage.study_options) << '\n';
  text << common << "\nexample:\n" << usage.example;
  const std::string out = text.str();
  std::fwrite(out.data(), 1, out.size(), stdout);
}

[[noreturn]] void refuse_unknown(const po::unknown_option& unknown, const po::options_description& all,
                                 const Usage& usage) {
  const bool sets_keys = std::find(usage.without.begin(), usage.without.end(), "set") == usage.without.end();
  std::vector<std::string> names;
  for (const auto& option : all.options()) {
    if (option->long_name() != "operand") names.push_back("--" + option->long_name());
  }
  const std::string stated = unknown.get_option_name(), word = stated.substr(0, stated.find('='));
  if (const study::NotModelled* const feature = study::feature_of(word); feature != nullptr)
    throw InputError(fmt::format("'{}': {}", word, study::text_of(*feature)));
  const std::string near(configs::nearest(word, names));
  throw InputError(fmt::format("unknown option '{}'; {}{}", word,
                               near.empty() ? "see --help." : fmt::format("did you mean '{}'?", near),
                               sets_keys ? " Any key of a study: --set PATH=VALUE" : ""));
}

}  // namespace

std::optional<Parsed> parse_arguments(const Usage& usage, const std::vector<std::string>& arguments, Console& console) {
  const po::options_description common = every_common_option();
  po::options_description all;
  all.add(usage.options).add(common);
  if (usage.study_options != StudyOptions::none) all.add(study_options(usage.study_options));
  all.add_options()("operand", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("operand", -1);
  Parsed parsed;
  parsed.study_options = usage.study_options;
  parsed.verb = usage.verb;
  parsed.pools = usage.pools;
  const bool counts = usage.study_options == StudyOptions::points;
  namespace style = po::command_line_style;
  try {
    const auto options = po::command_line_parser(counts ? without_count(arguments, parsed.requests) : arguments)
                             .options(all)
                             .positional(positional)
                             .style(style::unix_style & ~style::allow_guessing)
                             .run();
    po::store(options, parsed.values);
  } catch (const po::unknown_option& unknown) {
    refuse_unknown(unknown, all, usage);
  } catch (const po::error& error) {
    throw InputError(error.what());
  }
  if (parsed.values.count("help") > 0) {
    print_help(usage, usage.options, common_options(usage.without));
    return {};
  }
  for (const std::string_view name : usage.without) {
    const po::variable_value& value = parsed.values[std::string(name)];
    if (!value.empty() && !value.defaulted()) console.note(fmt::format("--{} has no effect on {}", name, usage.verb));
  }
  std::vector<std::string> operands;
  if (parsed.values.count("operand") > 0) operands = parsed.values["operand"].as<std::vector<std::string>>();
  const std::size_t most = usage.positional.empty() ? 0 : 1;
  if (operands.size() > most && !usage.many) throw InputError(fmt::format("unexpected argument '{}'", operands[most]));
  if (operands.empty() && most == 1 && usage.positional_required) {
    throw InputError(
        fmt::format("missing {}; usage: plimsoll {} {} [options]", usage.positional, usage.verb, usage.positional));
  }
  if (!operands.empty()) parsed.operand = operands.front();
  parsed.operands = std::move(operands);
  parsed.common = read_common(parsed.values);
  return parsed;
}

std::optional<double> max_error_option(const Parsed& parsed) {
  if (parsed.values.count("max-error") == 0) return {};
  const double most = parsed.values["max-error"].as<double>();
  if (!(most >= 0) || !std::isfinite(most)) throw InputError("--max-error: expected a percentage of 0 or more");
  return most;
}

std::string text_option(const Parsed& parsed, const std::string& name, const std::string& fallback) {
  return parsed.values.count(name) == 0 ? fallback : parsed.values[name].as<std::string>();
}

std::int64_t whole_option(const Parsed& parsed, const std::string& name, WholeRange range, std::int64_t fallback) {
  if (parsed.values.count(name) == 0) return fallback;
  return static_cast<std::int64_t>(whole_number(name, parsed.values[name].as<std::string>(),
                                                static_cast<std::uint64_t>(range.low),
                                                static_cast<std::uint64_t>(range.high)));
}

void configure_console(Console& console, const std::vector<std::string>& arguments) {
  bool quiet = false;
  ProgressMode mode = ProgressMode::automatic;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quiet") quiet = true;
    const bool jsonl = arguments[i] == "--progress=jsonl" ||
                       (arguments[i] == "--progress" && i + 1 < arguments.size() && arguments[i + 1] == "jsonl");
    const bool none = arguments[i] == "--progress=none" ||
                      (arguments[i] == "--progress" && i + 1 < arguments.size() && arguments[i + 1] == "none");
    if (jsonl) mode = ProgressMode::jsonl;
    if (none) mode = ProgressMode::none;
  }
  console.configure(mode, quiet);
}

}  // namespace plimsoll::cli
