//! What each call does to the names, inodes and descriptors.

use super::{Asked, Binding, Effect, LISTING, LOCKS, Lead, OpenFile, ROOT, Refused, State, Use};
use crate::call::Op;
use crate::record::{Kind, Timed};
use crate::words::{
    APPEND, CLOEXEC, CREAT, DIRECTORY, EXCHANGE, EXCL, KEEP_SIZE, MAP_SHARED, NOFOLLOW, TMPFILE, TRUNC,
};

/// "File exists".
const EEXIST: i64 = -17;
/// The bits of lseek's words: from the beginning, the position, the end.
const WHENCE_END: u32 = 4;
/// Punching holes, shifting ranges and unsharing leave the size, or change it by themselves.
const COLLAPSE: u32 = 8;
const INSERT: u32 = 32;
/// `PROT_WRITE` among the words of a mapping.
const MAP_WRITE: u32 = 2;

impl State {
    /// Applies a call whose descriptors are known.
    pub(super) fn apply_call(
        &mut self,
        table: u32,
        timed: &Timed,
        effect: &mut Effect,
    ) -> Result<(), Refused> {
        let call = &timed.call;
        effect.fd = self.handle_of(table, call.fd);
        effect.fd2 = self.handle_of(table, call.fd2);
        let done = timed.result >= 0;
        match call.op {
            Op::Open => self.open_call(table, timed, effect),
            Op::Close if done => self.close(table, call, effect),
            Op::Dup if done => self.dup(table, timed, effect),
            Op::SetFd if done => self.set_cloexec(table, call),
            Op::SetFl => self.set_flags(call, effect),
            Op::Exec => {
                // Programs elsewhere are nothing that a replay has.
                if call.path.as_ref().is_some_and(|path| path.first() != Some(&b'/')) {
                    self.look(call, done, effect);
                }
                if done {
                    self.exec(timed.thread, effect)?;
                }
            }
            Op::Mkdir | Op::Mknod | Op::Symlink => self.make(timed, effect),
            Op::Unlink | Op::Rmdir => self.unlink(timed, effect),
            Op::Rename => self.rename(timed, effect),
            Op::Link | Op::LinkFd => self.link(timed, effect),
            Op::Mmap => self.mmap(timed, effect),
            Op::Msync | Op::Munmap => self.mapping(call, effect),
            _ if call.path.is_some() => self.by_path(timed, effect),
            _ if call.fd.is_some() => self.by_descriptor(timed, effect),
            _ => {}
        }
        Ok(())
    }

    /// Follows the path of a call; the inode to which it leads must exist if the call has succeeded.
    fn look(&mut self, call: Asked<'_>, done: bool, effect: &mut Effect) -> Option<(u32, Option<Binding>)> {
        let follow = call.op.follows() && !(call.op == Op::Open && call.has(NOFOLLOW));
        self.look_at(call.path.as_deref().unwrap_or_default(), (follow, done), effect)
    }

    fn look_at(
        &mut self,
        path: &[u8],
        (follow, done): (bool, bool),
        effect: &mut Effect,
    ) -> Option<(u32, Option<Binding>)> {
        match self.tree.resolve(path, (follow, done), &mut effect.visits) {
            Lead::Node(node, key) => Some((node, key)),
            Lead::Unknown(key) | Lead::Absent(key) if done => {
                Some((self.tree.infer(key, Kind::File), Some(key)))
            }
            _ => None,
        }
    }

    fn open_call(&mut self, table: u32, timed: &Timed, effect: &mut Effect) {
        let (call, done) = (&timed.call, timed.result >= 0);
        if !done {
            let exists = timed.result == EEXIST;
            if let Some((node, _)) = self.look(call, exists, effect) {
                effect.objects.push((node, Use::Reads));
            }
            return;
        }
        let (node, key) = if call.flags & TMPFILE == TMPFILE {
            self.look(call, true, effect);
            (self.tree.make_unnamed(call.mode), None)
        } else {
            self.opened_node(call, effect)
        };
        let changes = call.has(TRUNC) && call.flags & 3 != 0;
        if changes {
            self.tree.set_size(node, 0);
        }
        // O_TMPFILE has the bit of O_DIRECTORY.
        if call.has(DIRECTORY) && call.flags & TMPFILE != TMPFILE {
            self.tree.node(node).kind = Kind::Directory;
        }
        effect.objects.push((node, if changes { Use::Changes } else { Use::Reads }));
        let file = OpenFile { node, key, flags: call.flags, position: 0, handles: 0 };
        effect.opened = Some(self.open(table, timed.result as i32, file, effect));
    }

