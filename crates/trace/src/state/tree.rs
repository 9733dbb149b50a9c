//! The names and inodes that the records of a trace have shown so far.
//!
//! A name is known to lead to an inode, known to lead nowhere, or unknown. A successful call on an unknown name shows that the
//! inode existed before the trace began ([`Node::origin`]); a failed one shows nothing that is kept.

use rustc_hash::FxHashMap;

use crate::record::Kind;

/// The directory to which relative paths belong.
pub(crate) const ROOT: u32 = 0;
/// The directory to which absolute paths belong: everything outside the root.
pub(crate) const OUTSIDE: u32 = 1;
/// What a name that leads nowhere leads to.
const ABSENT: u32 = u32::MAX;
/// The most symbolic links that a path may lead through (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// A name in a directory: the directory's node and the number of the name.
pub(crate) type Binding = (u32, u32);

/// An inode.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// The size before the trace began, as far as it is known.
    pub(crate) initial_size: u64,
    /// Its contents or size have changed since.
    pub(crate) changed: bool,
    /// The time of its last change may have been set, or moved by stores to a mapping.
    pub(crate) restamped: bool,
    pub(crate) target: Option<Box<[u8]>>,
    pub(crate) parent: u32,
    /// Where it was before the trace began; none of what the trace has made.
    pub(crate) origin: Option<Binding>,
    /// Further names that it had then.
    pub(crate) origins: Vec<Binding>,
    /// Names in this directory, those that lead nowhere any more among them.
    pub(crate) names: Vec<u32>,
}

impl Node {
    fn new(kind: Kind, parent: u32) -> Self {
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        Self {
            kind,
            mode,
            size: 0,
            initial_size: 0,
            changed: false,
            restamped: false,
            target: None,
            parent,
            origin: None,
            origins: Vec::new(),
            names: Vec::new(),
        }
    }
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// To an inode. The name is none for a root or `..`.
    Node(u32, Option<Binding>),
    /// To a name of which it is known that there is none.
    Absent(Binding),
    /// To a name of which nothing is known.
    Unknown(Binding),
    /// An earlier component leads nowhere, or is no directory.
    Broken,
}

