//! Where a piece of a script stands: byte ranges, and their lines and columns.
//!
//! The lexer puts a [`Span`] on every token, the parser carries it into the tree, and each problem that a
//! check finds points with it. Offsets count bytes from the start of the script; lines and columns are
//! computed only when a problem is shown.

/// A range of bytes in a script, `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range from `start` to `end`, in bytes.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of `self` to the end of `other`.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.start) }
    }
}

/// A node of the tree with the place it was written at.
///
/// Two spanned nodes are equal when their nodes are, wherever they stand: a script and its pretty-printed
/// form have equal trees.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// The node.
    pub node: T,
    /// Where it was written.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// `node` as written at `span`.
    pub fn new(node: T, span: Span) -> Self {
        Self { node, span }
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}