    /// The inode that a successful open has opened or made.
    fn opened_node(&mut self, call: Asked<'_>, effect: &mut Effect) -> (u32, Option<Binding>) {
        let follow = !(call.has(NOFOLLOW) || call.has(CREAT) && call.has(EXCL));
        let path = call.path.as_deref().unwrap_or_default();
        match self.tree.resolve(path, (follow, true), &mut effect.visits) {
            Lead::Node(node, key) => (node, key),
            Lead::Unknown(key) | Lead::Absent(key) if call.has(CREAT) => {
                effect.name(key);
                let node = self.tree.make(key, Kind::File, call.mode);
                effect.objects.push((node, Use::Changes));
                (node, Some(key))
            }
            Lead::Unknown(key) | Lead::Absent(key) => (self.tree.infer(key, Kind::File), Some(key)),
            Lead::Broken => (ROOT, None),
        }
    }

    fn close(&mut self, table: u32, call: Asked<'_>, effect: &mut Effect) {
        let slot = call.fd.and_then(|fd| self.tables.get_mut(&table)?.slots.remove(&fd));
        if let Some(slot) = slot {
            self.release(slot.handle, effect);
        }
    }

    fn dup(&mut self, table: u32, timed: &Timed, effect: &mut Effect) {
        let new = timed.result as i32;
        // dup2 of a descriptor to itself does nothing.
        let Some(handle) = effect.fd.and_then(|handle| self.handles.get(&handle).copied()) else { return };
        if timed.call.fd == Some(new) {
            return;
        }
        effect.opened = Some(self.put(table, new, handle.file, timed.call.has(CLOEXEC), effect));
    }

    fn set_cloexec(&mut self, table: u32, call: Asked<'_>) {
        let slot = call.fd.and_then(|fd| self.tables.get_mut(&table)?.slots.get_mut(&fd));
        if let Some(slot) = slot {
            slot.cloexec = call.has(CLOEXEC);
        }
    }

    fn set_flags(&mut self, call: Asked<'_>, effect: &mut Effect) {
        let Some((number, _)) = effect.fd.and_then(|handle| self.file_of(handle)) else { return };
        effect.files.push(number);
        if let Some(file) = self.files.get_mut(&number) {
            file.flags = file.flags & !APPEND | call.flags & APPEND;
        }
    }

    fn make(&mut self, timed: &Timed, effect: &mut Effect) {
        let (call, done) = (&timed.call, timed.result >= 0);
        let path = call.path.as_deref().unwrap_or_default();
        let lead = self.tree.resolve(path, (false, done || timed.result == EEXIST), &mut effect.visits);
        let kind = match call.op {
            Op::Mkdir => Kind::Directory,
            Op::Symlink => Kind::Symlink,
            _ => Kind::of_mode(call.mode).unwrap_or(Kind::File),
        };
        let (Lead::Absent(key) | Lead::Unknown(key) | Lead::Node(_, Some(key))) = lead else { return };
        if timed.result == EEXIST && matches!(lead, Lead::Unknown(_) | Lead::Absent(_)) {
            self.tree.infer(key, if call.op == Op::Mkdir { Kind::Directory } else { Kind::File });
        }
        if !done {
            return;
        }
        if matches!(lead, Lead::Node(..)) {
            self.tree.contradictions += 1;
        }
        effect.name(key);
        let node = self.tree.make(key, kind, call.mode & 0o7777);
        self.tree.node(node).target = call.path2.clone().filter(|_| kind == Kind::Symlink);
        effect.objects.push((node, Use::Changes));
    }

    fn unlink(&mut self, timed: &Timed, effect: &mut Effect) {
        let done = timed.result >= 0;
        let Some((node, key)) = self.look(&timed.call, done, effect) else { return };
        if timed.call.op == Op::Rmdir {
            self.tree.node(node).kind = Kind::Directory;
        }
        effect.objects.push((node, if done { Use::Changes } else { Use::Reads }));
        if let Some(key) = key.filter(|_| done) {
            effect.name(key);
            if timed.call.op == Op::Rmdir {
                self.emptied(node, effect);
            }
            self.tree.remove(key);
        }
    }

    /// A directory can go only after every name in it has.
    fn emptied(&self, node: u32, effect: &mut Effect) {
        effect
            .names
            .extend(self.tree.nodes[node as usize].names.iter().map(|name| ((node, *name), Use::Reads)));
    }

