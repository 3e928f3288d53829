#!/usr/bin/env bash
# All that a change must pass apart from the tests: format, comments, generated code, import rules, and a
# build without warnings. Runs every step, then says which failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
failed=()

step() { # title, command...
  local title=$1
  shift
  echo "== $title"
  "$@" || failed+=("$title")
}

format() {
  local paths=(Sources Tests loadtest/Benchmarks loadtest/CallBench Package.swift)
  swift format lint --strict --parallel --recursive --configuration .swift-format "${paths[@]}"
}

# A comment has its subject first: none begins with a word that leaves the reader to look for it. A doc comment names
# who does something: "notified of" or "learns" says more than "told".
comments() {
  local code=0
  git grep -nE '^[[:space:]]*(//+|#|\*|/\*\*)[[:space:]]*(Of|What|Whose|Whoever|Those that)[[:space:]]' -- \
    '*.swift' '*.js' '*.ts' '*.py' '*.sh' '*.proto' '*.c' '*.h' ':!*.pb-c.*' && code=1
  git grep -nE '^[[:space:]]*///.*\b(any more|told|heard|[Nn]obody)\b' -- '*.swift' && code=1
  return $code
}

# Warnings in our own sources are errors: Package.swift reads this.
build() {
  CALLMESH_WARNINGS=errors ${SWIFT_BUILD:?run make check, which sets it} --build-tests
}

docs() {
  local pages
  pages=$(mktemp -d)
  deploy/dev/docs.sh "$pages" >/dev/null
  local code=$?
  rm -rf "$pages"
  return $code
}

step "format (fix with: swift format -i -r Sources Tests loadtest Package.swift)" format
step "comments begin with their subject" comments
step "generated code (fix with: Proto/generate.sh)" Proto/generate.sh --check
step "import rules (deploy/dev/imports.awk)" deploy/dev/imports.sh
step "lines of each module (deploy/dev/budget.txt)" deploy/dev/budget.sh
step "build with warnings as errors" build
# After the build, whose modules it needs.
step "DocC pages (deploy/dev/docs.sh)" docs
step "glue to CallKit and PushKit (deploy/dev/apple)" deploy/dev/apple.sh

if ((${#failed[@]} > 0)); then
  printf 'check FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "check OK"
