//! A scratch program while the crate is being built.
use archsim::reproduce::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let scale = Scale { ops: a[1].parse().unwrap(), warmup: a[2].parse().unwrap(), ..Scale::QUICK };
    let mut m = machine(scale, None).unwrap();
    for set in a.iter().skip(3) {
        let (k, v) = set.split_once('=').unwrap();
        m.set(k, v).unwrap();
    }
    let t = std::time::Instant::now();
    let x = Matrix::measure(&m, scale, 1, 2, &|| {}).unwrap();
    for (c, o) in x.runs() {
        println!(
            "{:12} {} {:14} {:>10.0} {:>8.0} {:>8.1}",
            c.workload,
            c.threads,
            c.scheme,
            o.throughput(),
            o.traffic(),
            o.energy_nj()
        );
    }
    for (id, v) in x.claims(Arithmetic::default()) {
        println!("{id:30} {v:.3}");
    }
    println!("{:?}", t.elapsed());
}
