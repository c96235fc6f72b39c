# SPDX-License-Identifier: Apache-2.0
# Functions of ./plimsoll and ./check that install missing packages, configure and build. Source this file with $root
# set to the repository. All messages go to standard error; standard output belongs to the program that runs afterwards.

readonly kEnvironmentFailure=3

say() { printf 'plimsoll: %s\n' "$*" >&2; }
fail() { say "$*"; exit "$kEnvironmentFailure"; }

# missing_packages PURPOSE…: prints the packages of scripts/packages.txt that are needed and not installed.
missing_packages() {
  local wanted=() package purpose command installed
  while read -r package purpose command; do
    [[ -z $package || $package == \#* || " $* " != *" $purpose "* ]] && continue
    [[ -n $command ]] && command -v "$command" >/dev/null && continue
    wanted+=("$package")
  done < "$root/scripts/packages.txt"
  (( ${#wanted[@]} )) || return 0
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qx "installed $package" <<< "$installed" || echo "$package"
  done
}

# install_missing PURPOSE…
install_missing() {
  local missing as_root=() log="$root/build/install.log"
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    return 0                           # not Debian: the configuration names what it cannot find
  fi
  mapfile -t missing < <(missing_packages "$@")
  (( ${#missing[@]} )) || return 0
  if (( EUID != 0 )); then
    command -v sudo >/dev/null || fail "these packages are missing and need root to install: ${missing[*]}
  run as root: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo DEBIAN_FRONTEND=noninteractive)
  fi
  say "installing ${missing[*]}"
  local apt=("${as_root[@]}" apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=600)
  export DEBIAN_FRONTEND=noninteractive
  # The installation may succeed even if the package lists cannot be updated, so only its own failure counts.
  "${apt[@]}" update < /dev/null > "$log" 2>&1 || true
  if ! "${apt[@]}" install "${missing[@]}" < /dev/null >> "$log" 2>&1; then
    tail -n 15 "$log" >&2
    fail "could not install ${missing[*]}; the output of apt-get is above and in $log"
  fi
}

# As many jobs as cores, but no more than fit in memory at 2.5 GB each.
build_jobs() {
  local cores memory_kb
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  local fit=$(( ${memory_kb:-100000000} / 2500000 ))
  (( fit < 1 )) && fit=1
  echo $(( cores < fit ? cores : fit ))
}

# Prints the value of PLIMSOLL_CUDA with which ./plimsoll configures. The kernels take minutes to compile and need
# NVIDIA's driver to run, so a machine without the driver gets them only after ./plimsoll setup --cuda. ./check always
# compiles them.
cuda_wanted() {
  if [[ -e /proc/driver/nvidia/version || -e /dev/nvidiactl || -e /dev/dxg || -e $root/.deps/cuda-wanted ]]; then
    echo AUTO
  else
    echo OFF
  fi
}

note_cuda() {
  if [[ " $* " == *" PLIMSOLL_CUDA=OFF "* ]]; then
    say "no NVIDIA driver found: building without CUDA; to include it, run ./plimsoll setup --cuda"
  elif [[ -z ${CUDACXX:-} && ! -x /usr/local/cuda/bin/nvcc && ! -x $root/.deps/cuda/bin/nvcc ]] &&
       ! command -v nvcc >/dev/null; then
    say "CUDA not found: building without it (./plimsoll setup --cuda installs it)"
  fi
}

# is_configured PRESET [OPTION=VALUE…]
is_configured() {
  local build="$root/build/$1" option
  [[ -f $build/build.ninja ]] || return 1
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || return 1
  for option in "${@:2}"; do
    grep -qsE "^${option%%=*}:[A-Z]+=${option#*=}\$" "$build/CMakeCache.txt" || return 1
  done
}

# configure PRESET [OPTION=VALUE…]: configures unless that has been done; ninja handles changed CMake files.
configure() {
  local preset=$1 log="$root/build/configure-$1.log"
  is_configured "$@" && return 0
  note_cuda "$@"
  say "configuring build/$preset"
  local options=("${@:2}")
  (cd "$root" && cmake --preset "$preset" "${options[@]/#/-D}") > "$log" 2>&1 && return 0
  # Files left by an interrupted or failed configuration must not break the next.
  (cd "$root" && cmake --fresh --preset "$preset" "${options[@]/#/-D}") > "$log" 2>&1 && return 0
  cat "$log" >&2
  fail "could not configure build/$preset"
}

# compile PRESET TARGET…: returns ninja's exit status, which is 1 if a command of the build has failed.
compile() {
  local preset=$1
  shift
  [[ -w ${HOME:-} ]] || export CCACHE_DIR="$root/build/ccache"   # where there is a ccache but no home
  NINJA_STATUS='[%f/%t] ' ninja -C "$root/build/$preset" -j "$(build_jobs)" "$@" >&2
}

# build PRESET TARGET…
build() { compile "$@" || fail "the build of build/$1 failed"; }

# build_to_use PRESET TARGET…: sources that compile alone may collide when several are compiled together
# (PLIMSOLL_UNITY). The build then reports this and continues with each source alone, which takes longer. If that fails
# too, the sources are wrong, and the next build compiles several together again. An interrupted build is not repeated.
build_to_use() {
  local status=0
  compile "$@" || status=$?
  (( status )) || return 0
  if (( status != 1 )) || ! is_configured "$1" PLIMSOLL_UNITY=ON; then fail "the build of build/$1 failed"; fi
  say "the build failed; trying again with each source alone, in case sources collide when compiled together"
  configure "$1" PLIMSOLL_UNITY=OFF
  compile "$@" && return 0
  configure "$1" PLIMSOLL_UNITY=ON
  fail "the build of build/$1 failed"
}

# Allows one build at a time in a checkout. The lock is released when the process ends (or is replaced: see close_lock).
take_lock() {
  mkdir -p "$root/build" || fail "cannot write to $root/build"
  exec 9> "$root/build/.lock"
  flock -n 9 && return 0
  say "waiting for another build of this checkout"
  flock 9
}
close_lock() { exec 9>&-; }
