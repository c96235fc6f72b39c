// SPDX-License-Identifier: Apache-2.0
#include "validation/report.h"

#include <gtest/gtest.h>

namespace plimsoll::validation {
namespace {

Comparison compared(const MeasuredPoint& point, double predicted, double low, double high) {
  Comparison c;
  c.point = &point;
  c.table = "mine & <yours>";
  c.metric = "tpot_mean_s";
  c.measured = 0.010;
  c.predicted = predicted;
  c.low = low;
  c.high = high;
  c.kv_used = 0.45;
  c.time_parts = {0.5, 0.25, 0, 0, 0.25, 0, 0, 0};
  return c;
}

TEST(HtmlReport, NeedsNothingElseAndEscapesWhatItShows) {
  MeasuredPoint point;
  point.model = "llama-2-7b";
  point.hardware = "a100-sxm-40gb x 8";
  point.input_tokens = 256;
  point.output_tokens = 256;
  // Errors of +10 % and -20 %: mean 15 %, bias -5 %; the second band does not contain the measured 10 ms.
  const std::string page =
      comparison_html("T", {"a <note>"}, {compared(point, 0.011, 0.009, 0.012), compared(point, 0.008, 0.007, 0.009)});
  for (const char* phrase : {"<!DOCTYPE html>", "a &lt;note&gt;", "mine &amp; &lt;yours&gt;", "<svg", "15.0 %",
                             "-5.0 %", "50 %", "Errors by TP degree", "0 to 512 tokens", "30 to 60 %", "</html>"})
    EXPECT_NE(page.find(phrase), std::string::npos) << phrase;
  for (const char* phrase : {"http://", "https://", "<script", "src="}) {
    std::string rest = page;
    for (std::size_t at; (at = rest.find("http://www.w3.org/2000/svg")) != std::string::npos;)
      rest.erase(at, 26);  // the XML namespace of SVG
    EXPECT_EQ(rest.find(phrase), std::string::npos) << phrase;
  }
}

}  // namespace
}  // namespace plimsoll::validation
