#!/usr/bin/env bash
# bench-call.sh BIN [--check]: instructions and allocations of a whole call (three devices ring, one answers),
# counted by valgrind's callgrind, which counts the same on a busy machine. --check compares with
# loadtest/bench-call.baseline, and ends with status 1 where a total is more than 3 % worse.
set -euo pipefail
bin=$1
calls=200
if ! command -v valgrind >/dev/null; then
  echo "bench-call.sh: valgrind is missing: apt-get install valgrind" >&2
  exit 2
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/callmesh-bench-call.XXXXXX")
trap 'rm -rf "$folder"' EXIT
# callgrind cannot read Swift's debug information; the names of functions stay.
strip -g -o "$folder/callbench" "$bin/callbench"
# Hashes are seeded alike, so that tables look the same in each run.
export SWIFT_DETERMINISTIC_HASHING=1
read -ra allocations < <("$folder/callbench" run --calls $calls)
for role in Edge Coordinator; do
  timeout 10m valgrind --tool=callgrind --collect-atstart=no \
    "--toggle-collect=*callBench$role*" --compress-strings=no --compress-pos=no \
    --callgrind-out-file="$folder/$role" "$folder/callbench" run --calls $calls \
    >"$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    exit 1
  }
done
check=()
[[ ${2:-} != --check ]] || check=(--baseline "$(dirname "$0")/bench-call.baseline")
"$bin/callbench" summary --edge "$folder/Edge" --coordinator "$folder/Coordinator" --calls $calls \
  --allocations "${allocations[@]}" "${check[@]}"
