#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of docs/gui.md and README.md again. Needs no display.
set -euo pipefail

root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
program=${1:-$root/plimsoll}
study=$root/configs/studies/jumpstart-7b-p4d.yaml
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

# The study with the SLO line at 50 ms a token.
session=$folder/tour.plimsoll-session.yaml
{
  printf 'plimsoll_session: 1\ncurrent: 0\nview: {limit: 50}\nscenarios:\n'
  printf '  - name: jumpstart-7b-p4d\n    file: %s\n    edits: []\n    study:\n' "$study"
  sed 's/^/      /' "$study"
} > "$session"

draw() { "$program" gui --screenshot "$root/docs/images/gui-$1.png" --size "${4:-1100x700}" --view "$2" "$3"; }
draw curves curves "$study"
draw slo curves "$session"
draw heatmap heatmap "$session"
draw decision decision "$session" 1320x760
draw timeline timeline "$study"
