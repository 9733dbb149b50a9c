//! Lines and columns of offsets.

/// Line and column of a byte offset, both from 1; the column counts characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn lines_and_characters_are_counted_from_one() {
        let text = "ab\ncäd\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 2), (1, 3));
        assert_eq!(position(text, 3), (2, 1));
        assert_eq!(position(text, 6), (2, 3));
        assert_eq!(position(text, 999), (3, 1));
    }
}
