#!/usr/bin/env bash
# Installs promtool, which tests the alert rules, into .devcluster/bin. It takes only this file from
# Debian's Prometheus package.
set -euo pipefail
bin=$PWD/.devcluster/bin
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fetch() { apt-get download -qq -o APT::Sandbox::User=root prometheus; } # apt's own user may not write here
fetch 2> /dev/null || { apt-get update -qq && fetch; }
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mkdir -p "$bin"
mv usr/bin/promtool "$bin"
