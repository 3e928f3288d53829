#!/usr/bin/env bash
# Starts webphone at a free port, and tests its page with Chromium and Firefox. Everything that is started ends with it.
#
#   clients/web/phone/test/run.sh [program [test …]]      program: .build/release/webphone
#
# Installs Chromium, Firefox, node and coturn from Debian and selenium from PyPI where they are missing. Exits with 77 where they
# cannot be had. Without coturn only the tests of relays are left out, and without Firefox only its calls.
#
# Environment: SECONDS_MAX (300), PHONE_SHOTS (a folder for screenshots of the main states), VENV (a folder for what is
# installed from PyPI; default: .build/phone-test).
set -euo pipefail
cd "$(dirname "$0")/../../../.."
source deploy/dev/debian.sh
program=${1:-.build/release/webphone}
shift || true
venv=${VENV:-.build/phone-test}
# The modules that the tests import, and axe-core, which is a file in a package whose other dependencies nobody needs.
modules=(selenium cryptography axe_playwright_python)

log=$(mktemp)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  [[ -z $server ]] || wait "$server" || true
  rm -f "$log"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Says what is missing, and how to get it. Status 77 means that nothing was tested.
skip() {
  tail -n 5 "$log" >&2
  echo "phone-test: SKIPPED: $1" >&2
  exit 77
}

install_python() {
  python3 -m venv --clear "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'selenium>=4.20,<5' 'cryptography>=41' &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps 'axe-playwright-python==0.1.8'
}

has_python() {
  local module
  for module in "${modules[@]}"; do
    "$venv/bin/python" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$module'))" || return 1
  done 2>/dev/null
}

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if ((${#missing[@]} > 0)); then
  echo "Installing from Debian: ${missing[*]}"
  why=$(install_from_debian "${missing[@]}") || skip "${missing[*]} missing: $why; by hand: apt-get install ${missing[*]}"
fi
optional() { # a package, and what is not tested without it
  echo "Installing from Debian: $1"
  local why
  why=$(install_from_debian "$1") || echo "phone-test: $1 is missing, so $2 is not tested: $why" >&2
}
if ! command -v turnserver >/dev/null; then
  optional coturn "a relay"
  [[ ! -d /run/systemd/system ]] ||
    echo "If Debian has started a coturn of its own: nothing here uses it. systemctl disable --now coturn"
fi
command -v node >/dev/null || optional nodejs "the client at a cluster"
# Some tests that are named need none.
if (($# == 0)) && ! command -v firefox-esr >/dev/null && ! command -v firefox >/dev/null; then
  optional firefox-esr "a call in Firefox"
fi
if ! has_python; then
  echo "Installing from PyPI: ${modules[*]}"
  install_python </dev/null >"$log" 2>&1 || skip "${modules[*]} cannot be installed from PyPI into $venv"
fi

# The page of this folder, wherever the program is.
"$program" --port 0 --folder clients/web >"$log" 2>&1 &
server=$!
until url=$(grep -m 1 -o 'http://localhost:[0-9]*' "$log"); do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$log" >&2
    exit 2
  fi
  sleep 0.1
done
echo "testing the phone at $url"
seconds=${SECONDS_MAX:-300}
status=0
PHONE_URL=$url PROGRAMS=$(dirname "$program") timeout --signal=INT --kill-after=20 "$seconds" \
  "$venv/bin/python" clients/web/phone/test/run.py "$@" || status=$?
((status != 124)) || echo "phone-test: the tests were not over after $seconds s" >&2
exit "$status"
