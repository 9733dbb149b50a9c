#!/usr/bin/env bash
# The wheel with the command inside: built twice to the same bytes, installed offline into fresh virtual environments and tested there;
# the tutorial notebook, whose frames must sum to the numbers of the page.
# usage: tests/python/wheel.sh WEIR
set -euo pipefail
weir=$(realpath "${1:?usage: wheel.sh WEIR}")
here=$(dirname "$(realpath "$0")")
package=$here/../../python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 MPLCONFIGDIR=$work/matplotlib
unset WEIR PYTHONPATH

# The first of several Pythons that can do what is asked.
look() { local one; for one in python3 /usr/bin/python3; do "$one" -c "$1" 2>/dev/null && { echo "$one"; return; }; done; return 1; }
fetch() {
  [ "$(id -u)" = 0 ] && command -v apt-get && apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"
} >/dev/null 2>&1
find_or_fetch() { look "$1" || { fetch "${@:2}" || true; look "$1"; }; }

builder=$(find_or_fetch 'import tomllib, venv, ensurepip' python3 python3-venv) \
  || { echo "left out: there is no Python 3.11 with venv"; exit 0; }

# Symbols are of no use in a wheel.
cp "$weir" "$work/weir"
strip "$work/weir" 2>/dev/null || true
"$builder" "$package/build_wheel.py" "$work/weir" "$work/one" >/dev/null
wheel=$("$builder" "$package/build_wheel.py" "$work/weir" "$work/two")
cmp "$work"/one/*.whl "$wheel"
echo "wheel: $(basename "$wheel"), $(stat -c %s "$wheel") bytes, the same twice"
(cd "$package" && "$builder" -m unittest tests.test_wheel) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
tail -n 1 "$work/log"

# The tests beside the installed package, not the sources.
mkdir "$work/run"
cp -r "$package/tests" "$work/run/tests"
check() { # PYTHON TESTS…
  local python=$1; shift
  (cd "$work/run" && "$python" -W error::ResourceWarning -m unittest -v "$@") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  sed -nE "s/.* \.\.\. skipped '(.*)'$/left out: \1/p" "$work/log" | sort | uniq -c
  sed -n '/^Ran /p' "$work/log"
}
install() { # PYTHON FOLDER OPTIONS…
  local python=$1 folder=$2; shift 2
  "$python" -m venv "$@" "$folder"
  "$folder/bin/pip" install --quiet --no-index "$wheel"
}

echo "== without any other package"
install "$builder" "$work/plain"
version=$("$weir" --version)
for one in "$work/plain/bin/weir" "$work/plain/bin/python -m weirlab"; do
  [ "$($one --version)" = "$version" ] || { echo "$one is not $version"; exit 1; }
done
check "$work/plain/bin/python" tests.test_command tests.test_result

echo "== with pandas"
with_pandas=$(find_or_fetch 'import pandas, venv, ensurepip' python3-pandas python3-venv) \
  || { echo "left out: there is no pandas, so neither frames nor the notebook are tried"; exit 0; }
install "$with_pandas" "$work/data-frames" --system-site-packages
check "$work/data-frames/bin/python" tests.test_result.Frames tests.test_result.Figures tests.test_result.Reading
(cd "$work/run" && "$work/data-frames/bin/python" "$here/notebook.py" "$package/tutorial.ipynb")
