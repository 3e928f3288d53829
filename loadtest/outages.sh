#!/usr/bin/env bash
# outages.sh BIN [CALLS [ROW…]]: shows what docs/reliability.md promises of outages. For each kind of outage
# CALLS (1000) calls are placed at any moment of it, and CALLS / 3 streams of 25 candidates pass through
# kills of NATS, coordinators and edges. Prints a table; ends with 1 where a call or a candidate went wrong,
# or too few calls came. ROW names single rows, such as 1:kill-nats or streams.
#
# Three servers need a nats-server that keeps replicas when it is killed: NATS_SERVER_NEWER=PATH, or
# $(deploy/dev/nats-newer.sh). Without, those rows are left out. Each row is bounded in time.
# DEVICES (450) and RATE (12 calls a second) suit a machine of two processors; LOGS=FOLDER keeps the reports.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 calls=${2:-1000}
shift $(($# < 2 ? $# : 2))
devices=${DEVICES:-450} rate=${RATE:-12}
logs=${LOGS:-$(mktemp -d)}
mkdir -p "$logs"

rows=(1:kill-nats 1:freeze-nats 1:cut-nats 1:freeze-all-edges)
if [[ -n ${NATS_SERVER_NEWER:-} ]]; then
  rows+=(3:kill-nats 3:freeze-nats 3:cut-nats 3:kill-all-nats 3:freeze-all-nats 3:cut-all-nats)
else
  echo "outages: NATS_SERVER_NEWER names no nats-server of 2.12.3 or newer: one server only" >&2
fi
rows+=(streams)
(($# == 0)) || rows=("$@")

# seconds LOAD ARGS…: callload, with a bound on the time after the load. Sets `result`.
run() {
  local name=$1 seconds=$2
  shift 2
  result=0
  timeout -k 10 $((seconds + 240)) nice -n 10 "$bin/callload" --devices "$devices" --duration "${seconds}s" \
    --json "$logs/$name.json" "$@" >"$logs/$name.txt" 2>&1 || result=$?
}

row() { printf '%-22s %7s %7s %10s %8s %8s %6s  %s\n' "$@"; }

status=0
row outage faults calls "as planned" refused changed wrong verdict
for spec in "${rows[@]}"; do
  name=${spec/:/-}
  rm -f "$logs/$name.json"
  if [[ $spec == streams ]]; then
    # Two streams a call, and kills a few seconds apart.
    seconds=$((calls / 3 / 2 / 5 + 40))
    run "$name" "$seconds" --scenario loadtest/scenarios/streams.json --signals 25 --rate 5 \
      --chaos kill-nats=11s/1s-3s,kill-coordinator=8s,kill-edge=9s
    kinds=kill-nats,kill-coordinator,kill-edge wanted=$((calls / 3 / 2))
  else
    # Each outage is over, and its shards answer, before the next begins: elections of three servers that
    # all were away take their time. The last one is over 20 s before the end.
    servers=${spec%%:*} kind=${spec#*:} length=1s-15s interval=20s seconds=$((calls * 5 / rate + 60))
    [[ $kind != *-all-nats ]] || { interval=40s; seconds=$((calls * 6 / rate + 60)); }
    [[ $kind != freeze-all-edges ]] || { length=5s interval=11s; }
    more=()
    ((servers == 1)) || more=(--nats-servers "$servers" --nats "$NATS_SERVER_NEWER")
    run "$name" "$seconds" --scenario loadtest/scenarios/outages.json --rate "$rate" --unregistered 50% "${more[@]}" \
      --chaos "$kind=$interval/$length"
    kinds=$kind wanted=$calls
  fi
  figures=$(python3 - "$logs/$name.json" "$kinds" "$spec" "$wanted" <<'PYTHON' || true
import json, sys
path, kinds, spec, wanted = sys.argv[1], sys.argv[2].split(","), sys.argv[3], int(sys.argv[4])
report = json.load(open(path))
chaos = report["chaos"]
faults = sum(chaos["injected"].get(kind, 0) for kind in kinds)
if spec == "streams":
    wrong = sum(report["correctness"].values())
    planned, placed = report["calls"]["completed"], report["calls"]["placed"]
    refused, changed = 0, sum(chaos["calls_changed"].values())
else:
    fates = chaos["calls_placed_during"].get(kinds[0], {})
    planned, refused, changed, wrong = (fates.get(k, 0) for k in ("as_planned", "refused", "changed", "wrong"))
    placed = planned + refused + changed + wrong
broken = [f"{name}={count}" for name, count in report["correctness"].items() if count]
problems = broken or ([] if report["ok"] else report["problems"])
if placed < wanted:
    problems.append(f"{placed} calls, not {wanted}")
print(faults, placed, planned, refused, changed, wrong, "; ".join(problems) or "OK", sep="\t")
PYTHON
  )
  if [[ -z $figures ]]; then
    row "$spec" - - - - - - "no report: see $logs/$name.txt"
    status=1
    continue
  fi
  IFS=$'\t' read -r faults placed planned refused changed wrong verdict <<<"$figures"
  row "$spec" "$faults" "$placed" "$planned" "$refused" "$changed" "$wrong" "$verdict"
  [[ $result == 0 && $verdict == OK ]] || status=1
done
echo "reports: $logs"
exit $status
