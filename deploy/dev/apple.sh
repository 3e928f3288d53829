#!/usr/bin/env bash
# Type-checks what is for Apple's platforms alone where Apple's SDK is not. The glue to CallKit and PushKit is checked against
# declarations that we wrote from Apple's documentation (deploy/dev/apple), the transport over URLSession against the
# declarations of Linux's Foundation. It needs the modules of a build.
# usage: deploy/dev/apple.sh [FOLDER OF .swiftmodule FILES [MORE ARGUMENTS OF swiftc]]
set -euo pipefail
cd "$(dirname "$0")/../.."
modules=${1:-.build/release/Modules}
shift || true
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(-swift-version 6 -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
  -enable-upcoming-feature MemberImportVisibility -enable-upcoming-feature NonisolatedNonsendingByDefault
  -I "$modules" -I "$folder" -Xcc -fmodule-map-file=Sources/CProtobufC/module.modulemap
  -Xcc -fmodule-map-file=Sources/CCallProto/include/module.modulemap -Xcc -ISources/CCallProto/include)
for module in CallKit PushKit; do
  swiftc -swift-version 6 -parse-as-library -module-name "$module" \
    -emit-module -emit-module-path "$folder/$module.swiftmodule" "deploy/dev/apple/$module.swift"
done
swiftc -typecheck -warnings-as-errors -parse-as-library -module-name CallmeshCallKit "${flags[@]}" "$@" \
  Sources/CallmeshCallKit/*.swift
# There the same class is in another module.
sed 's/#if canImport(Darwin)/#if true/; s/^  public import Foundation$/  public import CallmeshClient\n  public import FoundationNetworking\n  internal import Foundation/' \
  Sources/CallmeshClient/Transport/URLSessionTransport.swift >"$folder/transport.swift"
swiftc -typecheck -warnings-as-errors -parse-as-library -module-name Transport "${flags[@]}" "$@" "$folder/transport.swift"
echo "the transport over URLSession fits its declarations; the glue to CallKit and PushKit fits their declarations"
