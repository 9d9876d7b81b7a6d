#!/bin/sh
# Chromium with its driver and Node.js from the system's packages, Selenium from Python's, axe-core from Node's.
# Usage: tests/paper/lab/install.sh PYTHON. What is there already is left as it is.
set -e
here=$(dirname "$0")
as_root=$([ "$(id -u)" = 0 ] || echo sudo)
missing=""
command -v chromium >/dev/null || missing="$missing chromium"
command -v chromedriver >/dev/null || missing="$missing chromium-driver"
command -v node >/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
if [ -n "$missing" ]; then
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  $as_root apt-get install -y -qq --no-install-recommends $missing
fi
"$1" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
npm install --silent --no-save --no-package-lock --prefix "$here/../../../.browser" axe-core@4.14.0
