// SPDX-License-Identifier: Apache-2.0
// Malformed and unusual valid files (tests/traces/corpus, built from descriptions), and traces with known results.
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/scratch.h"
#include "traces/reader.h"
#include "traces/summary.h"

namespace plimsoll::traces {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "traces";

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

// ---- files from their descriptions (corpus/README.md)
// -----------------------------------------------------------------

// Returns the character at `at`, resolving an escape, and moves `at` behind it.
char unescape(const std::string& text, std::size_t& at) {
  if (text[at] != '\\') return text[at++];
  const char kind = text.at(at + 1);
  at += 2;
  if (kind == 't') return '\t';
  if (kind == 'r') return '\r';
  if (kind != 'x') return kind;
  at += 2;
  return static_cast<char>(std::stoi(text.substr(at - 2, 2), nullptr, 16));
}

std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "\\{") != 0) {
      out += unescape(text, at);
      continue;
    }
    at += 2;
    const char repeated = unescape(text, at);
    const std::size_t end = text.find('}', at);
    out.append(std::stoul(text.substr(at + 1, end - at - 1)), repeated);  // the character after the '*'
    at = end + 1;
  }
  return out;
}

std::string gzipped(const std::string& text, const std::string& kind) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT: zlib only reads
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());  // NOLINT
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (kind == "truncated") out.resize(out.size() / 2);
  if (kind == "bad_crc")
    out[out.size() - 8] = static_cast<char>(~out[out.size() - 8]);  // the last eight bytes are CRC and size
  return out;
}

// Reads the descriptions for one format and writes their files below `folder`.
class Cases {
 public:
  Cases(const fs::path& description, const fs::path& folder) : format_(description.stem()), folder_(folder / format_) {
    fs::create_directories(folder_);
    std::ifstream in(description);
    for (std::string line; std::getline(in, line);) read(line);
    finish();
  }
  [[nodiscard]] const std::vector<Expectation>& expectations() const { return expectations_; }

 private:
  void read(const std::string& line) {
    if (line.starts_with("== ")) {
      finish();
      std::vector<std::string> f = split(line.substr(3), '\t');
      for (std::string& cell : f)
        if (cell == "-") cell.clear();
      expectations_.push_back({format_, f.at(0), f.at(1), f.at(2), f.at(3), f.at(4), f.at(5), f.at(6)});
    } else if (line.starts_with("gzip ")) {
      text_ = gzipped(text_, line.substr(5));
    } else if (line.starts_with('=')) {
      const std::size_t dash = line.find('-');
      for (std::size_t i = std::stoul(line.substr(1)); i <= std::stoul(line.substr(dash + 1)); ++i)
        text_ += good_.at(i - 1);
    } else if (line.starts_with('|') || line.starts_with('_')) {
      text_ += unescape(line.substr(1)) + (line.starts_with('|') ? "\n" : "");
      if (expectations_.size() == 1) good_.push_back(unescape(line.substr(1)) + (line.starts_with('|') ? "\n" : ""));
    }
  }
  void finish() {
    if (!expectations_.empty()) std::ofstream(folder_ / expectations_.back().file, std::ios::binary) << text_;
    text_.clear();
  }

  std::string format_;
  fs::path folder_;
  std::vector<Expectation> expectations_;
  std::vector<std::string> good_;  // lines of the first case, which is valid
  std::string text_;               // text of the current case
};

// Returns how a problem differs from the expected one; empty if not. Blank cells of the table are "not applicable".
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
  if (a.records.size() != b.records.size() || a.hashes != b.hashes || a.hash_ends != b.hash_ends) return false;
  for (std::size_t i = 0; i < a.records.size(); ++i) {
    const TraceRecord &x = a.records[i], &y = b.records[i];
    if (x.arrival != y.arrival || x.input_tokens != y.input_tokens || x.output_tokens != y.output_tokens ||
        x.session != y.session) {
      return false;
    }
  }
  return true;
}

std::string check(const fs::path& root, const Expectation& want, const std::string& format) {
  const fs::path folder = root / want.format;
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

class Corpus : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : fs::directory_iterator(kTests / "corpus")) {
      if (entry.path().extension() != ".txt") continue;
      const Cases cases(entry.path(), scratch_.path());
      all_.insert(all_.end(), cases.expectations().begin(), cases.expectations().end());
    }
  }
  Scratch scratch_;
  std::vector<Expectation> all_;
};

