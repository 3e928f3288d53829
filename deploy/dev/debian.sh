# To be sourced. `install_from_debian PACKAGE …` installs packages of Debian, and waits while another script does. It says
# nothing where it succeeds, and else why not.
install_from_debian() {
  command -v apt-get >/dev/null || { echo "there is no apt-get; install them in your system's way"; return 1; }
  local sudo=() log lock="${BASH_SOURCE[0]%/*}/../../.build/debian.lock"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "only root can install them"; return 1; }
    sudo=(sudo)
  fi
  mkdir -p "${lock%/*}"
  log=$(mktemp)
  apt() { # what apt and dpkg say is of interest only when they fail
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1
  }
  if { flock 9 && apt update && apt install -y --no-install-recommends "$@"; } 9>"$lock"; then
    rm -f "$log"
  else
    tail -n 20 "$log"
    rm -f "$log"
    echo "apt-get failed"
    return 1
  fi
}
