//! What would help: a sync is put into the program, and the models that show the finding are searched again.
//!
//! A candidate is put before every pair of calls that is alike, since a program saves more than once. It helps if every broken
//! state with the finding's message that is left is one of another finding that is told, and none is new.

use std::collections::BTreeSet;

use super::alike::site;
use super::cause::{Cause, Kept, Search, Sites};
use super::folder::FolderError;
use super::judge::{Judge, Limits, Violation};
use super::model::Model;
use super::operations::{Change, Operations, Sync};
use super::run::Finding;
use super::story::{Inode, ROOT, Story, What};
use super::tree::Trees;

/// Trees of each model that a trial may judge.
const TREES: usize = 400;

/// What removes a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The sentence: `fsync(settings.tmp) before the rename`.
    pub what: String,
    /// Distinct trees that were judged with it.
    pub trees: usize,
}

/// A trial.
pub struct Try<'a, 'b> {
    /// The program.
    pub story: &'a Story,
    /// Its operations.
    pub operations: &'a Operations,
    /// The models that show the finding.
    pub models: &'b [&'a Model],
    /// How far searches go.
    pub limits: &'b Limits,
    /// All findings.
    pub known: &'b [Finding],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Both,
}

impl Try<'_, '_> {
    /// The first candidate that helps.
    pub(crate) fn first_that_helps(
        &self,
        finding: &Finding,
        judge: &mut Judge<'_>,
    ) -> Result<Option<Fix>, FolderError> {
        let Some(first) = finding.cause.lost.first().copied() else { return Ok(None) };
        let is_name = matches!(self.operations.all[first as usize].change, Change::Names { .. });
        let kinds = if is_name {
            [Kind::Folder, Kind::File, Kind::Both]
        } else {
            [Kind::File, Kind::Folder, Kind::Both]
        };
        for kind in kinds {
            let Some((operations, what)) = self.with(&finding.cause, first, kind) else { continue };
            if let Some(trees) = self.helps(finding, &operations, judge)? {
                return Ok(Some(Fix { what, trees }));
            }
        }
        Ok(None)
    }

    /// The program with syncs before what was kept, wherever its calls are alike.
    fn with(&self, cause: &Cause, first: u32, kind: Kind) -> Option<(Operations, String)> {
        let all = &self.operations.all;
        let (lost, kept_site) = (
            site(self.story, self.operations, first),
            match cause.kept {
                Kept::Operation(number) => Some(site(self.story, self.operations, number)),
                Kept::Ack(_) => None,
                Kept::Nothing => return None,
            },
        );
        let mut operations = self.operations.clone();
        let mut moments: BTreeSet<(u64, u32)> = BTreeSet::new();
        let mut last = None;
        let mut events: Vec<(u64, Option<u32>)> =
            (0..all.len() as u32).map(|number| (all[number as usize].begin_ns, Some(number))).collect();
        if kept_site.is_none() {
            events.extend(self.operations.acks.iter().map(|ack| (ack.at_ns, None)));
        }
        events.sort_unstable_by_key(|(at_ns, number)| (*at_ns, number.unwrap_or(u32::MAX)));
        for (at_ns, number) in events {
            let own = number.map(|number| site(self.story, self.operations, number));
            let is_kept = match (&kept_site, &own) {
                (Some(wanted), Some(own)) => wanted == own,
                (None, None) => true,
                _ => false,
            };
            if let (true, Some(before)) = (is_kept, last) {
                moments.insert((at_ns, before));
            }
            if own.is_some_and(|own| own == lost) {
                last = number;
            }
        }
        let folder = self.folder(first);
        for (at_ns, before) in moments {
            let micro = &all[before as usize];
            let mut add = |what| {
                operations.syncs.push(Sync {
                    call: u32::MAX,
                    what,
                    device: Some(micro.device),
                    begin_ns: at_ns,
                    end_ns: at_ns,
                    links: 1,
                });
            };
            if kind != Kind::Folder {
                add(What::File { inode: micro.inode, data_only: false, range: None, of_write: false });
            }
            if kind != Kind::File {
                add(What::Folder(self.folder(before)));
            }
        }
        if operations.syncs.len() == self.operations.syncs.len() {
            return None;
        }
        let file = self.path(first);
        let (before, folder) = (self.moment(cause), self.shown(folder));
        let what = match kind {
            Kind::File => format!("fsync of {file} before {before}"),
            Kind::Folder => format!("fsync of the folder \"{folder}\" before {before}"),
            Kind::Both => format!("fsync of {file} and of the folder \"{folder}\" before {before}"),
        };
        Some((operations, what))
    }