TEST_F(Corpus, EveryFileGivesItsVerdictWhenTheFormatIsNamed) {
  ASSERT_GT(all_.size(), 300U);
  for (const Expectation& want : all_) {
    EXPECT_EQ(check(scratch_.path(), want, want.format), "") << want.format << "/" << want.file;
  }
}

TEST_F(Corpus, EveryFileGivesItsVerdictWhenTheFormatIsRecognised) {
  // Blank lines fit every format; more can be reported only if the format is named.
  const std::set<std::string> ambiguous = {"servegen_offline/02_blank_only.jsonl"};
  for (const Expectation& want : all_) {
    if (ambiguous.contains(want.format + "/" + want.file)) continue;
    EXPECT_EQ(check(scratch_.path(), want, ""), "") << want.format << "/" << want.file;
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

nlohmann::json oracles() { return nlohmann::json::parse(std::ifstream(kTests / "real" / "oracles.json")); }

TEST(RealTraces, ReproduceTheirOracles) {
  const nlohmann::json all = oracles();
  for (const auto& [name, want] : all.items()) {
    SCOPED_TRACE(name);
    const ReadResult result = read_trace(kTests / "real" / name);
    const Trace& trace = *result.trace;
    EXPECT_EQ(result.warnings.size(), 0U);
    EXPECT_EQ(trace.records.size(), want["rows"].get<std::size_t>());
    const Sums sums = sums_of(trace);
    EXPECT_EQ(sums.input, want["sum_input"].get<std::int64_t>());
    EXPECT_EQ(sums.output, want["sum_output"].get<std::int64_t>());
    EXPECT_EQ(sums.max_input, want["max_input"].get<std::int32_t>());
    EXPECT_EQ(sums.max_output, want["max_output"].get<std::int32_t>());
    EXPECT_EQ(trace.first_arrival, want["first_ns"].get<Nanos>());
    EXPECT_EQ(trace.first_arrival + trace.records.back().arrival, want["last_ns"].get<Nanos>());
    EXPECT_EQ(sums.offset, want["sum_offset_ns"].get<std::int64_t>());
    if (want.contains("blocks")) {
      EXPECT_EQ(trace.hashes.size(), want["blocks"].get<std::size_t>());
      EXPECT_EQ(std::set<std::uint64_t>(trace.hashes.begin(), trace.hashes.end()).size(),
                want["unique_blocks"].get<std::size_t>());
    }
  }
}

// The statistics are rounded: means to 2 decimals, coefficients to 3 or 4.
void expect_lengths(const LengthSummary& got, const nlohmann::json& want) {
  EXPECT_NEAR(got.mean, want["mean"].get<double>(), 0.0051);
  EXPECT_NEAR(got.cv, want["cv"].get<double>(), 0.0011);
  EXPECT_NEAR(got.p50, want["p50"].get<double>(), 0.0051);
  EXPECT_NEAR(got.p90, want["p90"].get<double>(), 0.0051);
  EXPECT_NEAR(got.p99, want["p99"].get<double>(), 0.0051);
  EXPECT_EQ(got.max, want["max"].get<std::int32_t>());
}

void expect_arrivals(const ArrivalSummary& got, const nlohmann::json& want) {
  EXPECT_NEAR(got.mean_rate, want["mean_rate"].get<double>(), 0.00006);
  EXPECT_NEAR(got.gap_cv, want["gap_cv"].get<double>(), 0.0051);
  EXPECT_EQ(got.equal_stamps, want["equal_stamps"].get<std::int64_t>());
  EXPECT_EQ(got.busiest_second, want["busiest_second"].get<std::int64_t>());
  EXPECT_NEAR(got.dispersion_per_second, want["dispersion_per_second"].get<double>(), 0.0051);
}

TEST(RealTraces, HaveTheSummariesOfIndependentStatistics) {
  const nlohmann::json all = oracles();
  for (const auto& [name, want] : all.items()) {
    SCOPED_TRACE(name);
    const TraceSummary got = summarise(read_trace(kTests / "real" / name));
    EXPECT_EQ(got.rows, want["rows"].get<std::int64_t>());
    expect_lengths(got.input, want["input"]);
    expect_lengths(got.output, want["output"]);
    EXPECT_NEAR(got.correlation, want["pearson"].get<double>(), 0.00006);
    expect_arrivals(got.arrivals.value(), want["arrival"]);
    if (want.contains("prefix_hit_ratio")) {
      EXPECT_NEAR(got.prefix_hit_ratio, want["prefix_hit_ratio"].get<double>(), 0.00006);
    }
  }
}

}  // namespace
}  // namespace plimsoll::traces
