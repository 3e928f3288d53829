#!/usr/bin/env bash
# bench.sh BIN [FILTER]: the micro-benchmarks, or those whose name contains FILTER. Bus and journal are
# measured with a nats-server of its own: JetStream on a free port of the loopback, its store in a
# temporary folder, both gone when this ends, however it ends. Where NATS_URL is set, that server is
# measured instead.
set -euo pipefail
bin=$1
shift
# All of them take a minute or two on two free processors.
minutes=20
bus= run= folder=

stop() {
  trap - INT TERM EXIT
  # The process that is waited for below is timeout, which hands the signal on and does not wait for ever.
  for process in $run $bus; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  [[ -z $folder ]] || rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ -z ${NATS_URL:-} ]]; then
  nats=$(PATH="$PATH:/usr/sbin:/usr/local/bin" command -v nats-server) || {
    echo "bench.sh: nats-server is missing; deploy/dev/install.sh installs it" >&2
    exit 2
  }
  folder=$(mktemp -d "${TMPDIR:-/tmp}/callmesh-bench.XXXXXX")
  # Port -1: the server takes a free one, and says which in a file.
  timeout --kill-after=5 "$((minutes + 1))m" "$nats" -a 127.0.0.1 -p -1 -n callmesh-bench \
    -js -sd "$folder/store" --ports_file_dir "$folder" >"$folder/log" 2>&1 &
  bus=$!
  for ((attempt = 1; attempt <= 200; attempt++)); do
    NATS_URL=$(sed -n 's|.*"\(nats://[0-9.:]*\)".*|\1|p' "$folder"/*.ports 2>/dev/null) || true
    [[ -z $NATS_URL ]] || break
    kill -0 "$bus" 2>/dev/null || break
    sleep 0.05
  done
  [[ -n $NATS_URL ]] || {
    echo "bench.sh: nats-server did not start:" >&2
    cat "$folder/log" >&2
    exit 1
  }
  export NATS_URL
fi

# In the background, so that Ctrl-C is heard at once.
timeout --kill-after=5 "${minutes}m" "$bin/Benchmarks" "$@" &
run=$!
status=0
wait "$run" || status=$?
run=
if ((status == 124 || status == 137)); then
  echo "bench.sh: took longer than $minutes min" >&2
fi
exit $status
