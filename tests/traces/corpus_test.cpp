// SPDX-License-Identifier: Apache-2.0
// The shared corpus of malformed and odd-but-valid files, and the real traces with their oracles. Skipped, with a
// message, where the folder is absent: reader_test.cpp covers the code without it.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "traces/reader.h"
#include "traces/summary.h"

namespace plimsoll::traces {
namespace {

namespace fs = std::filesystem;

const fs::path kShared = fs::path(PLIMSOLL_SOURCE_DIR) / ".." / "shared" / "data";

struct Expectation {
  std::string format, file, verdict, line, column, byte_column, code, rows;
};

std::vector<std::string> split(const std::string& text, char delimiter) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == delimiter)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::vector<Expectation> read_expectations() {
  std::vector<Expectation> out;
  std::ifstream in(kShared / "traces-malformed" / "EXPECT.tsv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<std::string> f = split(line, '\t');
    f.resize(9);
    // ServeGen describes a rate curve and length tables, not requests: it is no trace format of ours.
    if (f[0] == "servegen_trace" || f[0] == "servegen_dataset") continue;
    out.push_back({f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[8]});
  }
  return out;
}

// How a problem differs from what is expected; empty when it does not. Blank cells of the table are "not applicable".
std::string difference(const Expectation& want, const TraceProblem& got) {
  std::ostringstream out;
  if (got.code != want.code) out << " code " << got.code << " instead of " << want.code;
  const std::string line = got.line == 0 ? "" : std::to_string(got.line);
  if (line != want.line) out << " line '" << line << "' instead of '" << want.line << "'";
  if (!want.column.empty() && got.column != want.column)
    out << " column '" << got.column << "' instead of '" << want.column << "'";
  if (!want.byte_column.empty() && std::to_string(got.byte_column) != want.byte_column) {
    out << " byte column " << got.byte_column << " instead of " << want.byte_column;
  }
  return out.str();
}

bool same_rows(const Trace& a, const Trace& b) {
  if (a.records.size() != b.records.size() || a.hashes != b.hashes) return false;
  for (std::size_t i = 0; i < a.records.size(); ++i) {
    const TraceRecord &x = a.records[i], &y = b.records[i];
    if (x.arrival != y.arrival || x.input_tokens != y.input_tokens || x.output_tokens != y.output_tokens ||
        x.session != y.session || x.hash_begin != y.hash_begin || x.hash_end != y.hash_end) {
      return false;
    }
  }
  return true;
}

std::string check(const Expectation& want, const std::string& format) {
  const fs::path folder = kShared / "traces-malformed" / want.format;
  ReadOptions options;
  options.format = format;
  try {
    const ReadResult result = read_trace(folder / want.file, options);
    if (want.verdict == "reject") return " was accepted";
    if (want.verdict == "warn") {
      for (const TraceProblem& warning : result.warnings) {
        if (difference(want, warning).empty()) return "";
      }
      return result.warnings.empty() ? " no warning" : difference(want, result.warnings.front());
    }
    if (!result.warnings.empty()) return " warns: " + to_string(result.warnings.front());
    if (std::to_string(result.trace->records.size()) != want.rows) return " has other rows";
    const bool encoding_only = want.file.find("equal") == std::string::npos;
    const fs::path good = folder / (fs::exists(folder / "good.csv") ? "good.csv" : "good.jsonl");
    if (encoding_only && !same_rows(*result.trace, *read_trace(good, options).trace)) return " differs from good";
    return "";
  } catch (const TraceError& error) {
    if (want.verdict != "reject") return std::string(" refused: ") + error.what();
    return difference(want, error.problem());
  }
}

class Corpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kShared)) GTEST_SKIP() << "no " << kShared << ": the shared corpus is not on this machine";
  }
};

TEST_F(Corpus, EveryFileGivesItsVerdictWhenTheFormatIsNamed) {
  const std::vector<Expectation> all = read_expectations();
  ASSERT_GT(all.size(), 300U);
  for (const Expectation& want : all) {
    EXPECT_EQ(check(want, want.format), "") << want.format << "/" << want.file;
  }
}

TEST_F(Corpus, EveryFileGivesItsVerdictWhenTheFormatIsRecognised) {
  // Blank lines fit every format; only a named one can say more than that.
  const std::set<std::string> ambiguous = {"servegen_offline/02_blank_only.jsonl"};
  for (const Expectation& want : read_expectations()) {
    if (ambiguous.contains(want.format + "/" + want.file)) continue;
    EXPECT_EQ(check(want, ""), "") << want.format << "/" << want.file;
  }
}

struct Sums {
  std::int64_t input = 0, output = 0, offset = 0;
  std::int32_t max_input = 0, max_output = 0;
};

Sums sums_of(const Trace& trace) {
  Sums sums;
  for (const TraceRecord& record : trace.records) {
    sums.input += record.input_tokens;
    sums.output += record.output_tokens;
    sums.offset += record.arrival;
    sums.max_input = std::max(sums.max_input, record.input_tokens);
    sums.max_output = std::max(sums.max_output, record.output_tokens);
  }
  return sums;
}

