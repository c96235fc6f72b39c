// SPDX-License-Identifier: Apache-2.0
#include "net/prometheus_writer.h"

#include <gtest/gtest.h>

namespace plimsoll::net {
namespace {

TEST(PrometheusWriter, WritesFamiliesAsPrometheusReadsThem) {
  PrometheusWriter out;
  out.family("v:tokens_total", MetricType::counter, "All\nof them.");
  out.sample(PrometheusWriter::label("model_name", "a\"b\\c\nd"), 3);
  out.family("v:load", MetricType::gauge, "Load.");
  out.sample("", 0.25);
  EXPECT_EQ(out.take(),
            "# HELP v:tokens_total All\\nof them.\n# TYPE v:tokens_total counter\n"
            "v:tokens_total{model_name=\"a\\\"b\\\\c\\nd\"} 3.0\n"
            "# HELP v:load Load.\n# TYPE v:load gauge\nv:load 0.25\n");
}

// An upper bound belongs to its bucket, and buckets are cumulative.
TEST(PrometheusWriter, BucketsAreCumulative) {
  BucketCounts counts({0.5, 1});
  for (const double value : {0.25, 0.5, 0.75, 4.0}) counts.observe(value);
  PrometheusWriter out;
  out.family("t_seconds", MetricType::histogram, "T.");
  out.histogram("a=\"b\"", counts);
  EXPECT_EQ(out.take(),
            "# HELP t_seconds T.\n# TYPE t_seconds histogram\n"
            "t_seconds_bucket{a=\"b\",le=\"0.5\"} 2.0\nt_seconds_bucket{a=\"b\",le=\"1.0\"} 3.0\n"
            "t_seconds_bucket{a=\"b\",le=\"+Inf\"} 4.0\nt_seconds_count{a=\"b\"} 4.0\nt_seconds_sum{a=\"b\"} 5.5\n");
}

}  // namespace
}  // namespace plimsoll::net
