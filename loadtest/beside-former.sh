#!/usr/bin/env bash
# Calls of every kind while nodes of this version and of an earlier one stand side by side: each node is restarted every
# few seconds, and each of its lives runs the other version. Builds the earlier one from its commit, once.
#   loadtest/beside-former.sh                    the version before calls could be transferred
#   FORMER=COMMIT loadtest/beside-former.sh WORDS   another one, with these options of callload
set -euo pipefail
cd "$(dirname "$0")/.."
former=${FORMER:-a5d0719a}
folder=$PWD/.build/former/$former
if [[ ! -x $folder/.build/release/callnode ]]; then
  if ! git cat-file -e "$former^{commit}" 2>/dev/null; then
    echo "beside-former.sh: this clone has no commit $former; 'git fetch --unshallow' may bring it" >&2
    exit 77
  fi
  mkdir -p "$folder"
  git archive "$former" | tar -x -C "$folder"
  echo "beside-former.sh: builds callnode of $former in $folder" >&2
  swift build --package-path "$folder" -c release -debug-info-format none \
    -Xswiftc -no-emit-module-separately-wmo --product callnode >&2
fi
if (($# == 0)); then
  set -- --devices 600 --rate 20 --duration 60s --chaos rolling-restart=4s --webhooks --history
fi
exec .build/release/callload --callnode "$folder/.build/release/callnode" --other-callnode .build/release/callnode "$@"
