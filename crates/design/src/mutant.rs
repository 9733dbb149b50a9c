//! Seeded bugs, which the checks of the designs must find.
//!
//! A design declares its own beside its code (`NAME/mutant.rs`, [`crate::Design::mutants`]) and asks for one where it changes
//! metadata, never on the path of a read or of a write in place. A mutant is switched on in one mounted instance, only by
//! [`crate::Options::with_mutant`]: no option of mkfs or mount does it.

/// A bug that can be seeded in one design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    name: &'static str,
    class: &'static str,
    needs_failure: bool,
    programs: &'static [&'static str],
    scenarios: &'static [&'static str],
}

impl Mutant {
    /// A bug with its name in reports and the class of bugs that it stands for.
    pub const fn new(name: &'static str, class: &'static str) -> Self {
        Self { name, class, needs_failure: false, programs: &[], scenarios: &[] }
    }

    /// The same, of a bug that shows only when the medium fails.
    #[must_use]
    pub const fn when_the_medium_fails(self) -> Self {
        Self { needs_failure: true, ..self }
    }

    /// The same, of a bug that only long programs show: those with these names are tried first.
    #[must_use]
    pub const fn shown_by(self, programs: &'static [&'static str]) -> Self {
        Self { programs, ..self }
    }

    /// The same, of a race: only several tasks at once show it, in scenarios of `weir check schedules` with these names.
    #[must_use]
    pub const fn shown_by_tasks(self, scenarios: &'static [&'static str]) -> Self {
        Self { scenarios, ..self }
    }

    /// Its name in reports.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The class of bugs that it stands for.
    pub const fn class(&self) -> &'static str {
        self.class
    }

    /// Whether it shows only when the medium fails.
    pub const fn needs_failure(&self) -> bool {
        self.needs_failure
    }

    /// Names of the scenarios of several tasks that it is looked for with; none: it is no race.
    pub const fn scenarios(&self) -> &'static [&'static str] {
        self.scenarios
    }

    /// Names of the programs that it is looked for with first.
    pub const fn programs(&self) -> &'static [&'static str] {
        self.programs
    }
}
