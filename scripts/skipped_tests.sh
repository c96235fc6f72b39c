#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the last line of a ctest run: how many tests were skipped, and why. Reads the log that ctest has just written,
# in Testing/Temporary of the build folder $1. ctest itself runs this script (CTestCustom.cmake in the build folder).
log="$1/Testing/Temporary/LastTest.log.tmp"      # its name until ctest ends
[ -f "$log" ] || log="$1/Testing/Temporary/LastTest.log"
[ -f "$log" ] || exit 0
awk '
  /: Skipped$/ { getline reason }                  # of a gtest: FILE:LINE: Skipped, then the reason
  /^\[  SKIPPED \] .*\([0-9]+ ms\)$/ {
    if (reason == "") reason = "no reason given"
    if (!(reason in count)) order[++reasons] = reason
    count[reason]++; all++; reason = ""
  }
  END {
    line = all + 0 " tests skipped"
    for (i = 1; i <= reasons; i++) line = line (i == 1 ? ": " : "; ") count[order[i]] " " order[i]
    print line
  }' "$log"
