//! Functions of the running kernel by their addresses: `/proc/kallsyms` (proc(5)).

use std::path::Path;

/// Where the kernel lists them.
const SYMBOLS: &str = "/proc/kallsyms";

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Those of this host's kernel; why they cannot be had.
    pub(super) fn of_this_kernel() -> Result<Self, String> {
        let text = std::fs::read_to_string(Path::new(SYMBOLS))
            .map_err(|error| format!("the kernel's functions are not to be had: {SYMBOLS}: {error}"))?;
        let symbols = Self::parse(&text);
        match symbols.functions.is_empty() {
            true => Err(format!(
                "the addresses of the kernel's functions are hidden in {SYMBOLS}: run as root, with kernel.kptr_restrict = 1 or 0"
            )),
            false => Ok(symbols),
        }
    }

    /// Lines `ffffffff81000000 T name [module]`; hidden addresses are 0, and left out.
    fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let at = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at > 0)?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            is_code.then(|| Some((at, plain(words.next()?).to_owned())))?
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(at, _)| *at);
        Self { functions }
    }

    /// The function that an address of code is in.
    pub(super) fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(at, _)| *at <= address);
        self.functions.get(after.checked_sub(1)?).map(|(_, name)| name.as_str())
    }
}

/// A name without what compilers add to copies of a function: `.isra.0`, `.part.0`, `.constprop.0`, `.cold`.
fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_last_before_it() {
        let text = "0000000000000100 T first\n0000000000000180 d data\n0000000000000200 t second.isra.0\n\
                    0000000000000300 T third\t[module]\n";
        let symbols = Symbols::parse(text);
        let found = [0x100, 0x1ff, 0x200, 0x2ff, 0x300, 0x999].map(|at| symbols.function(at).unwrap_or("–"));
        assert_eq!(found, ["first", "first", "second", "second", "third", "third"]);
        assert_eq!(symbols.function(0xff), None);
    }

    #[test]
    fn hidden_addresses_and_lines_that_are_none_are_no_functions() {
        assert!(Symbols::parse("0000000000000000 T hidden\nnonsense\n\n12\n").functions.is_empty());
    }
}
