#!/usr/bin/env bash
# Installs the Debian packages that building Tessera needs, if any is missing. Names may be given to
# install more than the default list.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config libdnnl-dev libpcre2-dev nlohmann-json3-dev libcli11-dev
          libfmt-dev llvm-19-dev libzstd-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev "$@")

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-packages: these Debian packages are missing and sudo is not there to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
