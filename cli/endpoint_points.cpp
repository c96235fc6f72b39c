// SPDX-License-Identifier: Apache-2.0
#include "cli/endpoint_points.h"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <random>

#include "exec/live/prompts.h"
#include "model/error.h"
#include "study/run/resolve.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kColumns =
    "point,api,model,requests,reopened_connections,connect_mean_ms,late_p50_ms,late_p99_ms,written_to_first_mean_ms,"
    "token_counts,short_answers,unintended_prefix_hits,cached_tokens,retry_after,nonce,warnings,"
    "refused,failures\n";

// Returns the value of an environment variable, checked for use in a header. No message shows the value.
std::string secret_of(const std::string& option, const std::string& variable) {
  const char* const value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0')
    throw InputError(fmt::format("{}: the environment has no variable {}", option, variable));
  const std::string text(value);
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    throw InputError(fmt::format("{}: the value of {} has a character that headers do not allow", option, variable));
  return text;
}

bool is_header_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
}

void read_headers(const Parsed& parsed, endpoints::ServerSettings& settings) {
  const std::string key = text_option(parsed, "api-key-env");
  if (!key.empty()) {
    settings.secrets.push_back(secret_of("--api-key-env", key));
    settings.http.headers.emplace_back("Authorization", "Bearer " + settings.secrets.back());
  }
  if (parsed.values.count("header") == 0) return;
  for (const std::string& header : parsed.values["header"].as<std::vector<std::string>>()) {
    const std::size_t equals = header.find('=');
    const std::string name = header.substr(0, equals);
    if (equals == std::string::npos || !is_header_name(name))
      throw InputError("--header: expected NAME=ENV, a header's name and a variable of the environment");
    settings.secrets.push_back(secret_of("--header", header.substr(equals + 1)));
    settings.http.headers.emplace_back(name, settings.secrets.back());
  }
}

bool is_set(const Parsed& parsed, const char* name) { return parsed.values[name].as<bool>(); }

endpoints::ServerSettings read_settings(const Parsed& parsed, Console& console) {
  endpoints::ServerSettings settings;
  settings.http.server = net::parse_url(text_option(parsed, "endpoint"), "--endpoint");
  std::string& base = settings.http.server.path;
  if (base.ends_with("/v1")) base.resize(base.size() - 3);  // URLs for OpenAI clients end with it
  settings.http.tls = {.ca_file = text_option(parsed, "ca-file"),
                       .client_cert = text_option(parsed, "client-cert"),
                       .client_key = text_option(parsed, "client-key"),
                       .insecure = is_set(parsed, "insecure")};
  if (const std::string proxy = text_option(parsed, "proxy"); !proxy.empty()) {
    settings.http.proxy = net::parse_url(proxy, "--proxy");
    if (settings.http.proxy->tls) throw InputError("--proxy: expected http://HOST:PORT");
  }
  if (const std::string api = text_option(parsed, "api"); !api.empty()) settings.api = endpoints::api_named(api);
  settings.served_model = text_option(parsed, "served-model");
  read_headers(parsed, settings);
  const bool plain = !settings.http.server.tls && !settings.http.server.is_loopback();
  if (plain && !settings.secrets.empty() && !settings.http.tls.insecure)
    throw InputError("--endpoint: a key would cross the network unencrypted; use https, or state --insecure");
  if (settings.http.tls.insecure)
    console.warn("--insecure: the server's certificate is not checked, and keys may travel unencrypted");
  return settings;
}

std::uint64_t read_nonce(const Parsed& parsed) {
  if (parsed.values.count("nonce") != 0)
    return static_cast<std::uint64_t>(whole_option(parsed, "nonce", {0, std::numeric_limits<std::int64_t>::max()}, 0));
  return std::random_device()() & 0x7FFFFFFFU;
}

