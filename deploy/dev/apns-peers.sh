#!/usr/bin/env bash
# Checks the APNs simulator (apnssim) against clients that nobody of this project wrote: aioapns
# (PyPI) sends good and bad pushes and must be answered as Apple says; h2load (nghttp2) pushes as
# fast as it can. Needs python3 with venv, and h2load (Debian: nghttp2-client), which it does not
# install by itself. Not part of the tests: it fetches from PyPI.
#
#   deploy/dev/apns-peers.sh [requests for h2load, default 100000]
set -euo pipefail
cd "$(dirname "$0")/../.."
requests=${1:-100000}
program=${APNSSIM:-.build/release/apnssim}
folder=$(mktemp -d)
server=
stop() { # Ends the server and shows its report.
  [[ -z $server ]] && return
  kill -INT "$server" 2>/dev/null || true
  wait "$server" || true
  server=
}
trap 'stop; rm -rf "$folder"' EXIT

command -v h2load >/dev/null || { echo "h2load is missing: apt-get install nghttp2-client"; exit 1; }
[[ -x $program ]] || { echo "$program is missing: make build"; exit 1; }
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install aioapns

start() { # name, arguments of apnssim...: starts it, and sets $server and $port
  local name=$1
  shift
  "$program" --port 0 --folder "$folder" --json "$@" >"$folder/$name.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    port=$(sed -n 's|^APNs simulator on https://[^:]*:\([0-9]*\) .*|\1|p' "$folder/$name.log")
    [[ -n $port ]] && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  cat "$folder/$name.log"
  echo "apnssim did not start"
  exit 1
}

report() { tail -1 "$folder/$1.log"; } # name: the report as JSON

one=$(printf 'ab%.0s' {1..32})
gone=$(printf 'cd%.0s' {1..32})
topic=com.example.calls.voip

for mode in strict tolerant; do
  echo "== aioapns, $mode"
  switches=()
  [[ $mode == tolerant ]] && switches=(--no-alpn --der --string-iat)
  start "$mode" --only-known --token "$one=$topic" --gone "$gone=$topic" "${switches[@]}"
  "$folder/venv/bin/python" deploy/dev/apns_peer.py \
    "$mode" "$port" "$folder/ca.pem" "$folder/AuthKey_KEYID12345.p8" "$one" "$gone"
  stop
  report "$mode" | "$folder/venv/bin/python" deploy/dev/apns_peer.py report
done

echo "== h2load, $requests pushes"
# Now and then it opens streams before it has read the first SETTINGS, which APNs forbids.
start load --early-streams --streams 100
printf '{"aps":{},"call":"00112233-4455-6677-8899-aabbccddeeff","padding":"%0300d"}' 0 >"$folder/body"
authorization=$(sed -n "s/.*'authorization: \(bearer [^']*\)'.*/\1/p" "$folder/load.log")
before=$(awk '{print $14 + $15}' "/proc/$server/stat")
h2load -n "$requests" -c 4 -m 100 -t 1 -d "$folder/body" -H "authorization: $authorization" \
  -H 'apns-push-type: voip' -H "apns-topic: $topic" -H 'apns-expiration: 0' \
  "https://127.0.0.1:$port/3/device/$one" |
  grep -E '^(finished|requests|status|traffic|time for request)'
after=$(awk '{print $14 + $15}' "/proc/$server/stat")
echo "server: $((after - before)) ticks of $(getconf CLK_TCK)/s of one processor," \
  "$(awk '/VmRSS/ {print $2 " kB"}' "/proc/$server/status") resident"
stop
report load | "$folder/venv/bin/python" deploy/dev/apns_peer.py report
