//! The page in a real browser: phone and desktop, light and dark, without network.
//!
//! Headless Chromium opens a copy of the sample page that measures itself and reports what it found to the
//! page around it, which `--dump-dom` prints. Without `chromium` on the path the test says so and passes.

use crate::sample;
use report::{Report, by_name};
use results::{FailureKind, HostRecord, ResultFile, Sample, SampleFailure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Collects script errors from the start; runs before anything else on the page.
const WATCH: &str = "<script>window.faults = []; \
    addEventListener('error', e => faults.push(String(e.message)), true);</script>";

/// Measures the finished page.
const MEASURE: &str = r"<script>
const shown = e => e.getClientRects().length > 0;
const charts = [...document.querySelectorAll('figure svg.chart[role=img]')].filter(shown);
const inside = (a, b) =>
  a.left >= b.left - 2 && a.right <= b.right + 2 && a.top >= b.top - 2 && a.bottom <= b.bottom + 2;
const apart = (a, b) =>
  a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
const straight = [...document.querySelectorAll('figure svg.chart text:not([transform])')].filter(shown);
const clashes = [], outside = [], small = [];
for (const chart of charts) {
  const texts = straight.filter(t => chart.contains(t)), frame = chart.getBoundingClientRect();
  texts.forEach((t, i) => {
    const box = t.getBoundingClientRect();
    if (!inside(box, frame)) outside.push(t.textContent);
    if (box.height < 11) small.push(t.textContent);
    texts.slice(i + 1).forEach(u => {
      if (!apart(box, u.getBoundingClientRect())) clashes.push(t.textContent + ' / ' + u.textContent);
    });
  });
}
const figures = [...document.querySelectorAll('figure')];
const found = {
  width: innerWidth, scroll: document.documentElement.scrollWidth,
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  page: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
  figures: figures.length,
  figures_without_table: figures.filter(f => !f.querySelector('table tbody tr')).length,
  figures_without_chart: figures.filter(f => !charts.some(c => f.contains(c))).length,
  charts: charts.length, unnamed: charts.filter(c => !c.getAttribute('aria-label')).length,
  unreachable: [...document.querySelectorAll('.scroll')].filter(s => s.tabIndex !== 0).length,
  clashes, outside, small, faults,
  loaded: performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith('data:')),
};
parent.postMessage(JSON.stringify(found), '*');
</script>";

/// A page that shows the measuring page in a frame of `WIDTH` pixels (a window cannot be as narrow as a
/// phone) and writes down what it reports. The frame takes over the theme because this page accepts both.
const FRAME: &str = r#"<!DOCTYPE html><html style="color-scheme: light dark"><body><pre id="found"></pre>
<script>addEventListener('message', e => document.getElementById('found').textContent = e.data);</script>
<iframe src="page.html" width="WIDTH" height="900" style="border: 0"></iframe></body></html>"#;

fn chromium_is_here() -> bool {
    let here = Command::new("chromium").arg("--version").output().is_ok();
    if !here {
        println!("skipped: no `chromium` on the path; install the package chromium to run this test");
    }
    here
}

/// Without figures of a plan: one cell; four axes; a busy host and cells that have failed, a whole chart of them among these.
fn plain() -> [ResultFile; 3] {
    let mut one = sample::bars();
    one.samples.truncate(1);
    let mut four = sample::lines().remove(0);
    let other = four.samples.iter().cloned().map(|mut sample| {
        sample.axes.insert("medium".to_owned(), "hinfs,latency=800ns".to_owned());
        sample
    });
    let other: Vec<Sample> = other.collect();
    four.samples.extend(other);
    let mut trouble = sample::lines().remove(0);
    for (at, sample) in trouble.samples.iter_mut().enumerate() {
        let noise = vec!["other processes took 40 % of all processor time".to_owned()];
        sample.host =
            Some(HostRecord { wall_ns: 9, others_ns: 3, attempts: 2, noise, ..HostRecord::default() });
        if at % 7 == 0 || sample.axis("workload") == Some("filebench/varmail") {
            let what = "the region of 9 MiB is full: give it --region 18MiB or more".to_owned();
            let failure = SampleFailure { kind: FailureKind::Run, what };
            *sample = Sample::failed(sample.axes.clone(), sample.repeat, sample.seed, failure);
        }
    }
    let mut results = [one, four, trouble];
    for result in &mut results {
        result.plan = Value::Null;
    }
    results
}

fn page() -> String {
    let mut results = vec![sample::bars()];
    results.extend(sample::lines());
    results.extend(plain());
    let report = Report::new(results).expect("the sample's figures are right");
    by_name("html").expect("there is a page").render(&report).expect("it renders")
}

/// The page of a replayed program, with the figures that only it has.
fn program() -> String {
    let report = Report::new(vec![sample::program()]).expect("the default figures are right");
    let page = by_name("html").expect("there is a page").render(&report).expect("it renders");
    for heading in
        ["Where the time went, by class of call", "What the program waited for", "What the program did when"]
    {
        assert!(page.contains(heading), "{heading}");
    }
    page
}

fn difference() -> String {
    let compared = report::compare_by(&sample::bars(), "fs", None).expect("designs vary");
    report::format::difference_html(&compared).expect("it renders")
}

/// The page with the scripts that watch and measure it.
fn measuring(page: &str) -> String {
    page.replacen("<head>", &format!("<head>{WATCH}"), 1).replacen("</body>", &format!("{MEASURE}</body>"), 1)
}

fn measure(folder: &Path, width: u32, dark: bool) -> Value {
    let scheme = u8::from(!dark);
    let frame = folder.join("frame.html");
    std::fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).expect("the frame is written");
    let output = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--window-size=1400,1000")
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", frame.display()))
        .output()
        .expect("chromium starts");
    let log = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, [""; 0], "the console stays silent");
    found(&String::from_utf8_lossy(&output.stdout), &log)
}

fn found(dom: &str, log: &str) -> Value {
    let start = dom.find("<pre id=\"found\">").unwrap_or_else(|| panic!("the page did not measure: {log}"));
    let text = &dom[start + "<pre id=\"found\">".len()..];
    let text = &text[..text.find("</pre>").expect("the element ends")];
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).expect("what the page found is JSON")
}

fn check(found: &Value, width: u32, dark: bool, figures: u64) {
    assert_eq!(found["width"], width, "the window is as wide as asked: {found}");
    assert!(found["scroll"].as_u64() <= Some(u64::from(width)), "no sideways scrolling: {found}");
    assert_eq!(found["dark"], dark, "the theme follows the reader: {found}");
    for nothing in ["figures_without_table", "figures_without_chart", "unnamed", "unreachable"] {
        assert_eq!(found[nothing], 0, "{nothing}: {found}");
    }
    assert!(found["figures"].as_u64() >= Some(figures), "the sample has figures: {found}");
    for empty in ["clashes", "outside", "small", "faults", "loaded"] {
        assert_eq!(found[empty].as_array().map(Vec::len), Some(0), "{empty} at {width}: {}", found[empty]);
    }
}

#[test]
fn the_page_is_readable_on_phone_and_desktop_light_and_dark() {
    if !chromium_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (page, figures) in [(page(), 12), (program(), 5), (difference(), 4)] {
        std::fs::write(folder.path().join("page.html"), measuring(&page)).expect("the page is written");
        let mut colours = Vec::new();
        for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
            let found = measure(folder.path(), width, dark);
            check(&found, width, dark, figures);
            colours.push((found["page"].clone(), found["ink"].clone()));
        }
        assert_ne!(colours[0], colours[1], "light and dark differ");
    }
}
