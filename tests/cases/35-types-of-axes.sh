#!/bin/bash
# An axis whose values are numbers is one in every frame: in that of a ratio, too.
#   tests/cases/35-types-of-axes.sh WEIR     (PYTHON: a python with pandas)
case=35-types-of-axes
. "$(dirname "$0")/place.sh"
export XDG_DATA_HOME=$work/data
here=$OLDPWD
module=$(cd "$here" && cd "$(dirname "$0")/../../python" && pwd)
python=
for one in "${PYTHON:-python3}" /usr/bin/python3; do "$one" -c 'import pandas' 2>/dev/null && { python=$one; break; }; done
[ -n "$python" ] || skip "pandas is not installed (PYTHON: a python that has it)"
WEIR=$weir PYTHONPATH=$module PYTHONDONTWRITEBYTECODE=1 "$python" - >out 2>err <<'P' || differs "$(tail -n 1 err)"
import weirlab
result = weirlab.bench("filebench/varmail", fs=["pmfs", "nova"], threads=[2, 10], runtime="1ms", variables={"nfiles": 1000}, progress=False)
frame = result.ratio("fs").frame
print(len(frame[frame["axis.threads"] == 10]), frame["axis.threads"].dtype, result.samples["axis.threads"].dtype)
P
[ "$(cat out)" = "1 Int64 Int64" ] || differs "rows, type of the ratio's axis, type of the samples' axis: $(cat out)"
ok