/// The names and inodes.
#[derive(Debug)]
pub(crate) struct Tree {
    numbers: FxHashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
    pub(crate) nodes: Vec<Node>,
    bindings: FxHashMap<Binding, u32>,
    /// Calls that cannot have had the result that they had, after what the trace has shown.
    pub(crate) contradictions: u64,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut roots = vec![Node::new(Kind::Directory, ROOT), Node::new(Kind::Directory, OUTSIDE)];
        roots[0].origin = Some((ROOT, u32::MAX));
        roots[1].origin = Some((OUTSIDE, u32::MAX));
        Self {
            numbers: FxHashMap::default(),
            texts: Vec::new(),
            nodes: roots,
            bindings: FxHashMap::default(),
            contradictions: 0,
        }
    }

    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(name.into(), number);
        self.texts.push(name.into());
        number
    }

    pub(crate) fn node(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Follows a path. `visits` collects the names on the way. With `infer`, the call has succeeded: what lies before the last
    /// component existed.
    pub(crate) fn resolve(
        &mut self,
        path: &[u8],
        (follow, infer): (bool, bool),
        visits: &mut Vec<Binding>,
    ) -> Lead {
        self.resolve_from(ROOT, path, (follow, infer), visits, 0)
    }

    fn resolve_from(
        &mut self,
        start: u32,
        path: &[u8],
        (follow, infer): (bool, bool),
        visits: &mut Vec<Binding>,
        links: u32,
    ) -> Lead {
        if links > LINKS_MAX {
            return Lead::Broken;
        }
        let mut at = if path.first() == Some(&b'/') { OUTSIDE } else { start };
        let mut parts =
            path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").peekable();
        let trailing = path.last() == Some(&b'/');
        let mut binding = None;
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            if part == b".." {
                (at, binding) = (self.nodes[at as usize].parent, None);
                continue;
            }
            let key = (at, self.number(part));
            visits.push(key);
            binding = Some(key);
            let found = self.bindings.get(&key).copied();
            let next = match found {
                Some(node) if node != ABSENT => node,
                _ if is_last && found.is_some() => return Lead::Absent(key),
                _ if is_last => return Lead::Unknown(key),
                _ if infer => self.infer(key, Kind::Directory),
                _ => return Lead::Broken,
            };
            let node = &self.nodes[next as usize];
            if node.kind == Kind::Symlink && (!is_last || follow || trailing) {
                let target = node.target.clone().unwrap_or_default();
                match self.resolve_from(at, &target, (true, infer), visits, links + 1) {
                    Lead::Node(node, key) if is_last => return Lead::Node(node, key),
                    Lead::Node(node, _) => at = node,
                    Lead::Unknown(key) if !is_last && infer => at = self.infer(key, Kind::Directory),
                    lead if is_last => return lead,
                    _ => return Lead::Broken,
                }
                continue;
            }
            at = next;
        }
        Lead::Node(at, binding)
    }

    /// What a name leads to now.
    pub(crate) fn get(&self, key: Binding) -> Option<u32> {
        self.bindings.get(&key).copied().filter(|node| *node != ABSENT)
    }

    fn bind(&mut self, key: Binding, node: u32) {
        if self.bindings.insert(key, node).is_none() {
            self.node(key.0).names.push(key.1);
        }
    }

    /// Makes an inode with a name, which the trace has made.
    pub(crate) fn make(&mut self, key: Binding, kind: Kind, mode: u32) -> u32 {
        let number = self.nodes.len() as u32;
        let mut node = Node::new(kind, key.0);
        (node.mode, node.changed) = (mode, true);
        self.nodes.push(node);
        self.bind(key, number);
        number
    }

    /// Makes an inode without a name.
    pub(crate) fn make_unnamed(&mut self, mode: u32) -> u32 {
        let mut node = Node::new(Kind::File, ROOT);
        (node.mode, node.changed) = (mode, true);
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Gives an inode a name.
    pub(crate) fn link(&mut self, node: u32, key: Binding) {
        self.bind(key, node);
        self.node(node).parent = key.0;
    }

    /// Takes a name away.
    pub(crate) fn remove(&mut self, key: Binding) {
        self.bind(key, ABSENT);
    }

    /// An inode that must have existed before the trace began. In a directory that the trace has made, that cannot be.
    pub(crate) fn infer(&mut self, key: Binding, kind: Kind) -> u32 {
        let was_absent = self.bindings.contains_key(&key);
        let number = self.nodes.len() as u32;
        let mut node = Node::new(kind, key.0);
        if !was_absent && self.nodes[key.0 as usize].origin.is_some() {
            node.origin = Some(key);
        } else {
            self.contradictions += 1;
        }
        self.nodes.push(node);
        self.bind(key, number);
        number
    }

    /// The path of a name before the trace began, after the renames of directories that it has made since.
    pub(crate) fn path_at_start(&self, key: Binding) -> Vec<u8> {
        let mut parts = vec![key.1];
        let mut at = key.0;
        while let Some(origin) = self.nodes[at as usize].origin.filter(|_| at != ROOT && at != OUTSIDE) {
            parts.push(origin.1);
            at = origin.0;
        }
        self.join(at, &parts)
    }

    fn join(&self, root: u32, parts: &[u32]) -> Vec<u8> {
        let mut path = Vec::new();
        for part in parts.iter().rev() {
            if root == OUTSIDE || !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&self.texts[*part as usize]);
        }
        path
    }

    /// A name that leads to a directory; none of a root.
    pub(crate) fn name_of(&self, directory: u32) -> Option<Binding> {
        if directory == ROOT || directory == OUTSIDE {
            return None;
        }
        let parent = self.nodes[directory as usize].parent;
        let mut names = self.nodes[parent as usize].names.iter();
        names.find(|name| self.get((parent, **name)) == Some(directory)).map(|name| (parent, *name))
    }

    /// The path of a name now.
    pub(crate) fn path_now(&self, key: Binding) -> Vec<u8> {
        let mut parts = vec![key.1];
        let mut at = key.0;
        while let Some((parent, name)) = self.name_of(at) {
            parts.push(name);
            at = parent;
        }
        self.join(at, &parts)
    }

    /// The name itself.
    pub(crate) fn text(&self, key: Binding) -> &[u8] {
        &self.texts[key.1 as usize]
    }

    /// The names of a directory that lead to something.
    pub(crate) fn children(&self, node: u32) -> Vec<Binding> {
        let names = self.nodes[node as usize].names.iter().map(|name| (node, *name));
        names.filter(|key| self.get(*key).is_some()).collect()
    }

    /// A file's size must have been so large when the trace began, as long as the trace has not changed it.
    pub(crate) fn reaches(&mut self, node: u32, end: u64) {
        let node = self.node(node);
        node.size = node.size.max(end);
        if !node.changed {
            node.initial_size = node.initial_size.max(end);
        }
    }

    /// The trace has set the size of a file.
    pub(crate) fn set_size(&mut self, node: u32, size: u64) {
        let node = self.node(node);
        (node.size, node.changed) = (size, true);
    }
}
