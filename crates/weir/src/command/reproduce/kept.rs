//! Results of plans that run apart from the others of their paper: the last one that was kept.

use std::path::Path;

use lab::Plan;
use results::ResultFile;

use crate::store;

/// The last whole result of this plan of a paper, whatever its seed, and the name of its run. One of another text of the plan is
/// passed over, and so are runs that are called by neither.
pub(super) fn last(paper: &str, plan: &Plan) -> Option<(String, ResultFile)> {
    let mut runs = store::names();
    runs.retain(|name| name.contains(paper) || name.contains(&plan.name));
    let folder = store::runs().ok()?;
    runs.into_iter().rev().find_map(|run| Some((run.clone(), of_run(&folder.join(&run), plan)?)))
}

/// The result of the plan in the folder of a run.
fn of_run(folder: &Path, plan: &Plan) -> Option<ResultFile> {
    let wanted = format!("\"{}\"", plan.name);
    let files = [format!("{}.json", plan.name), "result.json".to_owned()];
    let texts = files.iter().filter_map(|file| std::fs::read(folder.join(file)).ok());
    // What names the plan nowhere is not parsed: results are large, and runs are many.
    let named = texts.filter(|text| text.windows(wanted.len()).any(|part| part == wanted.as_bytes()));
    let all = named.filter_map(|text| ResultFile::parse_all(folder, &text).ok()).flatten();
    all.into_iter().find(|result| is_of(result, plan))
}

fn is_of(result: &ResultFile, plan: &Plan) -> bool {
    let (mut ran, mut wanted) = (result.plan.clone(), plan.to_json());
    for document in [&mut ran, &mut wanted] {
        if let Some(keys) = document.as_object_mut() {
            keys.remove("seed");
        }
    }
    !result.partial && result.name == plan.name && ran == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_run_is_taken_where_it_is_whole_and_of_the_same_plan_whatever_its_seed() {
        let plan = Plan::load("characterization-events", true).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        let found = |result: &ResultFile| {
            result.write(&file).unwrap();
            of_run(folder.path(), &plan)
        };
        let result = ResultFile::new(&plan.name, plan.to_json(), 1, results::Clock::Real);
        assert_eq!(found(&result).as_ref(), Some(&result));
        let other_seed = Plan { seed: 7, ..plan.clone() };
        assert!(found(&ResultFile { plan: other_seed.to_json(), ..result.clone() }).is_some());
        let other_text = Plan { repeats: plan.repeats + 1, ..plan.clone() };
        assert!(found(&ResultFile { plan: other_text.to_json(), ..result.clone() }).is_none());
        assert!(found(&ResultFile { partial: true, ..result.clone() }).is_none());
        assert!(found(&ResultFile { name: "other".to_owned(), ..result }).is_none());
    }
}
