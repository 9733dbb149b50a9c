//! Which files a trace is about.

/// The roots below which calls are stored, and the directory to which the paths of the trace are relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Absolute, without a slash at the end; the root directory is empty.
    roots: Vec<Box<[u8]>>,
    base: Box<[u8]>,
    /// Other ways in which the program may name a root, with the root.
    aliases: Vec<Alias>,
}

/// Another name of a root, and the root.
type Alias = (Box<[u8]>, Box<[u8]>);

fn without_slash(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    &path[..end]
}

/// What stands behind `root` in `path`, if it is below it or the root itself.
fn below<'a>(root: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(root)? {
        [] => Some(b""),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

impl Scope {
    /// Files below any of these absolute directories. Paths are relative to the directory that all of them are in: with one root,
    /// to this.
    pub fn new<P: AsRef<[u8]>>(roots: &[P]) -> Self {
        let roots: Vec<Box<[u8]>> = roots.iter().map(|root| without_slash(root.as_ref()).into()).collect();
        let mut base: Box<[u8]> = roots.first().cloned().unwrap_or_default();
        while !roots.iter().all(|root| below(&base, root).is_some()) {
            let end = base.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            base = base[..end].into();
        }
        Self { roots, base, aliases: Vec::new() }
    }

    /// Also takes `alias`, a path with symbolic links, for `root`.
    pub fn alias(&mut self, alias: &[u8], root: &[u8]) {
        let (alias, root) = (without_slash(alias), without_slash(root));
        if alias != root {
            self.aliases.push((alias.into(), root.into()));
        }
    }

    /// The directory to which paths are relative; `/` for all files.
    pub fn base(&self) -> &[u8] {
        if self.base.is_empty() { b"/" } else { &self.base }
    }

    /// The roots.
    pub fn roots(&self) -> impl Iterator<Item = &[u8]> {
        self.roots.iter().map(|root| if root.is_empty() { &b"/"[..] } else { root })
    }

    /// The path in the trace of a file below a root; none for others. The path is absolute and may contain `.` and `..`, which
    /// stay in the trace as long as they stay below the base.
    pub fn inside(&self, path: &[u8]) -> Option<Box<[u8]>> {
        let plain = normal(path);
        let real = self.aliases.iter().find_map(|(alias, root)| {
            let rest = below(alias, &plain)?;
            Some(join(if root.is_empty() { b"/" } else { root }, rest))
        });
        let plain = real.unwrap_or(plain);
        if !self.roots.iter().any(|root| below(root, without_slash(&plain)).is_some()) {
            return None;
        }
        let as_given = path.strip_prefix(&*self.base).and_then(|rest| rest.strip_prefix(b"/"));
        let stays = as_given.filter(|rest| stays_below(rest));
        let relative = stays.or_else(|| below(&self.base, without_slash(&plain)))?;
        let start = relative.iter().position(|byte| *byte != b'/').unwrap_or(relative.len());
        Some(relative[start..].into())
    }

    /// As a trace writes a path: relative to the base if it is below a root, absolute otherwise.
    pub fn name(&self, path: &[u8]) -> (Box<[u8]>, bool) {
        match self.inside(path) {
            Some(inside) => (inside, true),
            None => (normal(path).into(), false),
        }
    }
}

/// Whether `..` never leads above where a relative path begins.
fn stays_below(path: &[u8]) -> bool {
    let mut depth = 0_i64;
    path.split(|byte| *byte == b'/').all(|part| {
        depth += match part {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth >= 0
    })
}

/// An absolute path without `.`, `..` and doubled slashes, as text: symbolic links are not followed.
pub fn normal(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for part in parts {
        out.push(b'/');
        out.extend_from_slice(part);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

/// A path in a directory; an absolute path is itself.
pub fn join(directory: &[u8], path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') {
        return path.to_vec();
    }
    let mut out = directory.to_vec();
    if out.last() != Some(&b'/') && !path.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(path);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(scope: &Scope, path: &str) -> Option<String> {
        scope.inside(path.as_bytes()).map(|path| String::from_utf8(path.into()).unwrap())
    }

    #[test]
    fn a_path_is_relative_to_what_all_roots_share_and_outside_below_none() {
        let scope = Scope::new(&[&b"/srv/mail/"[..], b"/srv/spool"]);
        assert_eq!(scope.base(), b"/srv");
        assert_eq!(inside(&scope, "/srv/mail/a/./b").as_deref(), Some("mail/a/./b"));
        assert_eq!(inside(&scope, "/srv/mail/a/../b").as_deref(), Some("mail/a/../b"));
        assert_eq!(inside(&scope, "/srv/x/../mail/b").as_deref(), Some("x/../mail/b"));
        assert_eq!(inside(&scope, "/home/../srv/mail/b").as_deref(), Some("mail/b"));
        for outside in ["/srv", "/srv/mailbox", "/srv/mail/../other", "/etc/passwd"] {
            assert_eq!(inside(&scope, outside), None, "{outside}");
        }
    }

    #[test]
    fn the_root_directory_holds_everything() {
        let scope = Scope::new(&[b"/"]);
        assert_eq!(inside(&scope, "/etc/passwd").as_deref(), Some("etc/passwd"));
        assert_eq!(inside(&scope, "/").as_deref(), Some(""));
    }

    #[test]
    fn an_alias_leads_to_its_root() {
        let mut scope = Scope::new(&[b"/private/tmp"]);
        scope.alias(b"/tmp", b"/private/tmp");
        assert_eq!(inside(&scope, "/tmp/a").as_deref(), Some("a"));
        assert_eq!(inside(&scope, "/private/tmp/a").as_deref(), Some("a"));
    }
}
