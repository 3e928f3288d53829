# To be sourced: installs node from Debian where it is missing.
if ! command -v node >/dev/null; then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  echo "Installing from Debian: nodejs"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { "${sudo[@]}" apt-get update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends nodejs; } </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    echo "$(basename "$0"): node is missing, and Debian's cannot be installed: apt-get install nodejs" >&2
    exit 2
  fi
fi