std::vector<std::vector<std::int32_t>> read_prompts(const std::string& file, std::int64_t vocabulary) {
  std::vector<std::vector<std::int32_t>> given;
  for (exec::Prompt& prompt :
       exec::read_prompts(file, {.vocabulary = static_cast<std::int32_t>(vocabulary), .positions = 0, .generated = 0}))
    given.push_back(std::move(prompt.tokens));
  return given;
}

bool has_priorities(const study::PointSpec& spec) {
  const auto* const replay = std::get_if<load::TraceReplay>(&spec.workload.load);
  const bool prioritised = !spec.workload.priorities.empty() || (replay && !replay->trace->priorities.empty());
  return prioritised && spec.policy.order == sched::Order::priority;
}

endpoints::ServerSettings settings_for(const study::Study& study, endpoints::ServerSettings settings) {
  for (std::size_t i = 0; i < study.point_count(); ++i)
    settings.has_priorities = settings.has_priorities || has_priorities(study.point(i));
  return settings;
}

// Every open stream is a file. Raises the limit as far as allowed; the warning states how far that is.
void raise_file_limit(const study::Study& study, Console& console) {
  constexpr double kOwn = 64;  // other open files
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  double users = 0;
  for (std::size_t i = 0; i < study.point_count(); ++i) {
    const study::PointSpec spec = study.point(i);
    if (const auto* closed = std::get_if<load::ClosedLoop>(&spec.workload.load))
      users = std::max<double>(users, closed->concurrency);
  }
  if (users + kOwn > static_cast<double>(limit.rlim_max))
    console.warn(fmt::format("{:.0f} users need as many connections, but the system allows {} open files (ulimit -Hn)",
                             users, limit.rlim_max));
}

// "3 x cut_stream, 1 x bad_gateway"
std::string times_text(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, what);
  return text;
}

double ms(double seconds) { return 1e3 * seconds; }

}  // namespace

void add_server_options(po::options_description& options) {
  auto add = options.add_options();
  add("endpoint", po::value<std::string>()->value_name("URL"),
      "measure the server at this address instead of this machine: http[s]://HOST[:PORT][/PATH]");
  add("api", po::value<std::string>()->value_name("openai|openai-chat|tgi|lmi"),
      "interface of the server (default: detected)");
  add("served-model", po::value<std::string>()->value_name("NAME"), "model to ask for (default: the only one served)");
  add("api-key-env", po::value<std::string>()->value_name("ENV"), "environment variable with the server's key");
  add("header", po::value<std::vector<std::string>>()->value_name("NAME=ENV"),
      "a header with the value of an environment variable; may be repeated");
  add("ca-file", po::value<std::string>()->value_name("FILE"), "certificates to trust instead of the system's");
  add("client-cert", po::value<std::string>()->value_name("FILE"), "certificate to show to the server");
  add("client-key", po::value<std::string>()->value_name("FILE"), "its key");
  add("insecure", po::bool_switch(), "accept any certificate, and send a key over plain http");
  add("proxy", po::value<std::string>()->value_name("URL"), "http proxy; none is read from the environment");
  add("vocab", po::value<std::string>()->value_name("N"),
      "size of the served model's vocabulary (default: that of the study's model)");
  add("nonce", po::value<std::string>()->value_name("N"), "repeats the prompts of a run that printed this number");
}

void add_endpoint_options(po::options_description& options) {
  add_server_options(options);
  auto add = options.add_options();
  add("adopt", po::bool_switch(),
      "write adopted.yaml to --out: the study with the server's KV pool, if /metrics states it; validate predicts it");
  add("dry-run", po::bool_switch(), "send nothing; print the requests, tokens, duration and cost");
  add("price", po::value<std::string>()->value_name("IN,OUT"), "USD per million tokens, for --dry-run");
  add("yes", po::bool_switch(),
      "do not ask for confirmation of a run with more than 100000 requests or of more than an hour");
}

endpoints::ServerFacts ask_server(const Parsed& parsed, Console& console) {
  return endpoints::Server(read_settings(parsed, console)).facts();
}

