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
# Fills the system's buffers. A sanitizer is too slow for it: requests pile up until another limit ends the connection.
skipped='UnreadTests/answersThatAreNotRead'

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
    # Tests of memory look for leaks. A data race fails the run. One test at a time: a sanitizer makes edges too slow
    # to keep their deadlines side by side.
    env "${preload[@]}" ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=0:exitcode=66 SWIFT_BACKTRACE=enable=no \
      swift test -c debug --skip-build --no-parallel --sanitize "$one" --scratch-path ".build-$one" \
      --filter "$tests" --skip "$skipped"
  done
done
