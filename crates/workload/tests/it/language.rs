//! The language from outside: what is accepted, what is refused, and in which words.

use proptest::prelude::*;
use workload::filebench::parse::parse;
use workload::filebench::program::{Action, Amount, EndPolicy, Flowop, Run, Snapshots, Step, Value};
use workload::filebench::quirks::SWITCHES;
use workload::filebench::vocabulary as words;
use workload::filebench::{Overrides, PERSONALITIES, Program, load};

const SET: &str = "define fileset name=data,path=/tmp,entries=10,dirwidth=20,size=4k,prealloc\n";

/// The reference for users: it has every word that the language reads, and its example is right.
#[test]
fn the_reference_names_every_word_of_the_language() {
    let reference = include_str!("../../../../docs/wml.md");
    let attributes = [
        words::FLOWOP_ATTRIBUTES,
        words::FILESET_ATTRIBUTES,
        words::FILE_ATTRIBUTES,
        words::PROCESS_ATTRIBUTES,
        words::THREAD_ATTRIBUTES,
        words::EVENTGEN_ATTRIBUTES,
        words::RANDVAR_ATTRIBUTES,
        words::CVAR_ATTRIBUTES,
    ];
    let operations = words::OPS.iter().map(|info| info.name);
    let cvars = words::CVARS
        .iter()
        .flat_map(|cvar| std::iter::once(cvar.name).chain(cvar.parameters.iter().map(|(name, _)| *name)));
    let switches = SWITCHES.iter().map(|switch| switch.name);
    let all = attributes.into_iter().flatten().copied().chain(operations).chain(cvars).chain(switches);
    let named = |word: &&str| {
        let quoted = reference.split('`').skip(1).step_by(2);
        quoted
            .flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && !"-_".contains(c)))
            .any(|code| code == *word)
    };
    let missing: Vec<&str> = all.filter(|word| !named(word)).collect();
    assert_eq!(missing, [""; 0], "docs/wml.md does not name them");
    let example = reference.split("```").find(|block| block.contains("run 60")).expect("it has an example");
    assert_eq!(warnings(example), [""; 0]);
}

fn accepted(source: &str) -> Program {
    load("a.f", source, &Overrides::new()).unwrap_or_else(|report| panic!("{source}\n{report}"))
}

/// The errors of `source`, one a line.
fn errors(source: &str) -> Vec<String> {
    match load("a.f", source, &Overrides::new()) {
        Ok(_) => Vec::new(),
        Err(report) => report.lines().filter(|line| !line.contains("warning: ")).collect(),
    }
}

fn warnings(source: &str) -> Vec<String> {
    accepted(source).warnings.lines().collect()
}

#[track_caller]
fn assert_error(source: &str, wanted: &str) {
    let errors = errors(source);
    assert_eq!(errors, [wanted], "{source}");
}

/// A script whose only thread has this loop.
fn thread(flowops: &str) -> String {
    format!("{SET}define process name=p {{ thread name=t,memsize=1m {{ {flowops} }} }}\nrun 1\n")
}

#[track_caller]
fn assert_flowop_error(flowops: &str, wanted: &str) {
    let errors = errors(&thread(flowops));
    assert_eq!(errors.len(), 1, "{flowops}: {errors:#?}");
    let (_, message) = errors[0].split_once(": ").unwrap();
    assert_eq!(message, wanted, "{flowops}");
}

