//! A scratch program while the crate is being built.
fn main() {
    let a: Vec<String> = std::env::args().collect();
    for s in a[1].split(',') {
        let mut machine = archsim::Machine::load(&a[3]).unwrap();
        for set in a.iter().skip(6) {
            let (k, v) = set.split_once('=').unwrap();
            machine.set(k, v).unwrap();
        }
        let c = archsim::Config {
            machine,
            scheme: s.into(),
            workload: a[2].clone(),
            threads: a[4].parse().unwrap(),
            seed: 1,
            ops: a[5].parse().unwrap(),
        };
        let t = std::time::Instant::now();
        match archsim::run(&c) {
            Ok(o) => println!(
                "{s:14} {:>12.0}/s traffic {:>8.0} written {:>8.0} nJ {:>8.1} ipc {:.2} instr {:?} {:?} lines {:?} {:.1} Macc/s\n    {:?}",
                o.throughput(),
                o.traffic(),
                o.written(),
                o.energy_nj(),
                o.ipc(&c.machine),
                o.instructions.map(|i| i / o.transactions.max(1)),
                o.spent.map(|x| x / 1000 / o.transactions.max(1)),
                o.lines,
                o.accesses as f64 / t.elapsed().as_secs_f64() / 1e6,
                o.counters.iter().filter(|(_, n)| *n > 0).collect::<Vec<_>>()
            ),
            Err(e) => println!("{s}: {e}"),
        }
    }
}
