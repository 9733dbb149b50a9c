#!/usr/bin/env python3
"""Links of the documents: each leads to a file or folder of the tree, each anchor to a heading; the index leads to every page.

usage: tests/house/links.py [ROOT]

Addresses of other hosts are not asked. A canary in a page of its own must be found, so that a checker that has gone blind fails.
"""

import re
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\)")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
SKIPPED = {"target", ".git", "node_modules"}


def pages(root):
    """Every Markdown file of the tree, each once: links of the file system lead to pages that are found anyway."""
    every = (path for path in sorted(root.rglob("*.md")) if not path.is_symlink())
    return [path for path in every if not SKIPPED & set(path.relative_to(root).parts)]


def blank(match):
    """The same number of lines, so that places stay right."""
    return "\n" * match[0].count("\n")


def links(text):
    """Each link of a page with its line; those in code are none."""
    plain = FENCE.sub(blank, text)
    # Words in backquotes within a link are its text: only the target matters.
    plain = CODE.sub(lambda match: blank(match) + "x", plain)
    for match in LINK.finditer(plain):
        yield plain.count("\n", 0, match.start()) + 1, match[1]


def anchors(text):
    """The anchors of a page, as GitHub names them: words of the heading by hyphens, a number after one that comes again."""
    seen, found = {}, set()
    for heading in re.findall(r"^#{1,6} +(.*?)\s*#*$", FENCE.sub(blank, text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def wrong_links(root):
    """What is wrong, a line each, and the number of links that were followed."""
    wrong, followed, texts = [], 0, {}
    for page in pages(root):
        text = texts.setdefault(page, page.read_text(encoding="utf-8"))
        for line, target in links(text):
            if OUTSIDE.match(target):
                continue
            followed += 1
            name, _, anchor = unquote(target).partition("#")
            place = (page.parent / name).resolve() if name else page
            told = f"{page.relative_to(root)}:{line}: {target}"
            if not place.exists():
                wrong.append(f"{told}: there is no such file")
            elif root.resolve() not in [place.resolve(), *place.resolve().parents]:
                wrong.append(f"{told}: leads out of the tree")
            elif anchor and place.suffix == ".md":
                other = texts.setdefault(place, place.read_text(encoding="utf-8"))
                if anchor not in anchors(other):
                    wrong.append(f"{told}: {place.name} has no heading for it")
    return wrong, followed


def unreached(root):
    """Pages below docs/ that docs/README.md does not lead to."""
    index = root / "docs/README.md"
    if not index.exists():
        return ["docs/README.md: is missing"]
    reached = {(index.parent / target.partition("#")[0]).resolve() for _, target in links(index.read_text(encoding="utf-8"))}
    all_pages = [page for page in pages(root / "docs") if page != index]
    return [f"docs/README.md: names no {page.relative_to(root)}" for page in all_pages if page.resolve() not in reached]


def canary():
    """A page with one right and five wrong links: the checker must find the five."""
    text = "# A b\n\n[ok](#a-b) [x](no.md) [y](#none) ![p](p.png)\n[`code`](gone.md) [out](../..)\n"
    text += "`[z](code.md)`\n```\n[q](block.md)\n```\n"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        (root / "docs").mkdir(parents=True)
        (root / "docs/README.md").write_text(text, encoding="utf-8")
        (root / "docs/alone.md").write_text("# Alone\n", encoding="utf-8")
        wrong, followed = wrong_links(root)
        return len(wrong) == 5 and followed == 6 and len(unreached(root)) == 1


def main():
    """Prints what is wrong; exit code 1 if anything is."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent.parent)
    if not canary():
        sys.exit("error: the checker does not find the wrong links of its own page")
    wrong, followed = wrong_links(root)
    wrong += unreached(root)
    print("\n".join([*wrong, f"{followed} links of {len(pages(root))} pages followed, {len(wrong)} wrong"]))
    sys.exit(1 if wrong or followed < 50 else 0)


main()
