#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./plimsoll setup --cuda: installs CUDA's compiler, runtime, cuBLAS and NCCL from their Python packages (some 900 MB to
# download) into .deps/cuda, where the build finds them. Needs neither root nor a CUDA installation, but the GPU's
# driver must be installed. Downloads nothing if there is an nvcc of CUDA 12 or later. The next ./plimsoll uses CUDA.
# scripts/setup_cuda.sh --nvdisasm: installs only the disassembler (5 MB), if there is an nvcc without one. Tests of the
# kernels' machine code use it; ./check calls this.
set -euo pipefail

root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/build.sh"

# This version disassembles the machine code of CUDA 13 and older.
readonly kDisassembler='nvidia-cuda-nvdisasm>=13.2,<14'
if [[ $# == 1 && $1 == --nvdisasm ]]; then
  folder="$root/.deps/nvdisasm"
  [[ -n $(command -v nvcc || ls {/usr/local,"$root/.deps"}/cuda/bin/nvcc 2>/dev/null || true) ]] || exit 0
  for present in "$(command -v nvdisasm || true)" {/usr/local,"$root/.deps"}/cuda/bin/nvdisasm "$folder/nvidia/cu13/bin/nvdisasm"; do
    [[ -z $present || ! -x $present ]] || exit 0
  done
  mkdir -p "$root/.deps" || fail "cannot write to $root/.deps"
  rm -rf "$folder"
  python3 -m pip install --no-input --no-deps --no-compile --disable-pip-version-check --retries 1 --timeout 15 \
    --target "$folder" "$kDisassembler" > "$root/.deps/nvdisasm.log" 2>&1 ||
    fail "could not download nvdisasm: the tests of the kernels' instructions will be skipped"
  chmod +x "$folder/nvidia/cu13/bin/nvdisasm"
  touch "$root/tests/exec/cuda/machine_code/CMakeLists.txt"   # the next build looks for it again
  exit 0
fi

if [[ $# != 1 || $1 != --cuda ]]; then
  sed -n '3,7s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi

# A fixed minor version, so that every driver of CUDA 13 can run the compiled code. From 2.30 on, NCCL lets ranks share
# a GPU.
readonly kPackages=('nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*'
                    'nvidia-cuda-runtime==13.0.*' 'nvidia-cublas==13.1.*' 'nvidia-nccl-cu13>=2.30,<3' "$kDisassembler")
cuda="$root/.deps/cuda"

# The next build configures again, now with CUDA, also where the machine has no driver (scripts/build.sh, cuda_wanted).
configure_anew() {
  mkdir -p "$root/.deps" && touch "$root/.deps/cuda-wanted" || fail "cannot write to $root/.deps"
  rm -f "$root"/build/*/CMakeCache.txt "$root"/build/release/.plimsoll*-built
}

# C++20 began with CUDA 12 (exec/cuda/find_cuda.cmake).
release_of() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p'; }
take_lock   # before configurations are removed that another process may be building
for present in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$cuda/bin/nvcc"; do
  [[ -n $present ]] && command -v "$present" >/dev/null || continue
  release=$(release_of "$present")
  if [[ ${release%%.*} -ge 12 ]]; then
    say "CUDA $release is already installed ($present); the next ./plimsoll builds with it"
    configure_anew
    exit 0
  fi
  say "$present is of CUDA ${release:-unknown}, 12.0 or later is needed"
done

install_missing cuda
python3 -m pip --version >/dev/null 2>&1 || fail "setup --cuda needs Python 3 with pip; on Debian: apt-get install python3-pip"
mkdir -p "$root/.deps" || fail "cannot write to $root/.deps"
say "downloading CUDA to .deps/cuda, some 900 MB"
fresh="$root/.deps/cuda.new" log="$root/.deps/setup.log"
rm -rf "$fresh"
if ! python3 -m pip install --no-input --no-deps --no-compile --disable-pip-version-check \
       --retries 2 --timeout 30 --target "$fresh/site" \
       "${kPackages[@]}" > "$log" 2>&1; then
  grep "^ERROR" "$log" | tail -n 1 >&2 || true
  rm -rf "$fresh"
  fail "could not download CUDA (is the Python package index unreachable?); the output of pip is in $log"
fi

# Arranges the packages' folders like those of a toolkit; nvcc looks for libraries in lib64.
ln -s site/nvidia/cu13/bin site/nvidia/cu13/include site/nvidia/cu13/lib site/nvidia/cu13/nvvm "$fresh/"
ln -s lib "$fresh/site/nvidia/cu13/lib64"
ln -s lib "$fresh/lib64"
for library in "$fresh"/site/nvidia/nccl/lib/libnccl.so*; do ln -s "../../nccl/lib/${library##*/}" "$fresh/lib/"; done
for library in "$fresh"/lib/lib*.so.*; do ln -sf "${library##*/}" "${library%%.so.*}.so"; done   # the names that CMake looks for
for header in "$fresh"/site/nvidia/nccl/include/nccl*; do ln -s "../../nccl/include/${header##*/}" "$fresh/include/"; done
rm -rf "$cuda"
mv "$fresh" "$cuda"

configure_anew
say "CUDA $(release_of "$cuda/bin/nvcc") is in .deps/cuda; the next ./plimsoll builds with it"
