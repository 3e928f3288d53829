#!/usr/bin/env bash
# Says which source files import what their target may not know.
set -euo pipefail
cd "$(dirname "$0")/../.."
find Sources Tests loadtest -name '*.swift' -print0 | sort -z |
  xargs -0 awk -f deploy/dev/imports.awk || exit 1
