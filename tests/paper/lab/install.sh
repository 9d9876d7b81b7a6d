#!/bin/sh
# What the tests in a real browser need: Chromium with its driver and Node.js from the system's packages, Selenium and
# axe-core from Python's. Usage: tests/paper/lab/install.sh PYTHON. What is there already is left as it is.
set -e
here=$(dirname "$0")

stop() {
  echo "No browser could be installed: $1" >&2
  echo "The tests in a real browser will be skipped, and pytest will say so." >&2
  exit 1
}

missing=""
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing="$missing chromium"
command -v chromedriver >/dev/null || missing="$missing chromium-driver"
command -v node >/dev/null || missing="$missing nodejs"
if [ -n "$missing" ]; then
  command -v apt-get >/dev/null ||
    stop "this machine lacks$missing and has no apt-get. Install them by its own means, and run this again."
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || stop "apt-get needs root to install$missing, and there is no sudo."
    as_root="sudo -n"
  fi
  $as_root apt-get update -qq || echo "The list of packages could not be refreshed; the one that is here may do." >&2
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ||
    stop "apt-get could not install$missing; see its words above."
fi
"$1" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
  stop "pip could not install what $here/requirements.txt names."
# One file of this package is wanted, axe.min.js, and nothing that it depends on.
"$1" -m pip install --quiet --disable-pip-version-check --no-deps axe-playwright-python==0.1.8 ||
  stop "pip could not install axe-core."
