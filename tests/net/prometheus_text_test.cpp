// SPDX-License-Identifier: Apache-2.0
#include "net/prometheus_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll::net {
namespace {

TEST(PrometheusText, ReadsSamplesWithAndWithoutLabels) {
  const auto samples = parse_prometheus(
      "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{model_name=\"a\",engine=\"0\",} 3.0\nup 1 1700000000000\n\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].name, "vllm:num_requests_running");
  EXPECT_EQ(samples[0].value, 3);
  ASSERT_NE(samples[0].label("engine"), nullptr);
  EXPECT_EQ(*samples[0].label("engine"), "0");
  EXPECT_EQ(samples[0].label("none"), nullptr);
  EXPECT_EQ(samples[1].name, "up");
  EXPECT_EQ(samples[1].value, 1);
}

TEST(PrometheusText, UnescapesLabels) {
  const auto sample = parse_prometheus_line(R"(x{a="q\"b\\s\nl",b="},="} 2)");
  ASSERT_TRUE(sample);
  EXPECT_EQ(*sample->label("a"), "q\"b\\s\nl");
  EXPECT_EQ(*sample->label("b"), "},=");
}

TEST(PrometheusText, KnowsNumbersThatAreNone) {
  EXPECT_TRUE(std::isinf(parse_prometheus_line("x +Inf")->value));
  EXPECT_LT(parse_prometheus_line("x -Inf")->value, 0);
  EXPECT_TRUE(std::isnan(parse_prometheus_line("x NaN")->value));
  EXPECT_EQ(parse_prometheus_line("x{le=\"+Inf\"} 1e3")->value, 1000);
}

// As much of a page as possible is read: an invalid line does not hide the next one.
TEST(PrometheusText, SkipsLinesThatAreNoSamples) {
  const auto samples = parse_prometheus("x{a=\"unclosed 1\nx{a=1} 1\nx{a} 1\n1x 1\nx\nx y\n{} 1\nx{a=\"b\"}\nok 7\r\n");
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].name, "ok");
  EXPECT_EQ(samples[0].value, 7);
}

TEST(PrometheusText, ReadsNoMoreThanItsLimits) {
  std::string text;
  for (std::size_t i = 0; i < kMaxPrometheusSamples + 10; ++i) text += "a 1\n";
  EXPECT_EQ(parse_prometheus(text).size(), kMaxPrometheusSamples);
}

}  // namespace
}  // namespace plimsoll::net
