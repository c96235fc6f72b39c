// SPDX-License-Identifier: Apache-2.0
// The readers on small files written here, so that the code is tested even without the shared corpus.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "traces/reader.h"
#include "traces/summary.h"

namespace plimsoll::traces {
namespace {

namespace fs = std::filesystem;

class Reader : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("plimsoll-traces-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string write_gzip(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    gzFile out = gzopen(path.c_str(), "wb9");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
    return path;
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {(std::istreambuf_iterator<char>(in)), {}};
  }
  static TraceProblem refusal(const std::string& path, const ReadOptions& options = {}) {
    try {
      (void)read_trace(path, options);
    } catch (const TraceError& error) {
      return error.problem();
    }
    ADD_FAILURE() << path << " was accepted";
    return {};
  }
  TraceProblem refusal_of(const std::string& text) const { return refusal(write("t.csv", text)); }

  fs::path folder_;
};

const std::string kOwn = "arrival_s,input_tokens,output_tokens\n";

TEST_F(Reader, OurOwnCsvKeepsTimesLengthsSessionsAndPrefixes) {
  const std::string path =
      write("own.csv",
            "arrival_s,input_tokens,output_tokens,session,prefix\n0.5,40,7,3,11 12\n0.75,8,1,,\n2,33,2,3,11 12 13\n");
  const Trace trace = *read_trace(path).trace;
  EXPECT_EQ(trace.format, "plimsoll");
  ASSERT_EQ(trace.records.size(), 3U);
  EXPECT_EQ(trace.first_arrival, 500'000'000);
  EXPECT_EQ(trace.records[1].arrival, 250'000'000);  // 0.75 s - 0.5 s
  EXPECT_EQ(trace.records[2].arrival, 1'500'000'000);
  EXPECT_EQ(trace.records[0].session, trace.records[2].session);
  EXPECT_EQ(trace.records[1].session, 0U);
  EXPECT_EQ(trace.hash_block_tokens, 16);
  EXPECT_EQ(trace.hashes, (std::vector<std::uint64_t>{11, 12, 11, 12, 13}));
  EXPECT_EQ(trace.hash_ends, (std::vector<std::uint32_t>{2, 2, 5}));
  EXPECT_EQ(trace.hashes_of(0).size(), 2U);
  EXPECT_TRUE(trace.hashes_of(1).empty());
  EXPECT_EQ(trace.hashes_of(2).back(), 13U);
}

// Rows that state none have priority 0, and so have files without the column.
TEST_F(Reader, OurOwnCsvKeepsPriorities) {
  const std::string head = "arrival_s,input_tokens,output_tokens,priority\n";
  const Trace trace = *read_trace(write("p.csv", head + "0,4,7,\n1,8,1,-3\n2,0,1,9\n3,5,2,2147483647\n")).trace;
  ASSERT_EQ(trace.records.size(), 3U);
  EXPECT_EQ(trace.priority_of(0), 0);
  EXPECT_EQ(trace.priority_of(1), -3);
  EXPECT_EQ(trace.priority_of(2), 2147483647);  // the row before it has no prompt and is left out
  EXPECT_EQ(read_trace(write("n.csv", kOwn + "0,4,7\n")).trace->priority_of(0), 0);
  EXPECT_EQ(refusal_of(head + "0,4,7,2147483648\n").code, "out-of-range");
  EXPECT_EQ(refusal_of(head + "0,4,7,1.5\n").code, "not-an-integer");
  EXPECT_EQ(refusal_of(head + "0,4,7,high\n").code, "not-a-number");
  EXPECT_EQ(refusal_of(head + "0,4,7,-\n").column, "priority");
}

TEST_F(Reader, OurOwnCsvMayStateTheGapAfterAnAnswer) {
  const std::string path =
      write("g.csv", "arrival_s,input_tokens,output_tokens,session,gap_s\n0,5,5,1,\n1,5,5,1,2.5\n");
  const ReadResult read = read_trace(path);
  const Trace& trace = *read.trace;
  EXPECT_EQ(trace.gap_of(0), -1);
  EXPECT_EQ(trace.gap_of(1), 2'500'000'000);
  EXPECT_FALSE(trace.needs_answers);
}

TEST_F(Reader, ZonesAndFractionsOfAzureAreApplied) {
  // 00:00:05+00:00 and 00:00:06.25-07:00 are seven hours and 1.25 s apart.
  const Trace trace = *read_trace(write("a.csv",
                                        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 "
                                        "00:00:05+00:00,3,4\n2024-05-12 00:00:06.25-07:00,5,6\n"))
                           .trace;
  EXPECT_EQ(trace.format, "azure2024");
  EXPECT_EQ(trace.first_arrival, 1'715'472'005'000'000'000);  // date -u -d '2024-05-12 00:00:05' +%s
  EXPECT_EQ(trace.records[1].arrival, 7 * 3600 * Nanos{1'000'000'000} + 1'250'000'000);
}

TEST_F(Reader, ColumnsMayBeQuotedReorderedAndUnknown) {
  const Trace trace = *read_trace(write("q.csv",
                                        "\xEF\xBB\xBFnote,\"output_tokens\",input_tokens,arrival_s\r\n\"a, "
                                        "\"\"b\"\"\",\"7\",5,1\r\n\r\nx,8,6,1"))
                           .trace;
  ASSERT_EQ(trace.records.size(), 2U);
  EXPECT_EQ(trace.records[0].output_tokens, 7);
  EXPECT_EQ(trace.records[1].input_tokens, 6);
}

TEST_F(Reader, MooncakeKeepsItsBlockIds) {
  const Trace trace = *read_trace(write("m.jsonl",
                                        "{\"timestamp\": 27, \"input_length\": 513, \"output_length\": 2, "
                                        "\"hash_ids\": [4, 9], \"x\": {\"y\": [1, null, \"\\u00e9\"]}}\n"))
                           .trace;
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_EQ(trace.first_arrival, 27'000'000);
  EXPECT_EQ(trace.hash_block_tokens, 512);
  EXPECT_EQ(trace.hashes, (std::vector<std::uint64_t>{4, 9}));  // ceil(513/512) = 2 blocks
}

// Block ids may be missing, from all rows or from some. Such a row shares nothing, and there is one warning per file.
TEST_F(Reader, RowsWithoutBlockIdsShareNothing) {
  const std::string row = "{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 2";
  const ReadResult bare = read_trace(write("bare.jsonl", row + "}\n" + row + "}\n"));
  EXPECT_EQ(bare.trace->format, "mooncake");
  EXPECT_EQ(bare.trace->rows_without_blocks, 2);
  EXPECT_EQ(bare.trace->hash_block_tokens, 0);
  ASSERT_EQ(bare.warnings.size(), 1U);
  EXPECT_EQ(bare.warnings[0].code, "no-block-ids");
  EXPECT_EQ(bare.warnings[0].text, "2 of 2 rows: no 'hash_ids' (first: line 1): they share no prefix with others");
  const ReadResult some = read_trace(write("some.jsonl", row + ", \"hash_ids\": [4, 9]}\n" + row + "}\n"));
  EXPECT_EQ(some.trace->rows_without_blocks, 1);
  EXPECT_EQ(some.trace->hashes_of(0).size(), 2U);
  EXPECT_TRUE(some.trace->hashes_of(1).empty());
  const ReadResult qwen =
      read_trace(write("q.jsonl",
                       "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 1.5, \"input_length\": 20, "
                       "\"output_length\": 2, \"type\": \"text\", \"turn\": 1}\n"));
  EXPECT_EQ(qwen.trace->format, "qwen_bailian");
  EXPECT_EQ(qwen.trace->rows_without_blocks, 1);
}

// The dialect of AIPerf: sessions by text or number, later turns by the delay after the answer.
TEST_F(Reader, MooncakeMayNameSessionsAndDelays) {
  const std::string path =
      write("m.jsonl",
            "{\"timestamp\": 1000, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [1], "
            "\"session_id\": \"a\"}\n"
            "{\"timestamp\": 4000, \"input_length\": 50, \"output_length\": 5, \"hash_ids\": [2], "
            "\"session_id\": 7}\n"
            "{\"delay\": 2500, \"input_length\": 200, \"output_length\": 9, \"hash_ids\": [3], "
            "\"session_id\": \"a\"}\n");
  const ReadResult read = read_trace(path);
  const Trace& trace = *read.trace;
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_EQ(trace.records[0].session, trace.records[2].session);
  EXPECT_NE(trace.records[0].session, trace.records[1].session);
  EXPECT_EQ(trace.gap_of(0), -1);
  EXPECT_EQ(trace.gap_of(2), 2'500'000'000);
  EXPECT_TRUE(trace.needs_answers);
  EXPECT_EQ(trace.records[2].arrival, 3'000'000'000) << "its place in the file";
  const auto only = [&](const std::string& text) { return refusal(write("n.jsonl", text)).code; };
  EXPECT_EQ(only("{\"delay\": 1, \"input_length\": 1, \"output_length\": 5, \"session_id\": 1}\n"), "missing-key")
      << "no turn before it, so it needs a time";
  EXPECT_EQ(only("{\"timestamp\": 1, \"delay\": 1, \"input_length\": 1, \"output_length\": 5}\n"), "missing-key")
      << "a delay after which answer?";
}

// An agentic record is a session: each turn follows after the tools of the previous one. A file may contain agentic and
// flat records.
TEST_F(Reader, AgenticRecordsAreSessions) {
  const std::string path =
      write("a.jsonl",
            "{\"input_toks\": 10, \"output_toks\": 2, \"arrival_time_ns\": 1000}\n"
            "{\"session_id\": \"s\", \"arrival_time_ns\": 3000, \"sub_requests\": [{\"input_toks\": 100, "
            "\"output_toks\": 20, "
            "\"tool_duration_ns\": 500, \"input_tok_ids\": [1, 2]}, {\"input_toks\": 150, \"output_toks\": 7}]}\n");
  const ReadResult read = read_trace(path);
  const Trace& trace = *read.trace;
  EXPECT_EQ(trace.format, "llmservingsim");
  ASSERT_EQ(trace.records.size(), 3U);
  EXPECT_EQ(trace.records[0].session, 0U);
  EXPECT_EQ(trace.records[1].arrival, 2000);
  EXPECT_EQ(trace.records[2].input_tokens, 150);
  EXPECT_EQ(trace.records[1].session, trace.records[2].session);
  EXPECT_EQ(trace.gap_of(1), -1);
  EXPECT_EQ(trace.gap_of(2), 500);
  const auto only = [&](const std::string& text) {
    return refusal(write("b.jsonl", "{\"arrival_time_ns\": 1, \"sub_requests\": " + text + "}\n")).code;
  };
  EXPECT_EQ(only("[]"), "empty-field");
  EXPECT_EQ(only("[{\"input_toks\": 5}]"), "missing-key");
  EXPECT_EQ(only("[{\"input_toks\": \"5\", \"output_toks\": 1}]"), "wrong-type");
  EXPECT_EQ(only("[{\"input_toks\": 5, \"output_toks\": 1, \"tool_duration_ns\": -1}]"), "negative");
  EXPECT_EQ(only("[5]"), "wrong-type");
  EXPECT_EQ(only("{}"), "wrong-type");
  EXPECT_EQ(only("[{\"input_toks\": 5, \"output_toks\": 1}"), "json-syntax");
}

TEST_F(Reader, MessagesNameFileLineByteAndColumn) {
  const std::string path = write("bad.csv", kOwn + "0,5,x7\n");
  const TraceProblem problem = refusal(path);
  EXPECT_EQ(to_string(problem), path + ":2:5: output_tokens: token count is 'x7' [not-a-number]");
  try {
    (void)read_trace(path);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), to_string(problem));
  }
}

TEST_F(Reader, EachFaultHasItsCode) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "empty-file"},
      {"\n\n", "no-rows"},
      {kOwn, "no-rows"},
      {kOwn + "0,0,1\n", "no-rows"},
      {kOwn + "0,-5,1\n", "negative"},
      {kOwn + "0,2147483648,1\n", "out-of-range"},
      {kOwn + "0,1.5,1\n", "not-an-integer"},
      {kOwn + "0,1e3,1\n", "not-a-number"},
      {kOwn + "0,,1\n", "empty-field"},
      {kOwn + "0,1\n", "field-count"},
      {kOwn + "1,1,1\n0,1,1\n", "unsorted"},
      {kOwn + "inf,1,1\n", "bad-timestamp"},
      {kOwn + "1e300,1,1\n", "out-of-range"},
      {kOwn + "0,\"1,1\n", "unterminated-quote"},
      {kOwn + "0,\"1\"2,1\n", "bad-quote"},
      {kOwn + "0,1,1\n" + kOwn, "repeated-header"},
      {"arrival_s;input_tokens;output_tokens\n0;1;1\n", "wrong-delimiter"},
      {"1,2,3\n", "missing-header"},
      {"a,b\n1,2\n", "unknown-format"},
      {"[{}]", "json-array"},
      {"<!DOCTYPE html>\n", "not-this-format"},
      {std::string("\xFF\xFE"
                   "a\0b\0",
                   6),
       "utf16"},
      {std::string("a\0r\0r\0i\0", 8), "utf16"},
      {"version https://git-lfs.github.com/spec/v1\nsize 7\n", "lfs-pointer"},
      {kOwn + "0,1\xFF,1\n", "invalid-utf8"},
      {kOwn + std::string("0,1\0,1\n", 7), "nul-byte"},
      {"arrival_s,input_tokens,output_tokens\r0,1,1\r", "bare-cr"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-29 00:00:00,1,1\n", "bad-timestamp"},
  };
  for (const auto& [text, code] : cases) EXPECT_EQ(refusal_of(text).code, code) << text;
}

TEST_F(Reader, ZeroTokensAreLeftOutAndCounted) {
  const ReadResult result = read_trace(write("z.csv", kOwn + "0,1,1\n1,1,0\n2,1,0\n3,0,1\n4,1,1\n"));
  EXPECT_EQ(result.trace->records.size(), 2U);
  EXPECT_EQ(result.rows_skipped, 3);
  ASSERT_EQ(result.warnings.size(), 2U);
  EXPECT_EQ(result.warnings[0].text, "2 of 5 rows: 0 output tokens (first: line 3): skipped");
  EXPECT_EQ(result.warnings[1].line, 5U);
}

TEST_F(Reader, PathsThatAreNoFilesAreBadInput) {
  EXPECT_EQ(refusal(folder_).code, "is-a-directory");
  EXPECT_EQ(refusal(folder_ / "absent.csv").code, "not-found");
  EXPECT_EQ(refusal("").code, "not-found");
  const std::string secret = write("secret.csv", kOwn);
  fs::permissions(secret, fs::perms::none);
  if (::geteuid() != 0) {
    EXPECT_EQ(refusal(secret).code, "cannot-open");
  }
  ReadOptions unknown;
  unknown.format = "excel";
  EXPECT_THROW((void)read_trace(secret, unknown), InputError);
}

TEST_F(Reader, GzipIsReadByContentAndDamageIsFound) {
  std::string text = kOwn;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + ",100,10\n";
  const std::string path = write_gzip("g.bin", text);
  EXPECT_EQ(read_trace(path).trace->records.size(), 20000U);
  std::string bytes = bytes_of(path);
  EXPECT_EQ(refusal(write("cut.csv.gz", bytes.substr(0, bytes.size() / 2))).code, "gzip-truncated");
  EXPECT_EQ(refusal(write("tail.csv.gz", bytes + "junk")).code, "gzip-trailing");
  EXPECT_EQ(read_trace(write("pad.csv.gz", bytes + std::string(512, '\0'))).trace->records.size(), 20000U);
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // inside the stored CRC and length
  EXPECT_EQ(refusal(write("crc.csv.gz", bytes)).code, "gzip-crc");
  EXPECT_EQ(refusal(write("plain.csv.gz", text)).code, "gzip-magic");
}

TEST_F(Reader, ADamagedArchiveIsToldBeforeTheTextInIt) {
  const std::string path = write_gzip("t.csv.gz", kOwn + "0,x,1\n" + std::string(1000, '\n'));
  EXPECT_EQ(refusal(path).code, "not-a-number");
  fs::resize_file(path, fs::file_size(path) - 4);
  EXPECT_EQ(refusal(path).code, "gzip-truncated");
}

TEST_F(Reader, EndlessExpansionIsRefused) {
  // A single long line stops at the line limit; repeated short rows stop at the expansion ratio (about 1000:1).
  EXPECT_EQ(refusal(write_gzip("line.csv.gz", kOwn + std::string(std::size_t{20} << 20, '1'))).code, "line-too-long");
  const std::string header = "arrival_s,input_tokens,output_tokens,note\n";
  std::string rows;
  while (rows.size() < (std::size_t{4} << 20)) rows += "0,1,1," + std::string(5000, 'x') + "\n";
  const std::string first = bytes_of(write_gzip("first.gz", header + rows)),
                    more = bytes_of(write_gzip("more.gz", rows));
  std::string members = first;  // 17 members of 4 MiB exceed the 64 MiB that may expand freely
  for (int i = 0; i < 16; ++i) members += more;
  EXPECT_EQ(refusal(write("rows.csv.gz", members)).code, "gzip-bomb");
}

TEST_F(Reader, AHugeFieldIsRefusedQuicklyAndShownShort) {
  const TraceProblem problem = refusal_of(kOwn + "0," + std::string(100'000, '9') + ",1\n");
  EXPECT_EQ(problem.code, "out-of-range");
  EXPECT_LT(problem.text.size(), 200U);
}

TEST_F(Reader, DeepJsonDoesNotOverflowTheStack) {
  const std::string deep(200'000, '[');
  EXPECT_EQ(refusal(write("d.jsonl", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[0],\"x\":" +
                                         deep + "\n"))
                .code,
            "json-depth");
}

TEST_F(Reader, LinesAcrossBufferPiecesAreWhole) {
  // 60,000 rows of varying width exceed the 256 KiB buffer several times, so some rows cross its boundaries.
  std::string text = kOwn;
  std::int64_t sum = 0;
  for (int i = 0; i < 60000; ++i) {
    text += std::to_string(i) + ".5," + std::to_string(1 + i % 5000) + ",3\n";
    sum += 1 + i % 5000;
  }
  const TraceSummary summary = summarise(read_trace(write("long.csv", text)));
  EXPECT_EQ(summary.rows, 60000);
  EXPECT_EQ(summary.input.sum, sum);
}

TEST_F(Reader, SummaryOfAHandMadeTrace) {
  // Gaps of 0, 1, 2 s: mean 1, variance 2/3. Counts in the whole seconds 0, 1, 2 are 2, 1, 0: mean 1, variance 2/3.
  const TraceSummary s = summarise(read_trace(write(
      "s.csv",
      "arrival_s,input_tokens,output_tokens,session,prefix\n5,32,1,1,7 8\n5,48,2,2,7 8 9\n6,16,3,1,7\n8,64,4,,\n")));
  ASSERT_TRUE(s.arrivals.has_value());
  EXPECT_EQ(s.arrivals->span, 3'000'000'000);
  EXPECT_DOUBLE_EQ(s.arrivals->mean_rate, 1.0);  // 3 gaps in 3 s
  EXPECT_EQ(s.arrivals->busiest_second, 2);
  EXPECT_EQ(s.arrivals->busiest_minute, 4);
  EXPECT_EQ(s.arrivals->equal_stamps, 1);
  EXPECT_NEAR(s.arrivals->gap_cv, std::sqrt(2.0 / 3.0), 1e-12);
  EXPECT_NEAR(s.arrivals->dispersion_per_second, 2.0 / 3.0, 1e-12);
  EXPECT_DOUBLE_EQ(s.input.p50, 40.0);  // between 32 and 48
  EXPECT_DOUBLE_EQ(s.input.mean, 40.0);
  EXPECT_EQ(s.sessions, 2);
  EXPECT_EQ(s.unique_blocks, 3);
  EXPECT_DOUBLE_EQ(s.prefix_hit_ratio, (2 + 1) * 16 / 160.0);  // row 2 hits 7 8, row 3 hits 7
}

}  // namespace
}  // namespace plimsoll::traces