#[test]
fn misspelt_words_are_answered_with_the_nearest_legal_ones() {
    assert_error(
        "define fileset name=a,path=/tmp,entires=3,entries=3,dirwidth=5\n",
        "a.f:1:33: unknown attribute of fileset \"entires\"; did you mean \"entries\"?",
    );
    assert_error("defin fileset name=a\n", "a.f:1:1: unknown statement \"defin\"; did you mean \"define\"?");
    assert_error(
        "set $nfiles=3\ndefine fileset name=a,path=/tmp,entries=$nfile,dirwidth=5\nrun 1\n",
        "a.f:2:41: unknown variable \"$nfile\"; did you mean \"nfiles\"?",
    );
    assert_flowop_error(
        "flowop openfil name=o,filename=data",
        "unknown type of flowop \"openfil\"; did you mean \"openfile\"?",
    );
    assert_flowop_error(
        "flowop statfile name=s,filename=dta",
        "unknown fileset \"dta\"; did you mean \"data\"?",
    );
    assert_error(
        "set $x1=cvar(type=cvar-gama,parameters=mean:5)\n",
        "a.f:1:14: unknown type of cvar \"cvar-gama\"; did you mean \"cvar-gamma\"?",
    );
    assert_error(
        "set $x1=cvar(type=cvar-gamma,parameters=mena:5)\n",
        "a.f:1:30: unknown parameter of cvar-gamma \"mena\"; did you mean \"mean\"?",
    );
}

#[test]
fn all_mistakes_of_a_script_are_told_at_once() {
    let source = "set nfiles=3\nset $dir /tmp\n\
        define fileset name=a path=/tmp,dirwidth=5,entries=1.5\nrun fast\necho x\n";
    let found = errors(source);
    let lines: Vec<&str> = found.iter().map(|error| error.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["1", "2", "3", "4", "5"], "{found:#?}");
}

#[test]
fn grammar_mistakes_say_what_belongs_there() {
    assert_error("set $dir /tmp\n", "a.f:1:10: expected \"=\", found \"/tmp\"");
    assert_error(
        "define fileset name=a path=/tmp,entries=3,dirwidth=5\n",
        "a.f:1:23: expected \",\", found \"path\"; attributes are separated by commas",
    );
    assert_error(
        "define fileset name=a,path=/tmp,entries=3,dirwidth=5,\nrun 1\n",
        "a.f:2:1: expected an attribute, found \"run\"; remove the comma before it",
    );
    assert_error(
        "define process name=p {\n thread name=t {\n  flowop hog name=h,value=1\n\nrun 1\n",
        "a.f:2:16: this block of thread has no closing brace",
    );
    assert_error("echo hello\n", "a.f:1:6: expected a quoted string, found \"hello\"");
    assert_error(
        "set $n=3 * 4\n",
        "a.f:1:10: the language has no arithmetic; \
         write the result, or set it from outside with -D name=value",
    );
}

#[test]
fn what_makes_no_sense_in_weir_is_refused_with_the_reason_and_the_way_out() {
    for (source, what, instead) in [
        ("system \"sync\"\n", "system is refused", "before or after weir"),
        ("enable multi master=here,client=me\n", "enable multi is refused", "instances=N"),
        ("domultisync value=1\n", "domultisync is refused", "start together"),
        ("foreach $nn in 1,2 {\n set $x1=$nn\n}\n", "foreach is refused", "plan"),
        ("load fileserver\n", "load is refused", "command line"),
        ("define posset name=p,entries=3\n", "define posset is refused", "random"),
        (
            "define fileset name=a,path=/tmp,entries=3,dirwidth=5,filesizegamma=1500\n",
            "attribute \"filesizegamma\" is refused",
            "cvar-gamma",
        ),
    ] {
        let errors = errors(source);
        assert!(errors[0].contains(what) && errors[0].contains(instead), "{errors:#?}");
    }
}

#[test]
fn older_spellings_are_taken_with_a_warning() {
    let source = "usage \"set it up\"\ndefine randvar name=$ios,type=uniform,mean=4k\n\
        define fileset name=a,path=/tmp,entries=3,dirwidth=5,filesize=9k,cached=false,prealloc\n\
        create processes\n\
        define process name=p { thread name=t { flowop read name=r,filesetname=a,iosize=$ios } }\nrun 1\n";
    let program = accepted(source);
    assert_eq!(program.filesets[0].size, Amount::Fixed(9 << 10));
    let warnings: Vec<String> = program.warnings.lines().collect();
    assert_eq!(warnings.len(), 6, "{warnings:#?}");
    assert!(warnings.iter().all(|warning| warning.contains("older Filebench")), "{warnings:#?}");
}

