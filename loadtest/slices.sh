#!/usr/bin/env bash
# slices.sh BIN COUNT REPORT [CALLLOAD OPTIONS…]: one run of COUNT callloads side by side, each with a slice of the
# devices, and their reports as one, which is written to REPORT. The first one starts the cluster, unless the options name
# one with --edge. For more devices than a process may have files, and for machines with many processors: each callload
# has one thread.
#   loadtest/slices.sh .build/release 6 run.json --devices 100000 --nodes 7 --idle 10s
set -euo pipefail
bin=$1 count=$2 report=$3
shift 3
((count > 1)) || { echo "slices.sh: COUNT is 2 or more; one callload needs no slices" >&2; exit 2; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/callmesh-slices.XXXXXX")
trap 'rm -rf "$folder"' EXIT
seed=$RANDOM slices=() stopped=
# The second signal ends a callload without a report, and Ctrl-C reaches all of them.
stop() {
  [[ -n $stopped ]] || kill "${slices[@]}" 2>/dev/null || true
  stopped=yes
}
trap stop TERM
trap 'stopped=yes' INT
mkdir "$folder/meet"
for ((slice = 1; slice <= count; slice++)); do
  setpriv --pdeathsig TERM "$bin/callload" --seed "$seed" "$@" --slice "$slice/$count" --meet "$folder/meet" \
    --json "$folder/$slice.json" >"$folder/$slice.txt" 2>"$folder/$slice.log" &
  slices+=($!)
done
# Without the one that has failed the others would wait for it.
while true; do
  status=0
  wait -n || status=$?
  ((status != 127)) || break
  ((status <= 1)) || stop
done
"$bin/callload" merge "$folder"/*.json --json "$report" || {
  status=$?
  # Only a slice's own words say why it could not begin, and what it saw of a broken rule.
  cat "$folder"/*.txt "$folder"/*.log >&2
  if compgen -G "$folder/*.json" >/dev/null; then
    trap - EXIT
    echo "slices.sh: the slices' reports stay in $folder" >&2
  fi
  exit $status
}
