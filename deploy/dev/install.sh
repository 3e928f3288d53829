#!/usr/bin/env bash
# Installs what a build and a local cluster need and this machine lacks; with the argument "tests" also what runs the
# tests. Does nothing, and says nothing, where all is there.
set -euo pipefail

missing=()
need() { # package, and a command that succeeds where it is not needed
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
# Debian keeps servers in a folder that is in root's PATH only.
has() { PATH="$PATH:/usr/sbin:/usr/local/bin" command -v "$1"; }

need pkg-config has pkg-config
if has pkg-config >/dev/null; then
  need libnats-dev pkg-config --exists libnats
  need libprotobuf-c-dev pkg-config --exists libprotobuf-c
else
  need libnats-dev test -e /usr/include/nats/nats.h
  need libprotobuf-c-dev test -e /usr/include/protobuf-c/protobuf-c.h
fi
need protobuf-c-compiler has protoc-c
need nats-server has nats-server
[[ ${1:-} != tests ]] || need python3 has python3

if ((${#missing[@]} > 0)); then
  echo "Installing from Debian: ${missing[*]}"
  # shellcheck source=deploy/dev/debian.sh
  source "${BASH_SOURCE[0]%/*}/debian.sh"
  why=$(install_from_debian "${missing[@]}") || {
    echo "install.sh: missing: ${missing[*]}: $why" >&2
    echo "install.sh: as root: apt-get install ${missing[*]}" >&2
    exit 2
  }
  if [[ " ${missing[*]} " == *" nats-server "* && -d /run/systemd/system ]]; then
    echo "Debian has started a nats-server of its own on 127.0.0.1:4222, without JetStream. Nothing here uses it;"
    echo "before you run a cluster by hand: systemctl disable --now nats-server"
  fi
fi

if ! command -v swift >/dev/null; then
  echo "install.sh: there is no swift in PATH; get Swift 6.3 from https://www.swift.org/install" >&2
  exit 2
fi
if ! banner=$(swift --version 2>&1); then
  echo "install.sh: $(command -v swift) does not run: $banner" >&2
  echo "install.sh: https://www.swift.org/install/linux lists the packages that Swift itself needs" >&2
  exit 2
fi
version=$(sed -n 's/.*Swift version \([0-9.]*\).*/\1/p' <<<"$banner" | head -n 1)
oldest=$(printf '6.3\n%s\n' "$version" | sort -V | head -n 1)
if [[ $oldest != 6.3 ]]; then
  echo "install.sh: Swift ${version:-of unknown version} is too old; Swift 6.3 is needed" >&2
  exit 2
fi
