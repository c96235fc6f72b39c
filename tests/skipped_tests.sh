#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# skipped_tests.sh FOLDER: one line with how many tests the last ctest run of a build folder skipped, and why (GoogleTest's
# "file:line: Skipped" and the reason behind it).
set -euo pipefail
logs=("$1"/Testing/Temporary/LastTest.log.tmp "$1"/Testing/Temporary/LastTest.log)
for log in "${logs[@]}"; do
  [[ -f $log ]] || continue
  awk '
    is_reason { reason = $0; sub(/^[ \t]+/, "", reason); count[reason == "" ? "no reason is given" : reason]++; total++; is_reason = 0; next }
    /:[0-9]+: Skipped$/ { is_reason = 1 }
    END {
      if (total == 0) { print "no test was skipped"; exit }
      line = total " test" (total == 1 ? " was" : "s were") " skipped: "
      for (reason in count) { line = line separator count[reason] " (" reason ")"; separator = ", " }
      print line
    }' "$log"
  exit
done
