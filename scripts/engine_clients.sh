# SPDX-License-Identifier: Apache-2.0
# Runs other projects' clients against `plimsoll serve`, with 1, 8 and 32 users. Each should report what our own client
# reports. Sourced by check_engines.sh, whose functions and variables it uses. A client that cannot be installed is
# skipped with a message.

readonly kOursPort=8127 kInput=512 kOutput=32 kClientUsers='1 8 32'
# guidellm and AIPerf have separate environments, because they need different versions of the same packages.
readonly kGuidellm=guidellm==0.8.1 kAiperf=aiperf==0.13.0

# install_client NAME REQUIREMENT: installs a client into build/engines/NAME.
install_client() {
  local folder=$engines/$1
  [[ -x $folder/bin/$1 ]] && return 0
  say "installing $2 into build/engines/$1"
  rm -rf "$folder"
  python3 -m venv "$folder" && "$folder/bin/pip" -q --disable-pip-version-check install "$2" \
    > "$engines/$1-install.log" 2>&1 && [[ -x $folder/bin/$1 ]] && return 0
  say "$1: skipped: pip could not install $2 (build/engines/$1-install.log)"
  rm -rf "$folder"
  return 1
}

requests_of() { (( $1 * 8 > 16 )) && echo $(( $1 * 8 )) || echo 16; }

# Each run_NAME USERS FILE leaves the client's result at FILE, in a format that `plimsoll import` reads.
run_vllm_bench() {
  HF_HUB_OFFLINE=1 "$engines/vllm/bin/vllm" bench serve --backend openai --base-url "$ours" --endpoint /v1/completions \
    --model plimsoll --tokenizer "$engines/model" --dataset-name random --random-input-len "$kInput" \
    --random-output-len "$kOutput" --num-prompts "$(requests_of "$1")" --max-concurrency "$1" --ignore-eos \
    --save-result --result-dir "$(dirname "$2")" --result-filename "$(basename "$2")"
}

run_openai() {
  "$engines/vllm/bin/python" "$root/scripts/engine_openai.py" "$ours" plimsoll "$1" "$(requests_of "$1")" "$kInput" \
    "$kOutput" "$2"
}

# The client's own synthetic prompts consist of words that the tokenizer does not know.
run_guidellm() {
  python3 - "$1" "$(requests_of "$1")" "$kInput" "$kOutput" "$2l" << 'PYTHON'
import json, random, sys
seed, requests, words, tokens = map(int, sys.argv[1:5])
random.seed(seed)
with open(sys.argv[5], "w") as file:
    for _ in range(requests):
        prompt = " ".join(f"w{random.randrange(3, 49000):05d}" for _ in range(words))
        file.write(json.dumps({"prompt": prompt, "prompt_tokens_count": words, "output_tokens_count": tokens}) + "\n")
PYTHON
  HF_HUB_OFFLINE=1 "$engines/guidellm/bin/guidellm" run \
    --backend "kind=openai_http,target=$ours,model=plimsoll,request_format=/v1/completions" \
    --profile "kind=concurrent,streams=$1" --constraint "kind=max_requests,count=$(requests_of "$1")" \
    --data "kind=json_file,path=$2l" \
    --tokenizer "kind=huggingface_auto,model=$engines/model" --output "kind=json,path=$2" --disable-console-interactive
}

# Offline, the client mistakes a path to a tokenizer for the name of a repository.
run_aiperf() {
  env -u HF_HUB_OFFLINE "$engines/aiperf/bin/aiperf" profile --model plimsoll --url "$ours" \
    --endpoint-type completions --streaming --tokenizer "$engines/model" --concurrency "$1" \
    --request-count "$(requests_of "$1")" \
    --synthetic-input-tokens-mean "$kInput" --synthetic-input-tokens-stddev 0 --output-tokens-mean "$kOutput" \
    --output-tokens-stddev 0 --extra-inputs ignore_eos:true --artifact-dir "$2.d" \
    --ui none &&
    cp "$2.d/profile_export_aiperf.json" "$2"
}

