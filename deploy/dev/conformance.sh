#!/usr/bin/env bash
# Runs both clients through the situations of the device protocol (docs/conformance.md): the JavaScript client, and the
# Swift client by the program that is given. Options of Tests/Conformance/run.js may follow.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/dev/node.sh
adapter=$1
shift
failed=0
run() { node Tests/Conformance/run.js "${options[@]}" -- "$@" || failed=1; }
options=("$@")
run node clients/web/testing/conformance.js
run "$adapter"
exit $failed
