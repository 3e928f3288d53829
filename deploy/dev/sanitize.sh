#!/usr/bin/env bash
# The tests of whatever reads strangers' bytes, under the address sanitizer and then under the thread
# sanitizer, each in a build of its own (docs/fuzzing.md).
#
#   deploy/dev/sanitize.sh [address|thread…]
set -euo pipefail
cd "$(dirname "$0")/../.."

# Parsers, and the edge around them. Servers, clusters and simulations are in `make test`.
tests='(CallFuzzTests|CallWireTests|CallAuthTests|CallTelemetryTests|CallClientTests|CallEdgeTests)\.'
tests+='|NATSBusTests\.(ParsingTests|ServerListTests)|CallPushTests\.(Dialect|FCMVerdict|WebPushEncryption)'
tests+='|CallNodeTests\.(PushProviders|Resolution|Setting)'

for sanitizer in "${@:-address thread}"; do
  for one in $sanitizer; do
    echo "== $one"
    swift build -c debug --build-tests --sanitize "$one" --scratch-path ".build-$one" \
      -Xswiftc -use-ld=lld
    preload=()
    if [[ $one == thread ]]; then
      clang -shared -fPIC -O1 deploy/dev/tsan-mutex.c -o .build-thread/tsan-mutex.so
      preload=(LD_PRELOAD="$PWD/.build-thread/tsan-mutex.so")
    fi
    # Leaks are looked for by tests of memory. A data race fails the run.
    env "${preload[@]}" ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=0:exitcode=66 SWIFT_BACKTRACE=enable=no \
      swift test -c debug --skip-build --sanitize "$one" --scratch-path ".build-$one" \
      --filter "$tests"
  done
done
