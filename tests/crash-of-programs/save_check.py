"""The document is one whole edition, and none older than the last that was told."""
import os
import sys

editions = {f"edition {number}\n{letter * length}\n": number for number, letter, length in ((1, "w", 4500), (2, "x", 5500), (3, "y", 8800))}
told = max([int(line.split()[1]) for line in open(os.environ["WEIR_ACKED"])], default=0)
try:
    content = open("document", encoding="latin-1").read()
except FileNotFoundError:
    print("the document is gone")
    sys.exit(1)
if content not in editions:
    print(f"the document has {len(content)} bytes and is no edition")
    sys.exit(1)
if editions[content] < told:
    print(f"edition {told} was told, edition {editions[content]} is there")
    sys.exit(1)
