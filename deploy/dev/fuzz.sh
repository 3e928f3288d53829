#!/usr/bin/env bash
# Feeds the readers of strangers' bytes with what libFuzzer thinks up (docs/fuzzing.md).
#
#   deploy/dev/fuzz.sh MINUTES [TARGET…]      all targets, or these, in turns: so long in all
#   deploy/dev/fuzz.sh --repeat TARGET FILE…  one input, or several, with all that is known of a crash
#   deploy/dev/fuzz.sh --keep [TARGET…]       what was found that runs new code goes into Tests/Corpora
#   deploy/dev/fuzz.sh --build                nothing but the program
#
# A run keeps its finds in .build-fuzz/found, where the next one goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-fuzz
kept=Tests/Corpora
found=$scratch/found
# The most files of each target; the smallest inputs come first.
files_max=200

build() {
  local runtime
  runtime=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
  runtime=$(ls "$runtime"/clang/lib/linux/libclang_rt.fuzzer_no_main-"$(uname -m)".a)
  CALLMESH_FUZZ=1 swift build -c release --product callfuzz --scratch-path $scratch \
    -Xlinker "$runtime" -Xlinker -lstdc++
}

fuzz() { # target, libFuzzer's arguments…
  local target=$1
  shift
  CALLMESH_FUZZ_TARGET=$target SWIFT_BACKTRACE=enable=no \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
    "$scratch/release/callfuzz" -timeout=10 -rss_limit_mb=2048 "$@"
}

run() { # seconds, targets…
  local seconds=$1 target status=0
  shift
  for target in "$@"; do
    mkdir -p "$found/$target" "$kept/$target"
    local log=$scratch/$target.log dictionary=()
    [[ ! -f $kept/$target.dict ]] || dictionary=(-dict="$kept/$target.dict")
    printf '%-18s ' "$target"
    if fuzz "$target" -max_total_time="$seconds" -artifact_prefix="$kept/$target/" \
      "${dictionary[@]}" -print_final_stats=1 "$found/$target" "$kept/$target" >"$log" 2>&1; then
      sed -n 's/.*\(cov: [0-9]*\).*\(corp: [^ ]*\).*\(exec\/s: [0-9]*\).*/\1  \2  \3/p' "$log" | tail -1
    else
      status=1
      echo "BROKEN: $log"
      grep -E 'Fatal error|ERROR|SUMMARY|Test unit written to' "$log" || true
      sed -n "s|.*Test unit written to \(.*\)|  again: deploy/dev/fuzz.sh --repeat $target \1|p" "$log"
    fi
  done
  return $status
}

# Smallest inputs that together run all that the others run. Whatever once broke something stays.
keep() { # targets…
  local target merged=$scratch/merged
  for target in "$@"; do
    rm -rf "$merged"
    mkdir -p "$merged" "$found/$target"
    fuzz "$target" -merge=1 "$merged" "$kept/$target" "$found/$target" >"$scratch/$target.log" 2>&1
    find "$kept/$target" -type f ! -name '*-*' -delete
    find "$merged" -type f -printf '%s %p\n' | sort -n | sed -n "1,${files_max}p" | cut -d' ' -f2- |
      xargs -r cp -t "$kept/$target"
    echo "$target: $(find "$kept/$target" -type f | wc -l) files, $(du -bs "$kept/$target" | cut -f1) bytes"
  done
}

build
[[ ${1:-} != --build ]] || exit 0
all=$("$scratch/release/callfuzz")
case ${1:-} in
--repeat)
  shift
  fuzz "$@"
  ;;
--keep)
  shift
  # shellcheck disable=SC2086
  keep ${*:-$all}
  ;;
*)
  minutes=${1:-10}
  shift || true
  # shellcheck disable=SC2206
  targets=(${*:-$all})
  run $((minutes * 60 / ${#targets[@]})) "${targets[@]}"
  ;;
esac
