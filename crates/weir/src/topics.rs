//! The sections of the page about troubleshooting, which is part of the program.
//!
//! A section begins with a line `## WORD: \`PART OF A MESSAGE\``. `weir explain WORD` prints it, and an error whose message has
//! that part names the word.

const PAGE: &str = include_str!("../shipped/troubleshooting.md");

/// A section.
pub(crate) struct Topic {
    /// The word by which it is asked for.
    pub(crate) word: &'static str,
    /// A part of the messages that it explains.
    pub(crate) part: &'static str,
    /// What it says.
    pub(crate) text: &'static str,
}

/// All sections.
pub(crate) fn all() -> impl Iterator<Item = Topic> {
    PAGE.split("\n## ").skip(1).filter_map(|section| {
        let (head, text) = section.split_once('\n')?;
        let (word, part) = head.split_once(": `")?;
        Some(Topic { word, part: part.strip_suffix('`')?, text: text.trim() })
    })
}

/// The section that explains a message.
pub(crate) fn of(message: &str) -> Option<Topic> {
    all().find(|topic| message.contains(topic.part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of every source file of this command and of the crates that it tells errors of.
    fn sources() -> String {
        fn read(folder: &std::path::Path, text: &mut String) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    read(&path, text);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    *text += &std::fs::read_to_string(&path).unwrap();
                }
            }
        }
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut text = String::new();
        for name in ["weir", "lab", "results", "report", "trace", "workload"] {
            read(&crates.join(name).join("src"), &mut text);
        }
        text
    }

    #[test]
    fn every_heading_is_a_part_of_a_message_that_there_is() {
        let sources = sources();
        assert!(all().count() >= 10);
        for topic in all() {
            assert!(!topic.text.is_empty() && !topic.word.contains(' '), "{}", topic.word);
            assert!(sources.contains(topic.part), "{}: no message has {:?}", topic.word, topic.part);
        }
    }
}
