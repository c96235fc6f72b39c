// SPDX-License-Identifier: Apache-2.0
#include "configs/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <clocale>
#include <cmath>

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;

TEST(Quantity, ReadsEveryUnit) {
  struct Good {
    const char* text;
    Dimension dimension;
    double value;
  };
  const Good table[] = {
      {"60 s", Dimension::seconds, 60},
      {"60s", Dimension::seconds, 60},
      {"  1.5   ms\t", Dimension::seconds, 1.5e-3},
      {"250 us", Dimension::seconds, 250e-6},
      {"250 \u00b5s", Dimension::seconds, 250e-6},  // micro sign
      {"250 \u03bcs", Dimension::seconds, 250e-6},  // Greek mu
      {"4 ns", Dimension::seconds, 4e-9},
      {"10 min", Dimension::seconds, 600},
      {"2 h", Dimension::seconds, 7200},
      {"1 d", Dimension::seconds, 86400},
      {"+3 s", Dimension::seconds, 3},
      {"-3 s", Dimension::seconds, -3},  // the caller checks the range
      {"80 GiB", Dimension::bytes, 85899345920.},
      {"80 GB", Dimension::bytes, 80e9},
      {"1.5 KiB", Dimension::bytes, 1536},
      {"4 kB", Dimension::bytes, 4000},
      {"2 TiB", Dimension::bytes, 2199023255552.},
      {"42505076736 B", Dimension::bytes, 42505076736.},
      {"1.555 TB/s", Dimension::bytes_per_second, 1.555e12},
      {"1 GiB/s", Dimension::bytes_per_second, 1073741824.},
      {"312 TFLOP/s", Dimension::flops_per_second, 312e12},
      {"624 TOP/s", Dimension::flops_per_second, 624e12},
      {"1.979 PFLOP/s", Dimension::flops_per_second, 1.979e15},
      {"4 /s", Dimension::per_second, 4},
      {"4/s", Dimension::per_second, 4},
      {"90 req/min", Dimension::per_second, 1.5},
      {"32.7726 USD", Dimension::usd, 32.7726},
      {"1e3 s", Dimension::seconds, 1000},
  };
  for (const Good& good : table) {
    const Parsed parsed = parse_quantity(good.text, good.dimension);
    ASSERT_TRUE(parsed.value) << good.text << ": " << parsed.problem;
    EXPECT_DOUBLE_EQ(*parsed.value, good.value) << good.text;
  }
}

TEST(Quantity, SaysWhatIsWrong) {
  struct Bad {
    const char* text;
    Dimension dimension;
    const char* problem;
  };
  const Bad table[] = {
      {"", Dimension::seconds, "expected a number and a unit, as in '1 s'"},
      {"s", Dimension::seconds, "expected a number and a unit"},
      {"fast", Dimension::per_second, "as in '1 /s'"},
      {"60", Dimension::seconds, "a unit is missing; write for example '60 s'"},
      {"80", Dimension::bytes, "'80 GiB' (units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"},
      {"60 S", Dimension::seconds, "unknown unit 'S'; allowed: ns, us, ms, s, sec, min, h, d"},
      {"60 GB", Dimension::seconds, "unknown unit 'GB'"},
      {"60 GB/s", Dimension::bytes, "unknown unit 'GB/s'"},
      {"80 gb", Dimension::bytes, "unknown unit 'gb'"},
      {"1,5 s", Dimension::seconds, "unknown unit ',5 s'"},
      {"0x10 s", Dimension::seconds, "unknown unit 'x10 s'"},
      {"1.2.3 s", Dimension::seconds, "unknown unit '.3 s'"},
      {"5 s s", Dimension::seconds, "unknown unit 's s'"},
      {"nan s", Dimension::seconds, "expected a finite number"},
      {"inf s", Dimension::seconds, "expected a finite number"},
      {"-infinity GiB", Dimension::bytes, "expected a finite number"},
      {"1e999 s", Dimension::seconds, "the number is out of range"},
      {"1e308 TB", Dimension::bytes, "the number is out of range"},
      {"+-1 s", Dimension::seconds, "expected a number and a unit"},
      {"++1 s", Dimension::seconds, "expected a number and a unit"},
  };
  for (const Bad& bad : table) {
    const Parsed parsed = parse_quantity(bad.text, bad.dimension);
    EXPECT_FALSE(parsed.value) << bad.text;
    EXPECT_THAT(parsed.problem, HasSubstr(bad.problem)) << bad.text;
  }
}

TEST(Quantity, AnOverlongUnitIsCutAtAWholeCharacter) {
  std::string text = "1 ";
  for (int i = 0; i < 1000; ++i) text += "é";
  // 20 bytes, 3 of which are the ellipsis: the other 17 hold eight two-byte characters.
  EXPECT_THAT(parse_quantity(text, Dimension::seconds).problem, HasSubstr("'éééééééé…'"));
}

TEST(Number, TakesUpTheWholeText) {
  EXPECT_EQ(parse_number("1e3"), 1000);
  EXPECT_EQ(parse_number(" +0.5 "), 0.5);
  EXPECT_EQ(parse_number("-7"), -7);
  for (const char* bad : {"", " ", "1 2", "1x", "0x10", "1_000", "1,5", "nan", "inf", "1e999", "+-5", "+", "--5", "٣"})
    EXPECT_FALSE(parse_number(bad)) << bad;
}

TEST(Number, DoesNotHearOfTheLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // if it is installed
  EXPECT_EQ(parse_number("1.5"), 1.5);
  EXPECT_EQ(number_text(1.5), "1.5");
  std::setlocale(LC_ALL, before.c_str());
}

RC_GTEST_PROP(Number, TextReadsBackAsTheSameNumber, (double value)) {
  RC_PRE(std::isfinite(value));
  RC_ASSERT(parse_number(number_text(value)) == value);
}

TEST(Nearest, IsTheOneThatMayBeMeant) {
  const std::vector<std::string> names = {"tp", "replicas", "router", "instances"};
  EXPECT_EQ(nearest("replica", names), "replicas");
  EXPECT_EQ(nearest("roter", names), "router");
  EXPECT_EQ(nearest("completely different", names), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), names), "");  // this must also be fast
}

}  // namespace
}  // namespace plimsoll::configs
