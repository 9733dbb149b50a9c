"""Transfers in a SQLite database. Arguments: journal mode, synchronous."""
import sqlite3
import sys

bank = sqlite3.connect("bank.db", isolation_level=None)
bank.execute("PRAGMA synchronous=" + sys.argv[1])
for number in range(1, 5):
    bank.execute("BEGIN IMMEDIATE")
    bank.execute("UPDATE account SET held = held + CASE id WHEN 1 THEN -5 ELSE 5 END")
    bank.execute("INSERT INTO transfer VALUES (?)", (number,))
    bank.execute("COMMIT")
    print("transfer", number, flush=True)
    if number == 2 and sys.argv[2:] == ["checkpoint"]:
        bank.execute("PRAGMA wal_checkpoint").fetchall()
bank.close()
