#!/usr/bin/env python3
"""Makes the documentation site from docs/ by mdBook, and follows every link of it.

usage: packaging/book.py OUT_FOLDER      (Python 3.11 or newer, mdbook)

The chapters are those that docs/README.md names, in its order. Files of the tree that pages link to are copied; links to folders
become plain text. The site needs no network: fonts and scripts are in it.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).resolve().parent.parent
FIRST = ROOT / "README.md"
INDEX = ROOT / "docs/README.md"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
BOOK = """[book]
title = "Weir"
language = "en"
src = "src"

[build]
use-default-preprocessors = false

[output.html]
default-theme = "light"
no-section-label = true
"""


def inside(page, target):
    """The file of the tree that a link of a page leads to, or none: a place on the page, another site."""
    path = urldefrag(target)[0]
    if not path or "://" in path or path.startswith("mailto:"):
        return None
    return (page.parent / unquote(path)).resolve()


def chapters():
    """Headings and pages of the index, each page once: ("heading", text) and ("page", file)."""
    found, seen = [], {FIRST, INDEX}
    for line in INDEX.read_text().splitlines():
        if line.startswith("## "):
            found.append(("heading", line[3:]))
        for _, target in LINK.findall(line) if line.startswith("|") else ():
            page = inside(INDEX, target)
            if page and page.suffix == ".md" and page.is_file() and page not in seen:
                seen.add(page)
                found.append(("page", page))
    return found


def title(page):
    """The first heading of a page."""
    return next(line[2:] for line in page.read_text().splitlines() if line.startswith("# ")).replace("`", "")


def plain_folders(page, text):
    """The text, with links to folders as plain text."""

    def one(match):
        target = inside(page, match[2])
        return match[1] if target and target.is_dir() else match[0]

    return LINK.sub(one, text)


def collect(source):
    """Copies the pages and what they link to; returns the pages."""
    pages = [FIRST, INDEX, *(what for kind, what in chapters() if kind == "page")]
    wanted = set(pages)
    for page in pages:
        for _, target in LINK.findall(page.read_text()):
            file = inside(page, target)
            if file and file.is_file():
                wanted.add(file)
    for file in sorted(wanted):
        to = source / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.write_text(plain_folders(file, file.read_text()))
        else:
            shutil.copyfile(file, to)
    return pages, sorted(file for file in wanted if file.suffix == ".md" and file not in pages)


def summary(others):
    """The list of chapters, as mdBook wants it."""
    lines = ["# Weir", "", "[Weir](README.md)", "[Documentation](docs/README.md)"]
    for kind, what in chapters():
        if kind == "heading":
            lines += ["", f"# {what}", ""]
        else:
            lines.append(f"- [{title(what)}]({what.relative_to(ROOT)})")
    lines += ["", "# Further", ""] + [f"- [{title(page)}]({page.relative_to(ROOT)})" for page in others]
    return "\n".join(lines) + "\n"


class Links(html.parser.HTMLParser):
    """Links and places of a page of the site."""

    def __init__(self):
        super().__init__()
        self.links, self.places = [], set()

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag in ("a", "link", "img", "script"):
            self.links += [named[key] for key in ("href", "src") if named.get(key)]
        self.places.update(named[key] for key in ("id", "name") if named.get(key))


def follow(site):
    """Follows the links of every page; returns how many, and what is wrong."""
    pages = {}
    for file in site.rglob("*.html"):
        pages[file.resolve()] = Links()
        pages[file.resolve()].feed(file.read_text())
    count, wrong = 0, []
    for file, page in pages.items():
        if file.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            path, place = urldefrag(link)
            if "://" in path or path.startswith(("mailto:", "data:")):
                continue
            to = (file.parent / unquote(path)).resolve() if path else file
            count += 1
            if not to.exists():
                wrong.append(f"{file.relative_to(site)}: {link}: there is no such file")
            elif place and to in pages and unquote(place) not in pages[to].places:
                wrong.append(f"{file.relative_to(site)}: {link}: there is no such place")
    return count, wrong


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1]).resolve()
    if not shutil.which("mdbook"):
        sys.exit("error: mdbook is missing: cargo install --locked --no-default-features mdbook")
    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "src")
        pages, others = collect(source)
        Path(work, "book.toml").write_text(BOOK)
        (source / "SUMMARY.md").write_text(summary(others))
        shutil.rmtree(out, ignore_errors=True)
        told = subprocess.run(["mdbook", "build", "--dest-dir", str(out), work], capture_output=True, text=True)
        if told.returncode != 0:
            sys.exit(f"error: mdbook: {told.stderr}")
    count, wrong = follow(out)
    print("".join(f"{line}\n" for line in wrong), end="")
    print(f"{len(pages) + len(others)} pages, {count} links followed, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
