#!/usr/bin/env python3
"""Writes the packages that the command is made of, as CycloneDX 1.5 JSON, to standard output.

usage: packaging/sbom.py TARGET [FEATURES]      (Python 3.11 or newer, cargo; the sources of the packages are at hand)

What stands in Cargo.lock for other targets, for tests or for features that are off is not in it. The same sources give the same bytes.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def metadata(target, features):
    """What cargo says of the tree, for one target."""
    words = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target, "--features", features]
    told = subprocess.run(words, cwd=ROOT / "crates/weir", capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"error: cargo metadata: {told.stderr.strip()}")
    return json.loads(told.stdout)


def reached(nodes, root):
    """Packages that the root needs when it runs or is built: not those of tests alone."""
    seen, left = {root}, [root]
    while left:
        for need in nodes[left.pop()]["deps"]:
            kinds = {kind["kind"] for kind in need["dep_kinds"]}
            if kinds != {"dev"} and need["pkg"] not in seen:
                seen.add(need["pkg"])
                left.append(need["pkg"])
    return seen


def component(package, checksums):
    """One package."""
    one = {
        "type": "library",
        "name": package["name"],
        "version": package["version"],
        "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        "bom-ref": f"{package['name']}@{package['version']}",
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
    }
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        one["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return one


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    told = metadata(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == "weir" and package["source"] is None)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    inside = sorted(reached(nodes, root), key=lambda id: (packages[id]["name"], packages[id]["version"]))
    own = component(packages[root], checksums) | {"type": "application"}
    ref = {id: f"{packages[id]['name']}@{packages[id]['version']}" for id in inside}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": [component(packages[id], checksums) for id in inside if id != root],
        "dependencies": [
            {"ref": ref[id], "dependsOn": sorted({ref[need] for need in nodes[id]["dependencies"] if need in ref})} for id in inside
        ],
    }
    print(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main()
