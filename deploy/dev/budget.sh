#!/usr/bin/env bash
# Prints the lines of Swift of each module beside its budget (budget.txt). Fails where a module is over its budget or has
# none. With --fit it prints a new budget.txt instead: the present figures, rounded up to fifties.
set -euo pipefail
cd "$(dirname "$0")/../.."
for folder in Sources/* Tests loadtest; do
  lines=$(find "$folder" -name '*.swift' -exec cat {} + | wc -l)
  ((lines == 0)) || echo "${folder##*/} $lines"
done | awk -v mode="${1:-}" '
  FNR == NR {
    if (mode == "--fit" && !/^[a-z]/) print
    if (/^[a-z]/) { kind[$2] = $1; budget[$2] = $3; order[++count] = $2 }
    next
  }
  { lines[$1] = $2; if (!($1 in kind)) { missing = missing " " $1 } }
  END {
    for (i = 1; i <= count; i++) {
      name = order[i]
      if (mode == "--fit") { printf "%-8s %-16s %6d\n", kind[name], name, int(lines[name] / 50 + 1) * 50; continue }
      over = lines[name] > budget[name]
      printf "%-8s %-16s %6d of %6d%s\n", kind[name], name, lines[name], budget[name], over ? "  OVER" : ""
      total[kind[name]] += lines[name]; most[kind[name]] += budget[name]
      if (over) failed = 1
    }
    if (mode == "--fit") exit
    for (k in total) printf "%-8s %-16s %6d of %6d\n", "all", k, total[k], most[k] | "sort"
    close("sort")
    if (missing) { print "no budget in deploy/dev/budget.txt:" missing; failed = 1 }
    exit failed
  }' deploy/dev/budget.txt -
