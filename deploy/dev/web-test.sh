#!/usr/bin/env bash
# Runs the tests of the JavaScript client, of the phone's model and of the conformance suite in node, which is installed
# from Debian where it is missing, checks the client's declarations, and measures the client.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/dev/node.sh
node --test --test-reporter=spec clients/web/test/*.test.js clients/web/phone/test/*.test.js \
  Tests/Conformance/test/*.test.js
deploy/dev/web-types.sh
deploy/dev/web-size.sh
