"""The journal begins with every entry that was told; what comes after may be cut off."""
import os
import sys

told = sum(1 for _ in open(os.environ["WEIR_ACKED"]))
data = open("journal", "rb").read() if os.path.exists("journal") else b""
whole = 0
while data[whole * 32 : whole * 32 + 32] == b"entry %-25d\n" % (whole + 1):
    whole += 1
if whole < told:
    print(f"{told} entries were told, {whole} are there")
    sys.exit(1)