# A token of the tokenizer's words takes seven characters.
# The server has no prefix cache, because clients repeat their prompts from run to run. The accelerator is slow, because
# a client in Python takes some milliseconds itself: 3 % of a TTFT of 30 ms would be less than one millisecond.
start_ours() {
  start_server plimsoll-serve "$kOursPort" "$plimsoll" serve --model llama-3.1-8b --dtype bf16 --hardware l4 \
    --engine vllm-0.12 --set scheduler.prefix_caching=false --users 1 --input "$kInput" --output "$kOutput" \
    --chars-per-token 7 --port "$kOursPort"
  ours=http://127.0.0.1:$kOursPort
}

measure_ours() {
  rm -rf "$engines/clients/ours-$1"  # a complete run would be taken as it is
  cat > "$engines/clients/ours.yaml" << YAML
study: what our own client reports
model: llama-3.1-8b
dtype: bf16
hardware: {accelerator: l4, count: 1}
engine: vllm-0.12
workload:
  load: {closed_loop: {concurrency: $1, drift: off}}  # the others send equal lengths
  lengths: {input: $kInput, output: $kOutput}
  requests: $(requests_of "$1")
YAML
  "$plimsoll" measure "$engines/clients/ours.yaml" --endpoint "$ours" --out "$engines/clients/ours-$1"
}

# compare_client NAME USERS: prints one line; succeeds if all figures are within 3 %.
compare_client() {
  local file=$engines/clients/$1-$2
  rm -rf "$file".*
  if ! "run_$1" "$2" "$file.json" > "$file.log" 2>&1; then
    say "$1, $2 users: failed; its output is in build/engines/clients/$1-$2.log"
    return 1
  fi
  "$plimsoll" import "$file.json" --format csv --quiet > "$file.csv" 2>> "$file.log" || return 1
  python3 - "$1" "$2" "$file.csv" "$engines/clients/ours-$2/points.csv" << 'PYTHON'
import csv, sys
name, users, theirs, ours = sys.argv[1:]
a, b = (next(csv.DictReader(open(path))) for path in (theirs, ours))
cells, far = [], 0
for label, key in (("requests/s", "requests_per_s"), ("output tokens/s", "output_tokens_per_s"),
                   ("mean TTFT", "ttft_mean_s"), ("mean TPOT", "tpot_mean_s")):
    if not a.get(key):
        cells.append(f"{label} -")
        continue
    error = 100 * (float(a[key]) / float(b[key]) - 1)
    far = max(far, abs(error))
    cells.append(f"{label} {error:+.1f} %")
print(f"{name}, {users} users, against our own client: {', '.join(cells)}")
sys.exit(far > 3)
PYTHON
}

check_metrics_page() {
  "$engines/vllm/bin/python" - "$ours" << 'PYTHON' || return 1
import sys, urllib.request
from prometheus_client.parser import text_string_to_metric_families
text = urllib.request.urlopen(sys.argv[1] + "/metrics").read().decode()
names = {family.name for family in text_string_to_metric_families(text)}
assert "vllm:num_requests_running" in names, sorted(names)
print(f"prometheus_client reads /metrics: {len(names)} families")
PYTHON
}

# Sets `clients` of check_engines.
install_clients() {
  clients='vllm_bench openai'
  install_client guidellm "$kGuidellm" && clients+=' guidellm'
  install_client aiperf "$kAiperf" && clients+=' aiperf'
  return 0  # those that could not be installed are skipped
}

check_clients() {
  local ours failed=0 name users
  mkdir -p "$engines/clients"
  start_ours
  for users in $kClientUsers; do
    measure_ours "$users" > "$engines/clients/ours-$users.log" 2>&1 || fail "our own client failed; its output is in \
build/engines/clients/ours-$users.log"
    for name in $clients; do compare_client "$name" "$users" || failed=1; done
  done
  check_metrics_page || failed=1
  stop_server
  return "$failed"
}
