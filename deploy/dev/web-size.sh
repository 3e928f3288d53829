#!/usr/bin/env bash
# Prints the size of the JavaScript client, minified and compressed, and fails where it has more than 20,000 bytes.
#
# esbuild comes from Debian; where it is missing and cannot be installed, nothing is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
most=20000
if ! command -v esbuild >/dev/null; then
  source deploy/dev/debian.sh
  why=$(install_from_debian esbuild) || {
    echo "size of the JavaScript client: SKIPPED: esbuild is missing: $why; as root: apt-get install esbuild" >&2
    exit 0
  }
fi

minified() { esbuild "clients/web/$1" --minify --log-level=error "${@:2}"; }
size() { # name, file, options of esbuild
  local plain compressed
  plain=$(minified "${@:2}" | wc -c)
  compressed=$(minified "${@:2}" | gzip -9 | wc -c)
  printf '%-42s %6d bytes minified, %6d with gzip\n' "$1" "$plain" "$compressed"
  last=$compressed
}
size "device.js: without media and push" device.js --bundle --format=esm
size "callmesh-sw.js: the service worker" callmesh-sw.js
size "callmesh.js: all but the service worker" callmesh.js --bundle --format=esm
((last <= most)) || {
  echo "callmesh.js has more than $most bytes" >&2
  exit 1
}
