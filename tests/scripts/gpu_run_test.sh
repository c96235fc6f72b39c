#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests scripts/gpu/run without a GPU and with a simulated one: every step says why it did not run, the time limits of
# each of the two runs fit into ten minutes, and ranks that share a GPU come last. Argument: a folder to work in.
set -euo pipefail

root=$(readlink -f -- "$(dirname -- "${BASH_SOURCE[0]}")/../..") scratch=$1
rm -rf "$scratch" && mkdir -p "$scratch/bin"

fail() { echo "$*"; exit 1; }
run() { STAGES=$1 OUT="$scratch/out" PATH="$scratch/bin:$PATH" "$root/scripts/gpu/run" 2>&1; }
# A machine without a GPU, whatever this one has.
printf '#!/bin/sh\nexit 9\n' > "$scratch/bin/nvidia-smi"
chmod +x "$scratch/bin/nvidia-smi"

for stages in limits,tests,bench,parity live,sanitizers,profile; do
  output=$(run "$stages") || fail "exit status $? without a GPU: $output"
  asked=$(grep -v "not among STAGES" <<< "$output")
  grep -qv "skipped: no GPU: nvidia-smi lists none" <<< "$asked" && fail "a step without a reason: $asked"
  for stage in ${stages//,/ }; do grep -q " $stage/" <<< "$asked" || fail "$stage says nothing"; done
  sum=$(( $(sed -n 's/.*(limit \([0-9]*\) s).*/\1/p' <<< "$asked" | paste -sd+) ))
  (( sum > 0 && sum <= 560 )) || fail "the limits of $stages sum to $sum s"
  last=$(tail -n 1 <<< "$asked")
  [[ $stages != *tests* && $stages != *sanitizers* || $last == */ranks* ]] || fail "not last: ranks: $last"
done

# With a GPU and without the package, every step names the file that it lacks.
printf '#!/bin/sh\necho "GPU 0: a test"\n' > "$scratch/bin/nvidia-smi"
mkdir -p "$scratch/scripts/gpu" && cp "$root/scripts/gpu/run" "$scratch/scripts/gpu/"
output=$(STAGES=tests,bench OUT="$scratch/out2" PATH="$scratch/bin:$PATH" "$scratch/scripts/gpu/run" 2>&1) || fail "$output"
grep -q "tests/kernels .*skipped: plimsoll_exec_gpu_test is missing: run scripts/gpu/prepare first" <<< "$output" || fail "$output"

# With replaced programs: a line for each test as it ends, one that hangs is cut, and the exit status is 1.
mkdir -p "$scratch/build/gpu/bin" && echo abc > "$scratch/build/gpu/commit"
cat > "$scratch/build/gpu/bin/plimsoll_exec_gpu_test" <<'END'
#!/bin/bash
[[ $1 == --help ]] && exit 0
[[ $1 == --gtest_list_tests ]] && { printf 'Kinds/Communicators.\n  hangs/peers  # GetParam() = peers\n  ends/nccl\n'; exit 0; }
printf '[ RUN      ] A.%s\n' "${1##*=}"
[[ $1 == *hangs* ]] && exec sleep 100
printf '[       OK ] A.%s (7 ms)\n' "${1##*=}"
END
chmod +x "$scratch/build/gpu/bin/plimsoll_exec_gpu_test"
sed -i 's/kRankSeconds=12/kRankSeconds=1/' "$scratch/scripts/gpu/run"
status=0
output=$(STAGES=tests OUT="$scratch/out3" PATH="$scratch/bin:$PATH" "$scratch/scripts/gpu/run" 2>&1) || status=$?
(( status == 1 )) || fail "exit status $status: $output"
for line in "unfinished A.Kinds/Communicators.hangs/peers" "ok A.Kinds/Communicators.ends/nccl 7 ms" "tests/kernels done"; do
  grep -q "$line" <<< "$output" || fail "'$line' is missing: $output"
done
grep -q "^A.Kinds/Communicators.hangs/peers,unfinished," "$scratch/out3/measured/tests.csv" || fail "not in tests.csv"
