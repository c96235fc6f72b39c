#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what build_to_use (scripts/build.sh) does when the build fails. ninja and cmake are replaced: ninja exits with
# the statuses of a list, and cmake writes the option that it was given. Argument: a folder to work in.
set -euo pipefail

source_root=$(readlink -f -- "$(dirname -- "${BASH_SOURCE[0]}")/../..") scratch=$1
rm -rf "$scratch" && mkdir -p "$scratch/bin" "$scratch/build/release"

cat > "$scratch/bin/ninja" <<'END'
#!/bin/bash
echo ninja >> calls
status=$(head -n 1 statuses); sed -i 1d statuses
exit "$status"
END
cat > "$scratch/bin/cmake" <<'END'
#!/bin/bash
echo "cmake ${*: -1}" >> calls
[[ $* == *PLIMSOLL_UNITY=ON* ]] && unity=ON || unity=OFF
sed -i "s/UNITY:STRING=.*/UNITY:STRING=$unity/" build/release/CMakeCache.txt
END
chmod +x "$scratch"/bin/*
touch "$scratch/build/release/build.ninja"

# expect NAME "STATUSES OF NINJA" STATUS UNITY CALLS…: of build_to_use, beginning with sources compiled together.
expect() {
  local name=$1 status=0 calls unity
  tr ' ' '\n' <<< "$2" > "$scratch/statuses"
  : > "$scratch/calls"
  printf '%s\n' "CMAKE_HOME_DIRECTORY:INTERNAL=$scratch" PLIMSOLL_UNITY:STRING=ON > "$scratch/build/release/CMakeCache.txt"
  (cd "$scratch" && root=$scratch PATH="$scratch/bin:$PATH" bash -c "source '$source_root/scripts/build.sh'
   build_to_use release all") > "$scratch/log" 2>&1 || status=$?
  calls=$(paste -sd, "$scratch/calls") unity=$(sed -n 's/.*UNITY:STRING=//p' "$scratch/build/release/CMakeCache.txt")
  [[ $status == "$3" && $unity == "$4" && $calls == "$5" ]] && return 0
  echo "$name: exit status $status, PLIMSOLL_UNITY=$unity, calls $calls; expected $3, $4, $5"
  cat "$scratch/log"
  exit 1
}

alone='cmake -DPLIMSOLL_UNITY=OFF' together='cmake -DPLIMSOLL_UNITY=ON'
expect "a build that succeeds" "0" 0 ON "ninja"
expect "an interrupted build is not repeated" "2" 3 ON "ninja"
expect "a killed build is not repeated" "130" 3 ON "ninja"
expect "sources that only collide are built alone" "1 0" 0 OFF "ninja,$alone,ninja"
expect "a wrong source leaves the configuration as it was" "1 1" 3 ON "ninja,$alone,ninja,$together"
expect "an interrupted second build as well" "1 2" 3 ON "ninja,$alone,ninja,$together"
