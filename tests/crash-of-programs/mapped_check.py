"""The log's head counts pages, each of which is whole; what was told is counted."""
import os
import sys

log = open("log", "rb").read()
told = open(os.environ["WEIR_ACKED"]).read().split()
pages = log[0] - ord("0") if log[0] else 0
for at in range(1, pages + 1):
    if log[at * 4096 : (at + 1) * 4096] != bytes([ord("0") + at]) * 4096:
        sys.exit(print(f"page {at} is counted and not there") or 1)
if told and pages < int(told[-1]):
    sys.exit(print(f"{told[-1]} pages were told, {pages} are there") or 1)
