#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./check --mutants: checks that broken kernels fail the tests. Each patch in tests/exec/cuda/mutants breaks one line.
# The affected object is compiled with the patch and linked into a copy of the emulated tests; at least one of the tests
# that the patch names must fail. Finished mutants run again only if a kernel, a test or the patch changes. Arguments:
# names of mutants (default: all).
set -euo pipefail

root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
folder="$root/tests/exec/cuda/mutants" work="$root/build/mutants" build="$root/build/release"
program=tests/exec/cuda/plimsoll_exec_emulated_test
readonly kSeeds=3 kSeconds=600   # of schedules, until a test fails; of one mutant, on a loaded machine

mkdir -p "$work"
state=$(cat "$root"/exec/cuda/* "$root"/tests/exec/cuda/*.* "$root"/tests/exec/cuda/em*/*.* \
          "$root"/tests/exec/cuda/emulation/exec/cuda/* | sha256sum | cut -c1-16)

# command_for OUTPUT: prints the command with which ninja makes it.
command_for() { ninja -C "$build" -t commands "$1" | tail -n 1; }

# build_mutant PATCH OBJECT: compiles the broken source and links it; prints the program's path.
build_mutant() {
  local patch=$1 object=$2 source="$work/source" compile link output
  rm -rf "$source" && mkdir -p "$source/exec/cuda"
  cp "$root"/exec/cuda/*.cu* "$source/exec/cuda/"
  rm "$source/exec/cuda/ptx.cuh" "$source/exec/cuda/launch.cuh"     # the emulation has its own
  patch --quiet -p1 -d "$source" < "$patch" || { echo "the patch does not fit" >&2; return 1; }
  output=tests/exec/cuda/CMakeFiles/plimsoll_exec_emulated_test.dir/__/__/__/$object.o
  compile=$(command_for "$output")
  compile=${compile//" ../../$object"/" $source/$object"}
  compile=${compile//" $root/$object"/" $source/$object"}
  compile=${compile//" -I../.. "/" -I$source -I../.. "}
  compile=${compile//" -I$root "/" -I$source -I$root "}
  compile=${compile//"$output"/"$work/mutant.o"}
  link=$(command_for "$program")
  link=$(grep -o "[^&]* -o $program [^&]*" <<< "$link")
  link=${link//"$output"/"$work/mutant.o"}
  link=${link//" -o $program "/" -o $work/mutant "}
  (cd "$build" && eval "$compile" && eval "$link") > "$work/build.log" 2>&1 || { tail -n 5 "$work/build.log" >&2; return 1; }
}

killed=0 survived=0 broken=0
names=("$@")
(( ${#names[@]} )) || mapfile -t names < <(cd "$folder" && printf '%s\n' *.patch | sed 's/\.patch$//')
for name in "${names[@]}"; do
  patch="$folder/$name.patch"
  [[ -f $patch ]] || { echo "no mutant $name in tests/exec/cuda/mutants" >&2; exit 2; }
  object=$(sed -n 's/^object: //p' "$patch") tests=$(sed -n 's/^tests: //p' "$patch")
  key=$(sha256sum < "$patch" | cut -c1-16)-$state
  if [[ -f $work/$name.result && $(cut -d' ' -f1 "$work/$name.result") == "$key" ]]; then
    result=$(cut -d' ' -f2- "$work/$name.result")
  elif ! build_mutant "$patch" "$object"; then
    result="broken: it does not build"
  else
    result="survived"
    for (( seed = 1; seed <= kSeeds; ++seed )); do
      if ! { PLIMSOLL_EMULATION_SEED=$seed timeout "$kSeconds" "$work/mutant" --gtest_filter="$tests" --gtest_fail_fast \
               > "$work/run.log" 2>&1; } 2>/dev/null; then
        why=$(grep -m 1 -E '^CUDA emulation:|^\[  FAILED|: Failure' "$work/run.log" | cut -c1-90) || true
        result="killed by ${why:-its end: a crash or more than $kSeconds s}"
        break
      fi
    done
    echo "$key $result" > "$work/$name.result"
  fi
  case $result in killed*) (( ++killed )) ;; survived) (( ++survived )) ;; *) (( ++broken )) ;; esac
  printf '%-44s %s\n' "$name" "$result"
done
echo "$killed killed, $survived survived, $broken do not build"
(( broken == 0 && survived * 20 <= killed + survived ))