TEST_F(Corpus, RealTracesReproduceTheirOracles) {
  const nlohmann::json oracles = nlohmann::json::parse(std::ifstream(kShared / "traces" / "oracles.json"));
  for (const auto& [name, want] : oracles.items()) {
    SCOPED_TRACE(name);
    const ReadResult result = read_trace(kShared / "traces" / name.substr(std::string("public/").size()));
    const Trace& trace = *result.trace;
    EXPECT_EQ(result.warnings.size(), 0U);
    EXPECT_EQ(trace.records.size(), want["rows"].get<std::size_t>());
    const Sums sums = sums_of(trace);
    EXPECT_EQ(sums.input, want["sum_input"].get<std::int64_t>());
    EXPECT_EQ(sums.output, want["sum_output"].get<std::int64_t>());
    EXPECT_EQ(sums.max_input, want["max_input"].get<std::int32_t>());
    EXPECT_EQ(sums.max_output, want["max_output"].get<std::int32_t>());
    if (want.contains("first_ns")) {
      EXPECT_EQ(trace.first_arrival, want["first_ns"].get<Nanos>());
      EXPECT_EQ(trace.first_arrival + trace.records.back().arrival, want["last_ns"].get<Nanos>());
      EXPECT_EQ(sums.offset, want["sum_offset_ns"].get<std::int64_t>());
    }
    if (want.contains("blocks")) {
      EXPECT_EQ(trace.hashes.size(), want["blocks"].get<std::size_t>());
      EXPECT_EQ(std::set<std::uint64_t>(trace.hashes.begin(), trace.hashes.end()).size(),
                want["unique_blocks"].get<std::size_t>());
    }
  }
}

// Files of the statistics that are here, by their name in stats.json.
const std::pair<std::string, std::string> kStatistics[] = {
    {"azure2023-code", "azure2023/AzureLLMInferenceTrace_code.csv"},
    {"azure2023-conv", "azure2023/AzureLLMInferenceTrace_conv.csv"},
    {"mooncake-conversation", "mooncake/conversation_trace.jsonl.gz"},
    {"mooncake-synthetic", "mooncake/synthetic_trace.jsonl"},
    {"vidur-splitwise_conv", "vidur/splitwise_conv.csv"},
    {"etalon-bwb", "etalon/bwb_stats_llama2_tokenizer_filtered_v2.csv"},
    {"apex-llama-creation", "apex/llama_creation_05.lengths.csv"},
};

// The table is rounded: means to 2 decimals, coefficients to 3 or 4.
void expect_lengths(const LengthSummary& got, const nlohmann::json& want) {
  EXPECT_NEAR(got.mean, want["mean"].get<double>(), 0.0051);
  EXPECT_NEAR(got.cv, want["cv"].get<double>(), 0.0011);
  EXPECT_NEAR(got.p50, want["p50"].get<double>(), 0.0051);
  EXPECT_NEAR(got.p90, want["p90"].get<double>(), 0.0051);
  EXPECT_NEAR(got.p99, want["p99"].get<double>(), 0.0051);
  EXPECT_EQ(got.max, want["max"].get<std::int32_t>());
}

void expect_arrivals(const ArrivalSummary& got, const nlohmann::json& want) {
  EXPECT_NEAR(got.mean_rate, want["mean_rate_rps"].get<double>(), 0.00006);
  EXPECT_NEAR(got.gap_cv, want["iat_cv"].get<double>(), 0.0051);
  EXPECT_EQ(got.equal_stamps, want["zero_iat"].get<std::int64_t>());
  EXPECT_EQ(got.busiest_second, want["win1s"]["peak"].get<std::int64_t>());
  EXPECT_NEAR(got.dispersion_per_second, want["win1s"]["index_of_dispersion"].get<double>(), 0.0051);
}

TEST_F(Corpus, SummariesAgreeWithTheIndependentStatistics) {
  const nlohmann::json all = nlohmann::json::parse(std::ifstream(kShared / "traces" / "stats.json"));
  for (const auto& [name, file] : kStatistics) {
    SCOPED_TRACE(name);
    const nlohmann::json& want = all[name];
    const TraceSummary got = summarise(read_trace(kShared / "traces" / file));
    EXPECT_EQ(got.rows, want["rows"].get<std::int64_t>());
    expect_lengths(got.input, want["input"]);
    expect_lengths(got.output, want["output"]);
    EXPECT_NEAR(got.correlation, want["pearson"].get<double>(), 0.00006);
    if (want.contains("arrival")) expect_arrivals(got.arrivals.value(), want["arrival"]);
    if (want.contains("prefix")) {
      EXPECT_NEAR(got.prefix_hit_ratio, want["prefix"]["infinite_cache_token_hit_ratio"].get<double>(), 0.00006);
    }
  }
}

}  // namespace
}  // namespace plimsoll::traces