    fn rename(&mut self, timed: &Timed, effect: &mut Effect) {
        let (call, done) = (&timed.call, timed.result >= 0);
        let from = self.look(call, done, effect);
        let to = call.path2.as_deref().unwrap_or_default();
        let lead = self.tree.resolve(to, (false, done), &mut effect.visits);
        let (Some((node, Some(old))), true) = (from, done) else { return };
        let (new, replaced) = match lead {
            Lead::Node(replaced, Some(key)) => (key, Some(replaced)),
            Lead::Absent(key) | Lead::Unknown(key) => (key, None),
            _ => return,
        };
        effect.name(old);
        effect.name(new);
        effect.objects.push((node, Use::Reads));
        effect.objects.extend(replaced.map(|node| (node, Use::Changes)));
        if replaced == Some(node) {
            return; // two names of one file: nothing happens
        }
        self.tree.link(node, new);
        match replaced.filter(|_| call.has(EXCHANGE)) {
            Some(replaced) => self.tree.link(replaced, old),
            None => self.tree.remove(old),
        }
    }

    fn link(&mut self, timed: &Timed, effect: &mut Effect) {
        let (call, done) = (&timed.call, timed.result >= 0);
        let node = match effect.fd.and_then(|handle| self.file_of(handle)) {
            Some((_, file)) => Some(file.node),
            None => self.look(call, done, effect).map(|(node, _)| node),
        };
        let to = call.path2.as_deref().unwrap_or_default();
        let lead = self.tree.resolve(to, (false, done), &mut effect.visits);
        let (Some(node), true) = (node, done) else { return };
        let (Lead::Absent(key) | Lead::Unknown(key) | Lead::Node(_, Some(key))) = lead else { return };
        effect.name(key);
        effect.objects.push((node, Use::Changes));
        self.tree.link(node, key);
    }

    fn mmap(&mut self, timed: &Timed, effect: &mut Effect) {
        let Some((_, file)) = effect.fd.and_then(|handle| self.file_of(handle)) else { return };
        let node = file.node;
        effect.objects.push((node, Use::Reads));
        if timed.result >= 0 {
            self.mappings.insert(timed.result as u32, node);
            let is_written = timed.call.has(MAP_SHARED) && timed.call.has(MAP_WRITE);
            self.tree.node(node).restamped |= is_written;
        }
    }

    fn mapping(&mut self, call: Asked<'_>, effect: &mut Effect) {
        let node = self.mappings.get(&call.mode).copied();
        effect.objects.extend(node.map(|node| (node, Use::Reads)));
        if call.op == Op::Munmap {
            self.mappings.remove(&call.mode);
        }
    }

    fn by_path(&mut self, timed: &Timed, effect: &mut Effect) {
        let call = &timed.call;
        let done = timed.result >= 0;
        let Some((node, _)) = self.look(call, done, effect) else { return };
        let changes = matches!(
            call.op,
            Op::Truncate
                | Op::Chmod
                | Op::Chown
                | Op::Lchown
                | Op::Utimes
                | Op::Lutimes
                | Op::Setxattr
                | Op::Lsetxattr
                | Op::Removexattr
                | Op::Lremovexattr
        );
        effect.objects.push((node, if changes && done { Use::Changes } else { Use::Reads }));
        match call.op {
            Op::Truncate if done => self.tree.set_size(node, call.len),
            Op::Chmod if done => self.tree.node(node).mode = call.mode & 0o7777,
            Op::Chdir if done => self.tree.node(node).kind = Kind::Directory,
            Op::Readlink if done => self.tree.node(node).kind = Kind::Symlink,
            Op::Utimes | Op::Lutimes if done => self.tree.node(node).restamped = true,
            _ => {}
        }
    }

