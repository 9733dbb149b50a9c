"""Saves a document as programs do: a new file beside the old one, then a rename. The arguments say what is synced: file, folder."""
import os
import sys


def save(name, content, synced):
    with open(name + ".new", "w") as new:
        new.write(content)
        new.flush()
        if "file" in synced:
            os.fsync(new.fileno())
    os.rename(name + ".new", name)
    if "folder" in synced:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(here)
        os.close(here)


for edition, letter, length in ((2, "x", 5500), (3, "y", 8800)):
    save("document", f"edition {edition}\n{letter * length}\n", sys.argv[1:])
    print("edition", edition, flush=True)
