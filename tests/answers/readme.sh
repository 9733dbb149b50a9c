#!/usr/bin/env bash
# Blocks of README.md and docs that show a command and what it prints: each is run, and the block must be what it prints now.
#
# A block begins with ```console and `$ COMMAND`, whose lines end with \ where it goes on. A line `…` below it stands for lines that are
# left out, up to the next one that begins as the line below it does. Commands run one after the other in an empty folder.
#
# usage: tests/answers/readme.sh WEIR [--write] [FILE…]
#        --write: puts what is printed into the blocks
set -euo pipefail
weir=$(realpath "${1:?usage: readme.sh WEIR [--write] [FILE...]}")
shift
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
root=$(dirname "$(realpath "$0")")/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"
ln -s "$weir" "$work/bin/weir"
export XDG_DATA_HOME=$work/data PATH=$work/bin:$PATH
python3 - "$root" "$work/run" "$@" <<'PY'
import difflib, pathlib, re, subprocess, sys
root, run = pathlib.Path(sys.argv[1]), sys.argv[2]
write = "--write" in sys.argv[3:]
named = [pathlib.Path(name) for name in sys.argv[3:] if name != "--write"]
files = named or [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
LIMIT_S = 600

def start(line):
    """What a line is found by: its first words."""
    return line.split()[:2]

def shown(block, printed):
    """What a block shows of what is printed: all of it, or from the line on that begins as the one below the dots."""
    if not block or block[0] != "…":
        return printed
    at = next((n for n, line in enumerate(printed) if start(line) == start(block[1]) and line.strip()), None)
    return ["…", *([] if at is None else printed[at:])]

blocks = differ = 0
for file in files:
    text = file.read_text()
    def checked(found):
        global blocks, differ
        command, rest = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*)", found[1], re.S).groups()
        done = subprocess.run(["bash", "-c", command], cwd=run, capture_output=True, text=True, timeout=LIMIT_S)
        printed = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]
        block = rest.rstrip("\n").split("\n")
        want = shown(block, printed)
        blocks += 1
        if done.returncode != 0 or block != want:
            differ += 1
            print(f"{file.name}: $ {command} (exit {done.returncode})")
            print("\n".join(difflib.unified_diff(block, want, "in the file", "printed now", lineterm="")) or done.stderr)
        return f"```console\n$ {command}\n" + "\n".join(want) + "\n```" if write and done.returncode == 0 else found[0]
    new = re.sub(r"```console\n(\$ .*?)```", checked, text, flags=re.S)
    if new != text:
        file.write_text(new)
print(f"{blocks} blocks; {differ} differ")
if blocks == 0 or (differ and not write):
    sys.exit(1)
PY