    fn by_descriptor(&mut self, timed: &Timed, effect: &mut Effect) {
        let call = &timed.call;
        let Some((number, file)) = effect.fd.and_then(|handle| self.file_of(handle)) else { return };
        let node = file.node;
        let done = timed.result.max(0) as u64;
        match call.op {
            Op::Read | Op::Write | Op::Lseek | Op::Getdents => self.at_position(timed, number, effect),
            Op::Pread | Op::SendFile => {
                effect.objects.push((node, Use::Reads));
                self.moved(number, call.offset, (node, done), false, effect);
            }
            Op::Pwrite | Op::ReceiveFile => {
                effect.objects.push((node, Use::Changes));
                self.moved(number, call.offset, (node, done), true, effect);
            }
            Op::Copy => self.copy(timed, (number, node), effect),
            Op::Flock | Op::Lock => {
                self.locked.insert(node);
                effect.names.push(((node, LOCKS), Use::Changes));
            }
            Op::Ftruncate | Op::Fallocate => {
                effect.objects.push((node, Use::Changes));
                self.resize(timed, node);
            }
            Op::Clone => {
                effect.objects.push((node, Use::Changes));
                let other = effect.fd2.and_then(|handle| self.file_of(handle)).map(|(_, file)| file.node);
                effect.objects.extend(other.map(|node| (node, Use::Reads)));
                if let Some(other) = other.filter(|_| timed.result >= 0) {
                    let size = self.tree.nodes[other as usize].size.max(self.tree.nodes[node as usize].size);
                    self.tree.set_size(node, size);
                }
            }
            Op::Fchmod | Op::Fchown | Op::Futimes | Op::Fsetxattr | Op::Fremovexattr => {
                effect.objects.push((node, Use::Changes));
                if call.op == Op::Fchmod && timed.result >= 0 {
                    self.tree.node(node).mode = call.mode & 0o7777;
                }
                self.tree.node(node).restamped |= call.op == Op::Futimes;
            }
            Op::Fchdir => self.tree.node(node).kind = Kind::Directory,
            _ => effect.objects.push((node, Use::Reads)),
        }
    }

    /// A call that uses and moves the position.
    fn at_position(&mut self, timed: &Timed, number: u32, effect: &mut Effect) {
        effect.files.push(number);
        let Some(file) = self.files.get_mut(&number) else { return };
        let (node, done) = (file.node, timed.result.max(0) as u64);
        let size = self.tree.nodes[node as usize].size;
        match timed.call.op {
            Op::Read => {
                file.position += done;
                let end = file.position;
                effect.objects.push((node, Use::Reads));
                if done > 0 {
                    self.tree.reaches(node, end);
                }
            }
            Op::Write => {
                let start = if file.flags & APPEND != 0 { size } else { file.position };
                file.position = start + done;
                effect.objects.push((node, Use::Changes));
                if done > 0 {
                    self.tree.set_size(node, size.max(start + done));
                }
            }
            Op::Lseek if timed.result >= 0 => {
                file.position = done;
                if timed.call.has(WHENCE_END) {
                    effect.objects.push((node, Use::Reads));
                    self.tree.reaches(node, done.saturating_add_signed(timed.call.offset.saturating_neg()));
                }
            }
            Op::Getdents => {
                self.tree.node(node).kind = Kind::Directory;
                effect.names.push(((node, LISTING), Use::Changes));
            }
            _ => {}
        }
    }

    /// Bytes were moved at an offset, or at the position where that is −1. To a file that is open for appending, Linux writes at
    /// its
    /// end in any case (pwrite(2), BUGS).
    fn moved(
        &mut self,
        number: u32,
        offset: i64,
        (node, done): (u32, u64),
        writes: bool,
        effect: &mut Effect,
    ) {
        let mut start = offset.max(0) as u64;
        if offset < 0 {
            effect.files.push(number);
            if let Some(file) = self.files.get_mut(&number) {
                start = file.position;
                file.position += done;
            }
        }
        let size = self.tree.nodes[node as usize].size;
        if writes && self.files.get(&number).is_some_and(|file| file.flags & APPEND != 0) {
            start = size;
        }
        let end = start.saturating_add(done);
        if done > 0 && writes {
            self.tree.set_size(node, size.max(end));
        } else if done > 0 {
            self.tree.reaches(node, end);
        }
    }

    fn copy(&mut self, timed: &Timed, (number, node): (u32, u32), effect: &mut Effect) {
        let (call, done) = (&timed.call, timed.result.max(0) as u64);
        effect.objects.push((node, Use::Reads));
        self.moved(number, call.offset, (node, done), false, effect);
        let to = effect.fd2.and_then(|handle| self.file_of(handle)).map(|(number, file)| (number, file.node));
        if let Some((number, node)) = to {
            effect.objects.push((node, Use::Changes));
            self.moved(number, call.offset2, (node, done), true, effect);
        }
    }

    fn resize(&mut self, timed: &Timed, node: u32) {
        let call = &timed.call;
        if timed.result < 0 {
            return;
        }
        let size = self.tree.nodes[node as usize].size;
        let end = call.offset.max(0) as u64 + call.len;
        match call.op {
            Op::Ftruncate => self.tree.set_size(node, call.len),
            _ if call.has(COLLAPSE) => self.tree.set_size(node, size.saturating_sub(call.len)),
            _ if call.has(INSERT) => self.tree.set_size(node, size + call.len),
            _ if call.has(KEEP_SIZE) => self.tree.set_size(node, size),
            _ => self.tree.set_size(node, size.max(end)),
        }
    }
}