    /// The path of a file when the call was made.
    fn path(&self, number: u32) -> String {
        let micro = &self.operations.all[number as usize];
        let call = &self.story.calls[micro.call as usize];
        call.paths.iter().flatten().next_back().cloned().unwrap_or_else(|| "the file".to_owned())
    }

    /// The folder of the name that an operation changes, or of the last name that its file got before.
    fn folder(&self, number: u32) -> Inode {
        let inode = self.operations.all[number as usize].inode;
        let mut folder =
            self.story.before.iter().find(|(_, own)| *own == inode).map_or(ROOT, |(entry, _)| entry.0);
        for micro in &self.operations.all[..=number as usize] {
            if let Some((entry, _)) = micro.given().find(|(_, given)| *given == inode) {
                folder = entry.0;
            }
        }
        match &self.operations.all[number as usize].change {
            Change::Names { entry, .. } => entry.0,
            _ => folder,
        }
    }

    fn shown(&self, folder: Inode) -> String {
        if folder == ROOT { ".".to_owned() } else { self.story.inodes[folder as usize].path.clone() }
    }

    fn moment(&self, cause: &Cause) -> String {
        match cause.kept {
            Kept::Operation(number) => {
                let call = self.operations.all[number as usize].call;
                format!("the {}", super::cause::shown(self.story, call))
            }
            _ => "the answer".to_owned(),
        }
    }

    /// How many trees were judged, if none of them has the finding and none is broken in a new way.
    fn helps(
        &self,
        finding: &Finding,
        operations: &Operations,
        judge: &mut Judge<'_>,
    ) -> Result<Option<usize>, FolderError> {
        let known: BTreeSet<&String> = self.known.iter().flat_map(|one| &one.messages).collect();
        let (mut trees, sites) = (0, Sites::of(self.story, operations));
        let limits = Limits { states: self.limits.states.min(TREES), ..self.limits.clone() };
        for model in self.models {
            let (explored, points) = judge.explore(self.story, operations, model, &limits)?;
            trees += explored.trees;
            for (kind, (_, violations)) in &explored.violations {
                if !known.contains(&kind.said) {
                    return Ok(None);
                }
                if !finding.messages.contains(&kind.said) {
                    continue;
                }
                for violation in violations {
                    let of_model = Trees::new(self.story, operations, model.stale, model.tear);
                    let (story, points) = (self.story, &points[..]);
                    let mut search =
                        Search { story, operations, model, points, judge: &mut *judge, trees: of_model };
                    if !self.is_another(finding, violation, &sites, &mut search)? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(trees))
    }

    /// Whether a violation with the message of a finding is one of another finding that is listed.
    fn is_another(
        &self,
        finding: &Finding,
        violation: &Violation,
        sites: &Sites,
        search: &mut Search<'_, '_, '_>,
    ) -> Result<bool, FolderError> {
        let explains = |one: &Finding| sites.explain(search, &one.cause, violation);
        let others = || self.known.iter().filter(|one| one.cause.key != finding.cause.key);
        if explains(finding) {
            return Ok(false);
        }
        if others().any(explains) {
            return Ok(true);
        }
        let cause = search.cause(violation)?;
        Ok(cause.is_some_and(|cause| others().any(|other| other.cause.key == cause.key)))
    }
}