bool names_endpoint(const Parsed& parsed) { return parsed.values.count("endpoint") != 0; }

EndpointPoints::EndpointPoints(const study::Study& study, const Parsed& parsed, Console& console)
    : study_(study),
      console_(console),
      nonce_(read_nonce(parsed)),
      vocabulary_(whole_option(parsed, "vocab", {16, 1 << 24}, 0)),
      server_(std::make_unique<endpoints::Server>(settings_for(study, read_settings(parsed, console)))),
      prompts_(nonce_, 0) {
  check();
  server_->learn_words(prompts_);
  describe(study);
  raise_file_limit(study, console);
}

void EndpointPoints::describe(const study::Study& study) {
  const endpoints::ServerFacts& facts = server_->facts();
  std::string line =
      fmt::format("{}: {}, {}", server_->settings().http.server.text(), facts.label(), endpoints::name(facts.api));
  if (!facts.model.empty()) line += ", model " + facts.shown_model;
  if (facts.speed != 1) line += fmt::format(", simulated at {} times the speed", facts.speed);
  console_.note(line);
  for (const std::string& refused : facts.refused) console_.note("the server refuses " + refused + ", left out");
  if (!facts.features.token_ids && !facts.counts_prompts)
    console_.warn(
        "the server does not report the tokens of a prompt: prompts have one word for each token of the study");
  if (facts.features.token_ids) console_.note(fmt::format("prompts are token ids, --nonce {} repeats them", nonce_));
  const endpoints::ServerState& state = facts.state;
  if (!state.kv_blocks || !state.block_tokens) return;
  const study::ResolvedPoint first = study::resolve_point(study, 0, study::ResolveFor::measurement);
  if (!first.scenario) return;
  const auto unusable = sched::policy_info(study.point(0).policy.policy).unusable_blocks;
  const double served =
      (*state.kv_blocks - static_cast<double>(unusable * first.scenario->replicas)) * *state.block_tokens;
  const double modelled =
      static_cast<double>(first.scenario->kv.blocks) * first.scenario->kv.block_tokens * first.scenario->replicas;
  console_.note(
      fmt::format("KV pool: {:.0f} tokens on the server, {:.0f} in the study's memory model", served, modelled));
}

void EndpointPoints::check() const {
  for (std::size_t i = 0; i < study_.point_count(); ++i) {
    const study::PointSpec spec = study_.point(i);
    const std::string why = endpoints::misfit(server_->facts(), study::longest_sent(spec.workload));
    if (!why.empty()) throw InputError(spec.places.workload, why);
    study::refuse_turns(spec);
    if (has_priorities(spec) && !server_->facts().features.priority)
      throw InputError(spec.places.workload,
                       "the server takes no priorities: leave workload.priorities or scheduler.scheduling out");
    if (!spec.prompts.empty() && !server_->facts().features.token_ids)
      throw InputError("prompts: the file has token ids, which the server does not accept; leave the key out");
    if (vocabulary_ == 0 && !spec.shape && server_->facts().features.token_ids)
      throw InputError("--vocab: the study names no model; state how many tokens the server knows");
  }
}

sim::RunResult EndpointPoints::run(const study::PointResult& point, const load::Scenario& scenario,
                                   const sim::RunOptions& options) {
  const study::PointSpec spec = study_.point(point.index);
  const std::int64_t vocabulary = vocabulary_ > 0 ? vocabulary_ : spec.shape ? spec.shape->vocab : 0;
  endpoints::Prompts prompts = prompts_.salted(point.index);
  prompts.set_vocabulary(vocabulary);
  if (!spec.prompts.empty()) prompts.give_ids(read_prompts(spec.prompts, vocabulary));
  endpoints::EndpointPoint measured;
  try {
    measured = endpoints::measure_point(scenario, *server_, prompts, options);
  } catch (const DeviceError& error) {
    measured.run.failure = error.what();
    measured.run.stopped = true;
  }
  failure_ = measured.run.failure;
  keep(point.index, measured);
  return std::move(measured.run);
}

