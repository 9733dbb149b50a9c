//! Values of axes: text that may be a quantity (`8`, `4KiB`, `200ns`, `0.4`).

/// The axis that names what is compared, by preference.
const DESIGN_AXES: [&str; 3] = ["fs", "scheme", "design"];

/// The axis of `names` that holds the designs; `fs` if none does.
pub(crate) fn design_axis<'a>(mut names: impl Iterator<Item = &'a str>) -> &'static str {
    let first = names.find_map(|name| DESIGN_AXES.iter().find(|axis| **axis == name));
    first.copied().unwrap_or(DESIGN_AXES[0])
}

/// The number that `text` stands for: sizes in bytes, times in nanoseconds, others as they are.
pub fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    Some(number.parse::<f64>().ok()? * factor(suffix.trim())?)
}

fn factor(suffix: &str) -> Option<f64> {
    Some(match suffix {
        "" | "B" | "ns" | "x" | "%" => 1.0,
        "k" | "K" | "Ki" | "KiB" => 1024.0,
        "M" | "Mi" | "MiB" => 1024.0 * 1024.0,
        "G" | "Gi" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// `text` with a space between number and unit (`4 KiB`), and names without the part that `all` share
/// (`filebench/varmail` becomes `varmail` among its own).
pub fn label(text: &str, all: &[&str]) -> String {
    if quantity(text).is_some() { spaced(text) } else { text[shared_prefix(all)..].to_owned() }
}

fn spaced(text: &str) -> String {
    match text.find(|c: char| c.is_alphabetic()) {
        Some(at) if at > 0 && !text[..at].ends_with(' ') => format!("{} {}", &text[..at], &text[at..]),
        _ => text.to_owned(),
    }
}

/// The length of the leading folder (`filebench/`) that all names share.
fn shared_prefix(all: &[&str]) -> usize {
    let Some(folder) = all.first().and_then(|name| name.find('/')).map(|slash| &all[0][..=slash]) else {
        return 0;
    };
    if all.iter().all(|name| name.starts_with(folder)) { folder.len() } else { 0 }
}

/// What people call the axis `name`.
pub fn title(name: &str) -> &str {
    match name {
        "fs" => "file system",
        "iosize" => "I/O size",
        other => other,
    }
}

/// Sorts by quantity if every value is one; leaves the order of first appearance otherwise.
pub fn sort(values: &mut [&str]) {
    if values.iter().all(|value| quantity(value).is_some()) {
        values.sort_by(|a, b| quantity(a).unwrap_or(0.0).total_cmp(&quantity(b).unwrap_or(0.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(quantity("4KiB"), Some(4096.0));
        assert_eq!(quantity("4k"), Some(4096.0));
        assert_eq!(quantity("2us"), Some(2000.0));
        assert_eq!(quantity("0.4"), Some(0.4));
        assert_eq!(quantity("ext4-dax"), None);
        assert_eq!(quantity("2 of 3"), None);
    }

    #[test]
    fn sorting_is_by_size_and_not_by_letter() {
        let mut sizes = ["16KiB", "1MiB", "64", "4KiB"];
        sort(&mut sizes);
        assert_eq!(sizes, ["64", "4KiB", "16KiB", "1MiB"]);
        let mut names = ["pmfs", "hinfs"];
        sort(&mut names);
        assert_eq!(names, ["pmfs", "hinfs"], "names keep the order of the plan");
    }

    #[test]
    fn labels_drop_what_all_share() {
        let all = ["filebench/varmail", "filebench/webproxy"];
        assert_eq!(label(all[0], &all), "varmail");
        assert_eq!(label("fxmark/DWOL", &["fxmark/DWOL", "varmail"]), "fxmark/DWOL");
        assert_eq!(label("200ns", &["200ns"]), "200 ns");
    }
}