#[test]
fn variables_are_read_at_the_run_and_not_where_they_are_written() {
    let source = "set $size=1k\nset $many=2\n\
         define fileset name=a,path=/tmp,entries=3,dirwidth=5,size=$size\n\
         define process name=p { thread name=t,instances=$many { flowop openfile name=o,filename=a,fd=1 \
         flowop closefile name=c,fd=1 } }\nset $size=2k\ncreate files\nset $size=4k\nset $(many)=7\nrun 1\n";
    let program = accepted(source);
    assert_eq!(program.filesets[0].size, Amount::Fixed(2048), "filesets are read at create files");
    assert_eq!(program.processes[0].threads[0].instances, 7, "processes are read at the run");
}

#[test]
fn overrides_win_over_every_set_and_must_name_a_variable_of_the_script() {
    let source = format!("set $nthreads=1\nset $nthreads=2\n{}", thread("flowop hog name=h,value=$nthreads"));
    let override_with = |name: &str| Overrides::from([(name.to_owned(), Value::Int(9))]);
    let program = load("a.f", &source, &override_with("nthreads")).unwrap();
    let Action::Operation(hog) = &program.processes[0].threads[0].flowops[0].action else { panic!() };
    assert_eq!(hog.value, Amount::Fixed(9));
    let report = load("a.f", &source, &override_with("nthread")).unwrap_err();
    assert_eq!(
        report.lines().next().unwrap(),
        "a.f: unknown variable \"nthread\"; did you mean \"nthreads\"?"
    );
}

#[test]
fn an_override_can_supply_a_variable_that_the_script_never_sets() {
    let source = "define fileset name=a,path=$dir,entries=3,dirwidth=5\n";
    assert_eq!(errors(source).len(), 1);
    let overrides = Overrides::from([("dir".to_owned(), Value::Text("/mnt".into()))]);
    assert_eq!(load("a.f", source, &overrides).unwrap().filesets[0].path, "/mnt");
}

#[test]
fn wrong_types_and_ranges_name_what_is_wanted() {
    assert_flowop_error(
        "flowop read name=r,filename=data,iosize=big",
        "iosize needs a number or a random variable, not a string",
    );
    assert_flowop_error(
        "flowop read name=r,filename=data,iosize=1k,random=5",
        "random needs true or false, not a number",
    );
    assert_flowop_error(
        "flowop openfile name=o,filename=data,fd=128 flowop closefile name=c",
        "fd is 128; it must be from 0 to 127",
    );
    assert_error(
        "define fileset name=a,path=/tmp,entries=3,dirwidth=1\n",
        "a.f:1:43: dirwidth is 1; it must be 2 or more; \
         the depth is ln(entries)/ln(dirwidth), which needs a width of 2",
    );
    assert_error(
        "define fileset name=a,path=/tmp,entries=3,dirwidth=5,prealloc=101\n",
        "a.f:1:54: prealloc is 101; it must be from 0 to 100 percent; \
         it is the part of the files that exist at the start",
    );
    assert_error(
        "set $x1=randvar(type=tabular,randtable={{50,1,2},{49,2,3}})\n",
        "a.f:1:30: the percentages of this table sum to 99, not 100",
    );
    assert_error(
        "set $x1=$y1\n",
        "a.f:1:9: set $x1 needs a value, not a variable; \
         Filebench has no assignment from variable to variable; write the value",
    );
}

