"""Puts four values into a store and tells of each: stores.py lmdb|leveldb sync|nosync|mapped, and with `check` as third word judges one."""
import os
import sys

kind, mode, *rest = sys.argv[1:]


def opened():
    if kind == "lmdb":
        import lmdb

        store = lmdb.open("db", map_size=1 << 20, sync=mode != "nosync", writemap=mode == "mapped", max_readers=4)

        def put(key, value):
            with store.begin(write=True) as change:
                change.put(key, value)

        def everything():
            with store.begin() as look:
                return dict(look.cursor())

        return put, everything
    import plyvel

    # Not with paranoid_checks: then LevelDB refuses to open a store whose last record is torn, which any crash may leave.
    store = plyvel.DB("db", create_if_missing=False)
    return lambda key, value: store.put(key, value, sync=mode == "sync"), lambda: dict(store.iterator(verify_checksums=True))


value = {b"%d" % number: bytes([64 + number]) * 3000 for number in range(5)}
if rest:
    # A store that maps its file ends with SIGBUS where that is too short: then it cannot be read, and the checker is not at fault.
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            sys.exit(print(f"the store cannot be read: signal {os.WTERMSIG(status)}") or 1)
        sys.exit(os.WEXITSTATUS(status))
    told = sum(1 for _ in open(os.environ["WEIR_ACKED"]))
    try:
        there = opened()[1]()
    except Exception as error:
        sys.exit(print(f"the store cannot be opened or read: {type(error).__name__}") or 1)
    if any(value.get(key) != found for key, found in there.items()):
        sys.exit(print("a value is none that was put") or 1)
    if sorted(there) != [b"%d" % number for number in range(len(there))]:
        sys.exit(print("a value is there without one that was put before it") or 1)
    if len(there) < told + 1:
        sys.exit(print(f"{told} values were told, {len(there) - 1} are there") or 1)
else:
    put = opened()[0]
    for number in range(1, 5):
        put(b"%d" % number, value[b"%d" % number])
        print("put", number, flush=True)
