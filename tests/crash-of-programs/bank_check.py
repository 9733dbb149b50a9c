"""The database is sound, its total is right, and every transfer that was told is there."""
import os
import sqlite3
import sys

told = sum(1 for _ in open(os.environ["WEIR_ACKED"]))
try:
    bank = sqlite3.connect("bank.db")
    verdict = bank.execute("PRAGMA integrity_check").fetchone()[0]
    total = bank.execute("SELECT sum(held) FROM account").fetchone()[0]
    transfers = [row[0] for row in bank.execute("SELECT number FROM transfer ORDER BY number")]
except sqlite3.Error as error:
    print("the database cannot be read:", error)
    sys.exit(1)
if verdict != "ok" or total != 100 or transfers != list(range(1, len(transfers) + 1)):
    print(f"the database is inconsistent: {verdict}, total {total}, {len(transfers)} transfers")
    sys.exit(1)
if len(transfers) < told:
    print(f"{told} transfers were told, {len(transfers)} are there")
    sys.exit(1)
