#!/usr/bin/env bash
# Runs a whole cluster on this machine until Ctrl-C: one nats-server with JetStream, coordinators and
# edges, each a process on 127.0.0.1. What it stores stays, so that a restart finds it again.
#
#   deploy/local/run-cluster.sh [folder]        (default: .callmesh in the current folder)
#
# Environment: COORDINATORS (2), EDGES (2), NATS_PORT (4222), EDGE_PORT (8080, 8081, …), METRICS_PORT (9101,
# 9102, … of coordinators, then of push gateways), EDGE_METRICS_PORT (9121, 9122, … of edges), APP (demo), BIN
# (the folder of callnode and callctl; default: .build/release of this repository), PUSH_PROVIDERS (a file of
# push providers: then PUSHERS (2) push gateways run, too).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-.callmesh}
bin=${BIN:-$root/.build/release}
app=${APP:-demo}
metrics_port=${METRICS_PORT:-9101}
nats_url="nats://127.0.0.1:${NATS_PORT:-4222}"
nats=$(PATH="$PATH:/usr/sbin:/usr/local/bin" command -v nats-server) || {
  echo "run-cluster.sh: nats-server is missing; deploy/dev/install.sh installs it" >&2
  exit 2
}
for program in callnode callctl; do
  [[ -x $bin/$program ]] || {
    echo "run-cluster.sh: $bin/$program is missing; build it with: make build" >&2
    exit 2
  }
done

free() { # port, what it is for, the variable that changes it
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
  echo "run-cluster.sh: something listens on 127.0.0.1:$1 already, where $2 would; choose with $3=…" >&2
  return 1
}
free "${NATS_PORT:-4222}" "nats-server" NATS_PORT || {
  # Where systemd runs, Debian's package starts one as it is installed, and that one has no JetStream.
  echo "run-cluster.sh: if that is Debian's own nats-server, which keeps nothing: sudo systemctl disable --now nats-server" >&2
  exit 2
}
for ((number = 1; number <= ${EDGES:-2}; number++)); do
  free $((${EDGE_PORT:-8080} + number - 1)) "edge-$number" EDGE_PORT || exit 2
  free $((${EDGE_METRICS_PORT:-9121} + number - 1)) "edge-$number's metrics" EDGE_METRICS_PORT || exit 2
done
others=${COORDINATORS:-2}
[[ -z ${PUSH_PROVIDERS:-} ]] || others=$((others + ${PUSHERS:-2}))
for ((number = 0; number < others; number++)); do
  free $((metrics_port + number)) "a coordinator's or gateway's metrics" METRICS_PORT || exit 2
done

mkdir -p "$folder/logs"
folder=$(cd "$folder" && pwd)
[[ -f $folder/keys.json ]] || "$bin/callctl" keys --app "$app" --keys-file "$folder/keys.json"

nodes=()
bus=
declare -A names=()
stop() {
  trap - INT TERM EXIT
  echo "stopping"
  # Nodes take leave over the bus, so that goes last.
  ((${#nodes[@]} == 0)) || kill "${nodes[@]}" 2>/dev/null || true
  for node in "${nodes[@]}"; do wait "$node" 2>/dev/null || true; done
  [[ -z $bus ]] || kill "$bus" 2>/dev/null || true
  wait 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { # name, command...
  local name=$1
  shift
  # A session of its own, so that Ctrl-C reaches this script alone and the order above holds.
  setsid "$@" </dev/null >>"$folder/logs/$name.log" 2>&1 &
  names[$!]=$name
}

start nats-server "$nats" -a 127.0.0.1 -p "${NATS_PORT:-4222}" -n callmesh-local -js -sd "$folder/nats"
bus=$!
for ((number = 1; number <= ${COORDINATORS:-2}; number++)); do
  start "coordinator-$number" "$bin/callnode" coordinator --nats-url "$nats_url" --log-format text \
    --node-id "coordinator-$number" --keys-file "$folder/keys.json" --metrics-port "$metrics_port"
  nodes+=($!)
  echo "coordinator-$number: http://127.0.0.1:$metrics_port/metrics"
  metrics_port=$((metrics_port + 1))
done
for ((number = 1; number <= ${EDGES:-2}; number++)); do
  port=$((${EDGE_PORT:-8080} + number - 1))
  edge_metrics_port=$((${EDGE_METRICS_PORT:-9121} + number - 1))
  start "edge-$number" "$bin/callnode" edge --nats-url "$nats_url" --node-id "edge-$number" \
    --port "$port" --metrics-port "$edge_metrics_port" --keys-file "$folder/keys.json" --log-format text
  nodes+=($!)
  echo "edge-$number: ws://127.0.0.1:$port/v1/connect   http://127.0.0.1:$edge_metrics_port/metrics"
done
if [[ -n ${PUSH_PROVIDERS:-} ]]; then
  for ((number = 1; number <= ${PUSHERS:-2}; number++)); do
    start "push-$number" "$bin/callnode" push --nats-url "$nats_url" --node-id "push-$number" \
      --push-providers "$PUSH_PROVIDERS" --log-format text --metrics-port "$metrics_port"
    nodes+=($!)
    echo "push-$number: http://127.0.0.1:$metrics_port/metrics"
    metrics_port=$((metrics_port + 1))
  done
fi
cat <<END
logs:   $folder/logs
status: $bin/callctl status --nats-url $nats_url   (also: callctl users, callctl calls --live)
token:  $bin/callctl token --app $app --user alice --keys-file $folder/keys.json
Ctrl-C ends it.
END
# Until one of them ends, which none should.
status=0
wait -n -p ended || status=$?
name=${names[${ended:-0}]:-a process}
echo "run-cluster.sh: $name ended with status $status; the end of $folder/logs/$name.log:" >&2
tail -n 5 "$folder/logs/$name.log" >&2 || true
exit 1