/// A fileset that exists is removed before it is made.
#[test]
fn no_path_leads_out_of_the_file_system_under_test() {
    let told = "path is \"/tmp/../..\"; it must be a path that does not lead up; \
                paths are those of the file system under test (--fs)";
    let rest = "entries=3,dirwidth=5,prealloc\n";
    assert_error(&format!("define fileset name=a,path=/tmp/../..,{rest}"), &format!("a.f:1:23: {told}"));
    let variable = format!("set $dir=/tmp/../..\ndefine fileset name=a,path=$dir,{rest}");
    assert_error(&variable, &format!("a.f:2:23: {told}"));
}

#[test]
fn missing_pieces_are_named_with_what_to_write() {
    assert_error(
        "define fileset name=a,path=/tmp,entries=3\n",
        "a.f:1:1: fileset \"a\" has no dirwidth; \
         write: dirwidth=20 for about 20 entries a directory, or 1000000 for a flat one",
    );
    assert_flowop_error(
        "flowop openfile name=o flowop closefile name=c",
        "flowop openfile has no filename; write: filename=some_fileset",
    );
    assert_flowop_error(
        "flowop aiowrite name=w,filename=data,iosize=1k",
        "flowop aiowrite has no random; asynchronous writes go to random offsets only; write: random",
    );
    assert_flowop_error("flowop hog value=5", "this flowop has no name; write: flowop … name=some_name");
}

#[test]
fn duplicate_names_point_at_both_places() {
    let twice = format!("{SET}{SET}");
    assert_error(&twice, "a.f:2:16: fileset \"data\" is given twice (first given at a.f:1:16)");
    assert_error(
        "define file name=a,path=/x,path=/y\n",
        "a.f:1:28: attribute \"path\" is given twice (first given at a.f:1:20)",
    );
}

#[test]
fn values_that_cannot_work_together_are_found_before_the_run() {
    assert_flowop_error(
        "flowop read name=r,filename=data,iosize=2m",
        "flowop \"r\" moves 2m at once, the memory of thread \"t\" has 1m; \
         set the thread's memsize to 2m or more, or to 0",
    );
    assert_flowop_error(
        "flowop read name=r,filename=data,iosize=8k,random",
        "random I/O of 8192 bytes within 4096 bytes of \"data\"; \
         lower iosize, or raise the size of the files or the workingset",
    );
    let source = "define fileset name=a,path=/tmp,entries=3,dirwidth=5,readonly\n\
        define process name=p { thread name=t { flowop write name=w,filename=a,iosize=1k } }\nrun 1\n";
    assert!(errors(source)[0].contains("on the readonly fileset \"a\""), "{:#?}", errors(source));
}

#[test]
fn slots_in_the_wrong_state_are_found_before_the_run() {
    assert_flowop_error(
        "flowop openfile name=o,filename=data,fd=1",
        "slot 1 is still open here; close it first with closefile, or use another fd=",
    );
    assert_flowop_error(
        "flowop closefile name=c,fd=2",
        "slot 2 is not open here; open it first with openfile, or use another fd=",
    );
    assert_flowop_error(
        "flowop read name=r,iosize=1k,fd=3",
        "slot 3 is empty and flowop read names no fileset; \
         name one: filename=some_fileset, or open the slot before",
    );
    assert_eq!(errors(&thread("flowop read name=r,iosize=1k,filename=data")), [""; 0]);
}

#[test]
fn targets_must_be_flowops_of_the_type_that_is_waited_in() {
    assert_flowop_error(
        "flowop block name=b flowop wakeup name=w,target=bb",
        "unknown flowop \"bb\"; did you mean \"b\"?",
    );
    assert_flowop_error(
        "flowop block name=b flowop sempost name=s,target=b,value=1",
        "the target of sempost needs a semblock, not the block \"b\"; there are none",
    );
}

