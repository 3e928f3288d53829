#!/usr/bin/env bash
# docs.sh [FOLDER]: renders the DocC pages of CallmeshClient into a folder for a web server (.build/docs). It reads the
# modules of the release build. A link that leads nowhere and a parameter that is not described are errors.
# The cache of C modules is its own: one that is shared hides a header that a fresh machine does not find.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-.build/docs}
graph=$(mktemp -d "${TMPDIR:-/tmp}/callmesh-docs.XXXXXX")
trap 'rm -rf "$graph"' EXIT
mkdir "$graph/symbols"

clang=(-Xcc -ISources/CCallProto/include)
for map in CCallProto/include CProtobufC CNATS; do
  clang+=(-Xcc "-fmodule-map-file=$PWD/Sources/$map/module.modulemap")
done
target=$(swift -print-target-info | sed -n 's/^ *"unversionedTriple": "\(.*\)",$/\1/p')
swift-symbolgraph-extract -module-name CallmeshClient -I .build/release/Modules \
  "${clang[@]}" -target "$target" -module-cache-path "$graph/cache" -minimum-access-level public \
  -output-dir "$graph/symbols"
docc convert Sources/CallmeshClient/CallmeshClient.docc --additional-symbol-graph-dir "$graph/symbols" \
  --fallback-display-name CallmeshClient --fallback-bundle-identifier callmesh.client \
  --output-path "$folder" --warnings-as-errors
echo "the DocC pages of CallmeshClient are in $folder:"
echo "  python3 -m http.server --directory $folder 8000   # then open http://127.0.0.1:8000/documentation/callmeshclient"
