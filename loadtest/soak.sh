#!/usr/bin/env bash
# soak.sh BIN MINUTES [ARGS…]: every fault that callload knows, half of the time on one nats-server
# and half on three. Ends with 1 where a correctness count is not 0, or memory or the store grows.
set -euo pipefail
bin=$1 minutes=$2
shift 2
seconds=$((minutes * 30))
# Growth compares the second quarter of a run with its last: ended calls must have begun to be forgotten.
((seconds >= 480)) || { echo "soak: give at least MINUTES=16, so that growth can be told" >&2; exit 2; }
status=0
for servers in 1 3; do
  echo "soak: $servers nats-server(s), $((seconds / 60)) min"
  # Ended calls are kept for 10 minutes; a shorter run would see nothing but them piling up. Two minutes
  # are longer than any device is without a session: what it asks for must still be known.
  "$bin/callload" --nats-servers "$servers" --devices 600 --rate 15 --duration "${seconds}s" \
    --chaos all,drain=30s --sleeping 20% --push-gateways 2 --summary 1m --check-growth \
    --node-setting endedCallKept=2m --node-setting drainSeconds=3s "$@" || status=1
done
exit $status