#[test]
fn composite_flowops_put_their_arguments_in_and_prefix_their_steps() {
    let source = format!(
        "{SET}define flowop name=inner,$isize {{ flowop read name=r,filename=data,iosize=$isize,fd=1 \
         flowop closefile name=c,fd=1 }}\n\
         define flowop name=outer,$osize=2k {{ flowop inner name=i,iters=2,$isize=$osize }}\n\
         define process name=p {{ thread name=t {{ flowop outer name=x,iters=3 \
         flowop outer name=y,$osize=1k }} }}\n\
         run 1\n"
    );
    let program = accepted(&source);
    let thread = &program.processes[0].threads[0];
    let steps: Vec<(String, Option<u64>)> = thread
        .operations()
        .iter()
        .map(|(flowop, operation)| (flowop.name.clone(), operation.iosize.fixed()))
        .collect();
    let named = |name: &str, iosize| (name.to_owned(), Some(iosize));
    assert_eq!(steps, [named("x.i.r", 2048), named("x.i.c", 0), named("y.i.r", 1024), named("y.i.c", 0)]);
    let inner = |outer: &Flowop| match &outer.action {
        Action::Composite(body) => (outer.iterations.fixed(), body[0].iterations.fixed()),
        Action::Operation(_) => (None, None),
    };
    let iterations: Vec<_> = thread.flowops.iter().map(inner).collect();
    assert_eq!(iterations, [(Some(3), Some(2)), (Some(1), Some(2))]);
}

#[test]
fn composite_flowops_that_run_in_a_circle_are_an_error() {
    let source = "define flowop name=aa { flowop bb name=b }\ndefine flowop name=bb { flowop aa name=a }\n\
        define process name=p { thread name=t { flowop aa name=x } }\nrun 1\n";
    assert!(errors(source)[0].contains("aa -> bb -> aa"), "{:#?}", errors(source));
}

#[test]
fn composite_arguments_are_checked_against_the_definition() {
    let body = "define flowop name=op,$size { flowop hog name=h,value=$size }\n";
    let call = |arguments: &str| {
        format!("{body}define process name=p {{ thread name=t {{ flowop op name=x{arguments} }} }}\nrun 1\n")
    };
    assert!(errors(&call(",$sise=1"))[0].contains("did you mean \"size\"?"));
    assert!(errors(&call(""))[0].contains("has no $size"));
    assert_eq!(errors(&call(",$size=1")), [""; 0]);
}

#[test]
fn end_of_the_run_follows_the_mode() {
    let body = thread("flowop hog name=h,value=1").replace("run 1\n", "");
    let run = |mode: &str, run: &str| {
        let program = accepted(&format!("{mode}\n{body}{run}\n"));
        (program.end, program.run.unwrap())
    };
    let plain = |seconds| Run { seconds, snapshots: None };
    assert_eq!(run("", "run"), (EndPolicy::Timeout, plain(Some(60))));
    assert_eq!(run("", "run 5"), (EndPolicy::Timeout, plain(Some(5))));
    assert_eq!(run("set mode quit alldone", "run"), (EndPolicy::AllDone, plain(None)));
    assert_eq!(run("set mode quit firstdone", "run 5"), (EndPolicy::FirstDone, plain(Some(5))));
    let snapshots = |period_s, reset| Some(Snapshots { period_s, reset });
    assert_eq!(run("", "psrun").1, Run { seconds: Some(60), snapshots: snapshots(10, false) });
    assert_eq!(run("", "psrun -5 20").1, Run { seconds: Some(20), snapshots: snapshots(5, true) });
}

#[test]
fn steps_before_the_run_keep_their_order_and_substitute_variables() {
    let source = format!(
        "set $nn=3k\necho \"a\\$b $nn\"\nsleep 2\nlist fileset\nlist flowop\nversion\ncreate files\n{}",
        thread("flowop hog name=h,value=1")
    );
    let steps = accepted(&source).steps;
    assert_eq!(
        steps,
        [
            Step::Echo("a$b 3k".into()),
            Step::Sleep(2),
            Step::ListFilesets,
            Step::ListFlowops,
            Step::Version,
            Step::CreateFiles
        ]
    );
}

