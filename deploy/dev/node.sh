# To be sourced: installs node from Debian where it is missing.
if ! command -v node >/dev/null; then
  # shellcheck source=deploy/dev/debian.sh
  source "${BASH_SOURCE[0]%/*}/debian.sh"
  echo "Installing from Debian: nodejs"
  why=$(install_from_debian nodejs) || {
    echo "$(basename "$0"): node is missing: $why; as root: apt-get install nodejs" >&2
    exit 2
  }
fi
