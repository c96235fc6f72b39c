#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the format of every source (.clang-format), that lines have at most 120 columns, and that commit subjects have
# at most 60 characters. ./check calls it before it builds. `scripts/check_style.sh --fix` formats in place.
set -euo pipefail

readonly kColumns=120 kSubject=60
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
cd -- "$root"
export LC_ALL=C.UTF-8   # columns are characters, not bytes

if ! git rev-parse --git-dir >/dev/null 2>&1; then
  echo "style: not checked, this is not a git checkout" >&2
  exit 0
fi
# Versions of clang-format differ in their output; the one of Debian 12 is required.
format=$(command -v clang-format-14 || true)
if [[ -z $format ]]; then
  echo "style: not checked, clang-format-14 is missing" >&2
  exit 0
fi

sources() { git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh'; }
if [[ ${1:-} == --fix ]]; then
  sources | xargs -0 -r -P "$(nproc)" -n 40 "$format" -i
  exit 0
fi

status=0
if ! sources | xargs -0 -r -P "$(nproc)" -n 40 "$format" --dry-run -Werror -ferror-limit=1; then
  echo "style: run scripts/check_style.sh --fix" >&2
  status=1
fi
if sources | xargs -0 -r grep -nE "^.{$(( kColumns + 1 ))}"; then
  echo "style: the lines above are longer than $kColumns columns" >&2
  status=1
fi
# The rule for subjects applies from the commit that formatted the tree, which a shallow clone may lack.
since=$(sed -n 's/ .*//; /^[0-9a-f]\{40\}$/p' .git-blame-ignore-revs | tail -n 1)
if [[ -n $since ]] && git merge-base --is-ancestor "$since" HEAD 2>/dev/null; then
  if git log --format=%s "$since..HEAD" | grep -E "^.{$(( kSubject + 1 ))}"; then
    echo "style: the subjects above are longer than $kSubject characters" >&2
    status=1
  fi
fi
exit "$status"
