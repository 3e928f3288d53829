#!/usr/bin/env bash
# Has TypeScript's compiler read the client's declarations, and a page that uses them.
#
# The compiler comes from Debian; where it is missing and cannot be installed, nothing is checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v tsc >/dev/null; then
  source deploy/dev/debian.sh
  why=$(install_from_debian node-typescript) || {
    echo "the client's TypeScript declarations: SKIPPED: tsc is missing: $why; as root: apt-get install node-typescript" >&2
    exit 0
  }
fi
tsc --noEmit --strict --target es2022 --lib es2022,dom --module es2022 --moduleResolution node \
  clients/web/test/declarations.ts
echo "the client's TypeScript declarations hold"
