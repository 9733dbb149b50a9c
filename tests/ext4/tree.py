"""Reads the tree of a sound ext2, ext3 or ext4 image, without any code of Weir or e2fsprogs: kinds, sizes, contents, attributes."""

import hashlib
import stat
import struct


class Bad(Exception):
    """The image is not one that this reads."""


class Node:
    """What an inode holds."""

    def __init__(self, ino, mode, size, blocks, target, attributes):
        self.ino, self.mode, self.size = ino, mode, size
        self.blocks, self.target, self.attributes = blocks, target, attributes

    def kind(self):
        return stat.S_IFMT(self.mode)

    def digest(self):
        """Kind and content, however the content is mapped: blocks of zeros count as holes."""
        told = hashlib.sha256(repr((self.kind(), self.target)).encode())
        if stat.S_ISREG(self.mode):
            told.update(repr(self.size).encode())
            for index in sorted(self.blocks):
                told.update(repr(index).encode() + self.blocks[index])
        return told.hexdigest()


class Image:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        sb = self.bytes[1024:2048]
        if len(sb) < 1024 or struct.unpack_from("<H", sb, 0x38)[0] != 0xEF53:
            raise Bad("no superblock")
        word = lambda at: struct.unpack_from("<I", sb, at)[0]
        half = lambda at: struct.unpack_from("<H", sb, at)[0]
        self.block_bytes = 1024 << word(0x18)
        self.first_block = word(0x14)
        self.per_group, self.inodes_per_group = word(0x20), word(0x28)
        self.inodes, self.incompat = word(0), word(0x60)
        old = word(0x4C) == 0
        self.inode_bytes = 128 if old else half(0x58)
        self.descriptor_bytes = half(0xFE) if self.incompat & 0x80 else 32
        self.filetype = bool(self.incompat & 2)
        self.nodes = {}

    def block(self, number):
        start = number * self.block_bytes
        data = self.bytes[start : start + self.block_bytes]
        return data + bytes(self.block_bytes - len(data))

    def raw_inode(self, ino):
        group, index = divmod(ino - 1, self.inodes_per_group)
        at = (self.first_block + 1) * self.block_bytes + group * self.descriptor_bytes
        table = struct.unpack_from("<I", self.bytes, at + 8)[0]
        if self.descriptor_bytes >= 64:
            table |= struct.unpack_from("<I", self.bytes, at + 0x28)[0] << 32
        start = table * self.block_bytes + index * self.inode_bytes
        return self.bytes[start : start + self.inode_bytes]

    def extents(self, node, out, depth=0):
        magic, entries, _, levels = struct.unpack_from("<HHHH", node)
        if magic != 0xF30A or depth > 5:
            raise Bad("a damaged tree of extents")
        for at in range(12, 12 + entries * 12, 12):
            if levels:
                low, high = struct.unpack_from("<IH", node, at + 4)
                self.extents(self.block(high << 32 | low), out, depth + 1)
                continue
            first, length, high, low = struct.unpack_from("<IHHI", node, at)
            if length <= 32768:
                out.update((first + step, (high << 32 | low) + step) for step in range(length))

    def pointers(self, table, levels, first, out):
        per_block = self.block_bytes // 4
        for step, pointer in enumerate(struct.unpack_from(f"<{per_block}I", self.block(table))):
            at = first + step * per_block ** (levels - 1)
            if pointer and levels > 1:
                self.pointers(pointer, levels - 1, at, out)
            elif pointer:
                out[at] = pointer

    def map_of(self, raw):
        """Block of the file to block of the image; what was allocated and not written counts as a hole."""
        out = {}
        if struct.unpack_from("<I", raw, 0x20)[0] & 0x80000:
            self.extents(raw[0x28:0x64], out)
            return out
        pointers = struct.unpack_from("<15I", raw, 0x28)
        out.update((at, pointer) for at, pointer in enumerate(pointers[:12]) if pointer)
        first, per_block = 12, self.block_bytes // 4
        for levels in (1, 2, 3):
            if pointers[11 + levels]:
                self.pointers(pointers[11 + levels], levels, first, out)
            first += per_block**levels
        return out

    def attributes(self, raw, acl):
        out = {}
        if len(raw) > 128:
            at = 128 + struct.unpack_from("<H", raw, 0x80)[0]
            if at + 8 <= len(raw) and struct.unpack_from("<I", raw, at)[0] == 0xEA020000:
                self.entries(raw, at + 4, at + 4, out)
        if acl and struct.unpack_from("<I", self.block(acl))[0] == 0xEA020000:
            self.entries(self.block(acl), 32, 0, out)
        return out

    def entries(self, data, at, base, out):
        while at + 16 <= len(data) and data[at : at + 4] != bytes(4):
            length, prefix, offset, _, size = struct.unpack_from("<BBHII", data, at)
            name = data[at + 16 : at + 16 + length]
            out.setdefault((prefix, name), data[base + offset : base + offset + size] if size else b"")
            at += 16 + (length + 3) // 4 * 4

    def node(self, ino):
        if ino in self.nodes:
            return self.nodes[ino]
        raw = self.raw_inode(ino)
        mode, size = struct.unpack_from("<H", raw)[0], struct.unpack_from("<I", raw, 4)[0]
        if stat.S_ISREG(mode):
            size |= struct.unpack_from("<I", raw, 0x6C)[0] << 32
        acl = struct.unpack_from("<I", raw, 0x68)[0] | struct.unpack_from("<H", raw, 0x76)[0] << 32
        blocks, target = {}, None
        sectors = struct.unpack_from("<I", raw, 0x1C)[0] - (self.block_bytes // 512 if acl else 0)
        if stat.S_ISLNK(mode) and size < 60 and sectors <= 0:
            target = raw[0x28 : 0x28 + size]
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
            end = -(-size // self.block_bytes)
            for index, place in self.map_of(raw).items():
                data = self.block(place)
                if index == end - 1 and size % self.block_bytes:
                    data = data[: size % self.block_bytes]
                if index < end and data.strip(b"\0"):
                    blocks[index] = data.rstrip(b"\0")
            if stat.S_ISLNK(mode):
                target = b"".join(blocks.get(at, b"") for at in range(end))[:size]
        else:
            target = raw[0x28:0x30]
        node = Node(ino, mode, size, blocks, target, self.attributes(raw, acl))
        self.nodes[ino] = node
        return node

    def names(self, directory):
        for index in range(-(-directory.size // self.block_bytes)):
            data = directory.blocks.get(index, b"")
            data += bytes(self.block_bytes - len(data))
            at = 0
            while at + 8 <= len(data):
                ino, length, name_length, kind = struct.unpack_from("<IHBB", data, at)
                if length == 0 and self.block_bytes >= 65536:
                    length = self.block_bytes
                if length < 8 or at + length > len(data):
                    break
                name = data[at + 8 : at + 8 + name_length]
                if ino and name not in (b".", b"..") and kind != 0xDE and name_length:
                    yield name, ino
                at += length

    def walk(self):
        """Every path with its node."""
        found, open_, seen = {}, [(b"", self.node(2))], {2}
        while open_:
            path, directory = open_.pop()
            for name, ino in self.names(directory):
                if not 1 <= ino <= self.inodes:
                    continue
                node, full = self.node(ino), path + b"/" + name
                found[full] = node
                if stat.S_ISDIR(node.mode) and ino not in seen:
                    seen.add(ino)
                    open_.append((full, node))
        return found


def missing_bytes(kept, has):
    """How many bytes that are not zero one file has and another has not at the same place."""
    count = 0
    for index, data in kept.blocks.items():
        other = has.blocks.get(index, b"")
        if other != data:
            other += bytes(len(data))
            count += sum(1 for mine, its in zip(data, other) if mine and mine != its)
    return count


def lost(kept, has):
    """What the tree `kept` has and `has` lacks: (path, what, bytes) each; a thing in lost+found is not lost."""
    theirs, ours = Image(kept).walk(), Image(has).walk()
    by_ino = {node.ino: node for node in ours.values()}
    digests = {node.digest() for node in ours.values()}
    out = []
    # What e2fsck makes for what it finds, and had no use for in the end.
    if not any(path.startswith(b"/lost+found/") for path in theirs):
        theirs.pop(b"/lost+found", None)
    for path, node in sorted(theirs.items()):
        same_path, same_ino = ours.get(path), by_ino.get(node.ino)
        # A file of the same name may be another, and the same inode another file.
        found = [other for other in (same_path, same_ino) if other and other.kind() == node.kind()]
        if not found:
            if path == b"/lost+found":
                continue
            if stat.S_ISDIR(node.mode) or node.digest() not in digests:
                out.append((path, "is not there", node.size))
            continue
        attributes = [name for name, value in node.attributes.items()
                      if all(other.attributes.get(name) != value for other in found)]
        out.extend((path, f"attribute {name!r}", 0) for name in attributes)
        if stat.S_ISREG(node.mode):
            short = min(missing_bytes(node, other) for other in found)
            sizes = max(other.size for other in found)
            if (short or sizes < node.size) and node.digest() not in digests:
                out.append((path, f"{short} bytes differ, size {sizes} of {node.size}", short))
        elif not stat.S_ISDIR(node.mode) and all(other.target != node.target for other in found):
            if node.digest() not in digests:
                out.append((path, "leads elsewhere", 0))
        if not path.startswith(b"/lost+found/") and same_path is None:
            out.append((path, "name moved", 0))
    return out
