//! A scratch program while the crate is being built.
use archsim::crash::{campaign, mutant::Mutant};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let points: u64 = a[1].parse().unwrap();
    let mut machine = archsim::Machine::load("tiny").unwrap();
    for set in a.iter().skip(2) {
        let (k, v) = set.split_once('=').unwrap();
        machine.set(k, v).unwrap();
    }
    let c = archsim::Config {
        machine,
        scheme: String::new(),
        workload: "hash".into(),
        threads: 1,
        seed: 1,
        ops: 200,
    };
    for s in archsim::scheme::SCHEMES {
        let t = std::time::Instant::now();
        let c = archsim::Config { scheme: s.name.into(), ..c.clone() };
        match campaign(&c, None, points) {
            Ok(v) => println!(
                "{:14} {} points {} nested {} failures {:?} {:.1}s {}",
                s.name,
                v.points,
                v.nested,
                v.failures,
                v.first.map(|f| f.what),
                t.elapsed().as_secs_f64(),
                s.promises
            ),
            Err(e) => println!("{} {e}", s.name),
        }
    }
    for m in Mutant::ALL {
        let c = archsim::Config { scheme: "fwb".into(), ..c.clone() };
        match campaign(&c, Some(m), points) {
            Ok(v) => println!(
                "{:20} {} points {} failures {:?}",
                m.name(),
                v.points,
                v.failures,
                v.first.map(|f| f.what)
            ),
            Err(e) => println!("{} {e}", m.name()),
        }
    }
}
