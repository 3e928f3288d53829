#!/usr/bin/env bash
# Checks the edge's HTTP against its description, with a tool that nobody of this project wrote:
# schemathesis (PyPI) makes requests from Sources/CallEdge/HTTP/openapi.json and judges the answers.
# Starts nats-server and one node with all roles on loopback. Needs python3 with venv. Not part of
# the tests: it fetches from PyPI.
#
#   deploy/dev/schemathesis.sh [seconds, default 120]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-120}
bin=${CALLMESH_BIN:-.build/release}
description=Sources/CallEdge/HTTP/openapi.json
folder=$(mktemp -d)
processes=()
stop() { # Ends what was started, the newest first.
  for ((index = ${#processes[@]} - 1; index >= 0; index--)); do
    kill "${processes[index]}" 2>/dev/null || true
    wait "${processes[index]}" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap stop EXIT

command -v nats-server >/dev/null || { echo "nats-server is missing: see deploy/dev/install.sh"; exit 1; }
[[ -x $bin/callnode ]] || { echo "$bin/callnode is missing: make build"; exit 1; }
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install 'schemathesis>=4,<5'

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
nats_port=$(free_port)
port=$(free_port)
operators_port=$(free_port)

nats-server -js -sd "$folder/store" -a 127.0.0.1 -p "$nats_port" >"$folder/nats.log" 2>&1 &
processes+=($!)
"$bin/callctl" keys --app demo --keys-file "$folder/keys.json" >/dev/null
# A burst of made-up requests is what this is about.
"$bin/callnode" all --nats-url "nats://127.0.0.1:$nats_port" --keys-file "$folder/keys.json" \
  --port "$port" --metrics-port "$operators_port" --requests-per-address 100000 \
  --commands-per-second 100000 --commands-burst 100000 --failed-auths-per-address 100000 \
  >"$folder/node.log" 2>&1 &
processes+=($!)
ready() { python3 - "$operators_port" <<'PYTHON'
import sys, urllib.request
urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/readyz", timeout=1)
PYTHON
}
for _ in $(seq 300); do
  ready 2>/dev/null && break
  kill -0 "${processes[-1]}" 2>/dev/null || break
  sleep 0.1
done
ready 2>/dev/null || { cat "$folder/node.log"; echo "the node did not start"; exit 1; }

# Which ids are valid is a matter of Unicode (IdentifierRules), and members that nobody knows are ignored: no schema
# says either. Tokens are judged by the tests. A WebSocket's path has no requests and answers.
unjudged=positive_data_acceptance,negative_data_rejection,ignored_auth
check() { # tag, token, further arguments...
  local tag=$1 token=$2
  shift 2
  echo "== $tag"
  timeout "$seconds" "$folder/venv/bin/schemathesis" run "$description" \
    --url "http://127.0.0.1:$port" --include-tag "$tag" --exclude-path /v1/connect \
    --header "Authorization: Bearer $token" --max-examples 50 --no-color --warnings off \
    --exclude-checks "$unjudged" \
    --generation-deterministic "$@" || status=$?
}
status=0
check edge none
check device "$("$bin/callctl" token --app demo --user bob --device bob-phone --keys-file "$folder/keys.json")"
check app "$("$bin/callctl" token --app demo --server --keys-file "$folder/keys.json")"
kill -0 "${processes[-1]}" || { cat "$folder/node.log"; echo "the node died"; exit 1; }
exit "$status"
