#!/usr/bin/env bash
# Writes Sources/CCallProto from the schemas beside this file. With --check: says whether what is
# committed matches, and changes nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target="$here/../Sources/CCallProto"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v protoc-c >/dev/null || {
  echo "generate.sh: protoc-c is missing; install Debian's protobuf-c-compiler" >&2
  exit 2
}
mkdir -p "$work/include"
protoc-c --proto_path="$here" --c_out="$work" "$here"/callmesh/v1/*.proto
mv "$work"/callmesh "$work/include/"
mv "$work"/include/callmesh/v1/*.c "$work/"
{
  echo "#pragma once"
  echo "#include <protobuf-c/protobuf-c.h>"
  # Swift's strict memory safety: to name a field is safe. What follows the pointers in it is marked.
  echo "#pragma clang attribute push(__attribute__((swift_attr(\"@safe\"))), apply_to = any(record, field, function))"
  for file in "$here"/callmesh/v1/*.proto; do
    echo "#include \"callmesh/v1/$(basename "$file" .proto).pb-c.h\""
  done
  echo "#pragma clang attribute pop"
} >"$work/include/callproto.h"
echo 'module CCallProto { header "callproto.h" export * }' >"$work/include/module.modulemap"
if [[ "${1:-}" == "--check" ]]; then
  if diff -r "$work" "$target" >/dev/null; then
    echo "generated code matches Proto/"
  else
    diff -rq "$work" "$target" || true
    echo "generate.sh: Sources/CCallProto does not match Proto/; run Proto/generate.sh" >&2
    exit 1
  fi
else
  rm -rf "$target"
  mkdir -p "$target"
  cp -r "$work"/. "$target/"
  echo "wrote Sources/CCallProto"
fi