void EndpointPoints::keep(std::size_t index, const endpoints::EndpointPoint& point) {
  const endpoints::EndpointFigures& figures = point.figures;
  states_.clear();
  if (!figures.states.empty()) states_ = endpoints::states_csv(figures);
  if (point.run.stopped) return;
  if (endpoints::are_short(figures)) {
    auto came = std::make_shared<traces::Trace>();
    for (const auto& [input, output] : figures.lengths)
      came->records.push_back({.input_tokens = input, .output_tokens = output});
    short_lengths_[index] = std::move(came);
  }
  std::string kinds;
  for (const std::string& warning : endpoints::warnings(point)) {
    const std::string where = study_.point_count() > 1 ? fmt::format("point {}: ", index) : "";
    console_.warn(where + warning);
    kinds += (kinds.empty() ? "" : " ") + warning.substr(0, warning.find(':'));
  }
  const endpoints::ServerFacts& facts = server_->facts();
  rows_[index] = fmt::format(
      "{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{},{},{},{},{},{},{}\n", index, endpoints::name(facts.api),
      study::csv_text(facts.shown_model), figures.attempts, figures.reopened, ms(figures.connecting.mean()),
      ms(figures.lateness.quantile(0.5)), ms(figures.lateness.quantile(0.99)), ms(figures.written_to_first.mean()),
      study::csv_text(endpoints::counts_text(figures)), figures.early_ends, figures.unintended_hits,
      figures.cached_tokens, study::csv_text(times_text(figures.retry_after)), nonce_, kinds, figures.refused,
      study::csv_text(times_text(figures.failures)));
}

std::string EndpointPoints::figures_csv() const {
  std::string text(kColumns);
  for (const auto& [index, row] : rows_) text += row;
  return text;
}

void EndpointPoints::keep_rows(const std::string& earlier_csv) {
  if (!earlier_csv.starts_with(kColumns)) return;
  for (std::size_t at = kColumns.size(); at < earlier_csv.size();) {
    const std::size_t end = std::min(earlier_csv.find('\n', at), earlier_csv.size() - 1) + 1;
    std::size_t index = 0;
    const char* const begin = earlier_csv.data() + at;
    if (std::from_chars(begin, earlier_csv.data() + end, index).ec == std::errc())
      rows_.emplace(index, earlier_csv.substr(at, end - at));
    at = end;
  }
}

std::shared_ptr<const traces::Trace> EndpointPoints::short_lengths(std::size_t index) const {
  const auto found = short_lengths_.find(index);
  return found == short_lengths_.end() ? nullptr : found->second;
}

study::Overrides EndpointPoints::adopted() const {
  const endpoints::ServerState& state = server_->facts().state;
  if (!state.kv_blocks || !state.block_tokens) return {};
  const study::PointSpec spec = study_.point(0);
  const double blocks = *state.kv_blocks / std::max(1, spec.deployment.replicas);
  const sched::Blk unusable = sched::policy_info(spec.policy.policy).unusable_blocks;
  return {{"scheduler.kv_blocks", fmt::format("{:.0f}", blocks - static_cast<double>(unusable))},
          {"scheduler.block_size", fmt::format("{:.0f}", *state.block_tokens)}};
}

std::string EndpointPoints::identity() const {
  const endpoints::ServerFacts& facts = server_->facts();
  return fmt::format("measured on {}, {}, {}, {}, speed {}", server_->settings().http.server.text(), facts.label(),
                     endpoints::name(facts.api), facts.shown_model, facts.speed);
}

void EndpointPoints::label(study::PointResult& point) const {
  point.labels.source = "measured";
  point.labels.engine = server_->facts().label();
  point.extrapolates.clear();  // nothing is predicted
}

}  // namespace plimsoll::cli
