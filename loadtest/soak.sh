#!/usr/bin/env bash
# soak.sh BIN MINUTES [ARGS…]: every fault that callload knows, half of the time on one nats-server
# and half on three. Ends with 1 where a correctness count is not 0, or memory or the store grows.
#
# Three servers need a version that keeps replicas when it is killed (docs/reliability.md): NATS_SERVER_NEWER=PATH
# names one, deploy/dev/nats-newer.sh downloads one. Without, all of the time goes to one server.
set -euo pipefail
bin=$1 minutes=$2
shift 2

three=${NATS_SERVER_NEWER:-$(PATH="$PATH:/usr/sbin:/usr/local/bin" command -v nats-server || true)}
version=$("$three" -v 2>/dev/null | grep -o '[0-9][0-9.]*' | head -1 || true)
clusters=(1 3)
if [[ $(printf '%s\n' 2.12.3 "${version:-0}" | sort -V | head -1) != 2.12.3 ]]; then
  echo "soak: nats-server ${version:-(none)} may lose replicas when it is killed: one server only. For three set" >&2
  echo "soak: NATS_SERVER_NEWER to the path of 2.12.3 or newer, such as \$(deploy/dev/nats-newer.sh)" >&2
  clusters=(1)
fi

seconds=$((minutes * 60 / ${#clusters[@]}))
# Growth compares the second quarter of a run with its last: ended calls must have begun to be forgotten.
if ((seconds < 480)); then
  echo "soak: give at least MINUTES=$((8 * ${#clusters[@]})), so that growth can be told" >&2
  exit 2
fi
status=0
for servers in "${clusters[@]}"; do
  echo "soak: $servers nats-server(s), $((seconds / 60)) min"
  # While a replicated queue of pushes elects its leader rings wait for seconds, and callload counts them.
  more=(--sleeping 20% --push-gateways 2)
  ((servers == 1)) || more=(--nats "$three")
  # Ended calls are kept for 10 minutes; a shorter run would see nothing but them piling up. Two minutes
  # are longer than any device is without a session: what it asks for must still be known. Nor is the
  # store at its level before each shard has written a checkpoint or two.
  "$bin/callload" --nats-servers "$servers" "${more[@]}" --devices 600 --rate 15 --duration "${seconds}s" \
    --chaos all,drain=30s --summary 1m --check-growth \
    --node-setting endedCallKept=2m --node-setting checkpointEvery=1m --node-setting drainSeconds=3s "$@" || status=1
done
exit $status