#[test]
fn what_has_no_effect_or_is_never_reached_is_a_warning() {
    let source = format!("set $unused=1\n{}quit\n", thread("flowop hog name=h,value=1,iosize=4k"));
    let warnings = warnings(&source);
    for wanted in
        ["\"$unused\" is never used", "iosize has no effect on hog", "never reached", "fileset \"data\""]
    {
        assert!(warnings.iter().any(|warning| warning.contains(wanted)), "{wanted}: {warnings:#?}");
    }
}

#[test]
fn more_than_filebench_could_do_is_a_warning_only() {
    let source = "define fileset name=a,path=/tmp,entries=2000000,dirwidth=20\n";
    assert!(warnings(source).iter().any(|warning| warning.contains("1048576")), "{:#?}", warnings(source));
}

#[test]
fn eventgen_and_histograms_are_switches_of_the_program() {
    let source = format!(
        "enable lathist\nset mode nousestats\neventgen rate=50\n{}",
        thread("flowop eventlimit name=e")
    );
    let program = accepted(&source);
    assert_eq!(program.event_rate, Some(Amount::Fixed(50)));
    assert!(program.latency_histograms && !program.cpu_statistics);
}

#[test]
fn printing_a_tree_and_reading_it_again_gives_the_same_tree() {
    for personality in PERSONALITIES {
        let (tree, problems) = parse(personality.source);
        assert_eq!(problems, []);
        let (again, problems) = parse(&tree.to_string());
        assert_eq!(problems, [], "{}:\n{tree}", personality.name);
        assert_eq!(tree, again, "{}", personality.name);
    }
}

/// Words that scripts are made of; `\n` stands for a line break, `~` for a blank inside a word.
const WORDS: &str = "set define fileset file process thread flowop run psrun echo create files name = = \
    , { } ( ) $var ${x} $(long) 12 4k -3 1.5 \"text~$var\\n\" \"open \\n \\n randvar cvar type tabular \
    randtable cvar-gamma parameters mean:5;gamma:2 openfile read iosize iters filename fd random #c\\n \
    mode quit timeout eventgen rate * sleep debug list system foreach usage enable lathist multi path \
    /tmp entries dirwidth true @ target wakeup";

/// Scripts that look like scripts: words of the language in any order.
fn word_soup() -> impl Strategy<Value = String> {
    let words: Vec<String> =
        WORDS.split_whitespace().map(|word| word.replace("\\n", "\n").replace('~', " ")).collect();
    prop::collection::vec(prop::sample::select(words), 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_text_never_panics(source in "\\PC{0,200}") {
        let _ = load("any.f", &source, &Overrides::new()).map_err(|report| report.to_string());
    }

    #[test]
    fn any_order_of_words_is_read_or_reported_and_never_panics(source in word_soup()) {
        if let Err(report) = load("soup.f", &source, &Overrides::new()) {
            prop_assert!(report.has_errors());
            prop_assert!(!report.to_string().is_empty());
        }
    }

    #[test]
    fn any_tree_survives_printing(source in word_soup()) {
        let (tree, _) = parse(&source);
        let printed = tree.to_string();
        let (again, problems) = parse(&printed);
        let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
        prop_assert!(errors.is_empty(), "{printed}\n{errors:?}");
        prop_assert_eq!(tree, again, "{}", printed);
    }

    #[test]
    fn damaged_personalities_never_panic(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..40,
        put in "[a-z0-9$,={}()\"\n ]{0,6}",
    ) {
        let source = which.get(PERSONALITIES).source;
        let start = at.index(source.len());
        let end = (start + cut).min(source.len());
        let damaged = format!("{}{put}{}", &source[..start], &source[end..]);
        if let Err(report) = load("damaged.f", &damaged, &Overrides::new()) {
            prop_assert!(report.lines().count() > 0);
        }
    }
}
