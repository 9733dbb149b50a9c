#!/usr/bin/env bash
# The bugs that can be seeded in each design, beside those of an earlier commit, none of which may be gone; then that the tests of `make
# test` find every one of them, and how many they have found.
# usage: tests/house/mutants.sh [COMMIT]
#        COMMIT: 677650c, before the tests were shortened; RECALL=no leaves the tests out, which take ten minutes of two cores
set -euo pipefail
cd "$(dirname "$0")/../.."
base=${1:-677650c}
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
git cat-file -e "$base^{commit}" 2>/dev/null || { echo "left out: this clone has no commit $base"; exit 0; }
python3 - "$base" <<'PY'
import pathlib, re, subprocess, sys
base = sys.argv[1]
# A call, a line of a macro, or a variant.
NAME = re.compile(r'(?:Mutant::new\(\s*|^ +[A-Z]\w+ (?:= )?)"([a-z0-9-]+)"|^ {4}([A-Z][A-Za-z]+),$', re.M)
git = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout
DESIGN = re.compile(r"crates/(?:fs/src/)?(\w+)/.*mutant\.rs$")

def seeded(files, read):
    """The names of seeded bugs, by design."""
    found = {}
    for file, design in ((file, DESIGN.search(file)) for file in files):
        names = [one or other for one, other in NAME.findall(read(file))] if design else []
        if names:
            found.setdefault(design[1], set()).update(names)
    return found

now = seeded(git("ls-files", "crates").split(), lambda file: pathlib.Path(file).read_text())
then = seeded(git("ls-tree", "-r", "--name-only", base, "crates").split(), lambda file: git("show", f"{base}:{file}"))
print(f"{'design':12} {base:>8} {'now':>5}  gone")
gone = 0
for design in sorted(now.keys() | then.keys()):
    was, are = then.get(design, set()), now.get(design, set())
    gone += len(was - are)
    print(f"{design:12} {len(was):8} {len(are):5}  {', '.join(sorted(was - are)) or '-'}")
print(f"{'all':12} {sum(map(len, then.values())):8} {sum(map(len, now.values())):5}")
sys.exit(1 if gone or not then else 0)
PY
[ "${RECALL:-}" != no ] || exit 0
told=$(mktemp)
trap 'rm -f "$told"' EXIT
cargo test --quiet --locked -p weir-fs --test it -- recall::every_seeded_bug_is_found --nocapture >"$told" || { tail -20 "$told"; exit 1; }
echo "found: $(grep -cE '^.*: .* by .* with ' "$told")"
