//! What compiling costs, measured: `cargo test -p weir-trace --test it -- --ignored --nocapture speed`.

use std::io::{BufWriter, Write};
use std::time::Instant;

use trace::Reader;
use trace::compile::{Options, Packed, compile};

/// Writes a compressed trace of `calls` calls: eight threads, a million files, a tenth of the calls on files that threads share.
fn generate(path: &std::path::Path, calls: u64) {
    let file = BufWriter::new(std::fs::File::create(path).unwrap());
    let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    out.write_all(b"#weir-trace 1\n#root /r\n").unwrap();
    (1..=8).for_each(|thread| writeln!(out, "T {thread} 1 {thread} \"p\"").unwrap());
    (2..=8).for_each(|thread| writeln!(out, "F 1 {thread} 0 thread,files").unwrap());
    for round in 0..calls / 5 {
        let (thread, fd, at) = (round % 8 + 1, round % 8 + 3, round * 7919 % 1_000_000);
        let name = if round.is_multiple_of(10) {
            format!("shared/{}", round % 50)
        } else {
            format!("d{}/f{at}", at % 1000)
        };
        let lines = [
            format!("stat \"{name}\" = 0"),
            format!("open \"{name}\" rdwr 00 = {fd}"),
            format!("pread {fd} 4096 0 = 4096"),
            format!("write {fd} 512 = 512"),
            format!("close {fd} = 0"),
        ];
        for line in lines {
            writeln!(out, "{thread} {} {} {line}", 300 + round % 1000, 900 + round % 77).unwrap();
        }
    }
    out.finish().unwrap().flush().unwrap();
}

/// The most memory that this process has had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// CPU time of this process, in seconds (proc(5): fields 14 and 15 of `stat`, in hundredths).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
#[ignore = "a measurement of a minute, which decides nothing"]
fn ten_million_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    generate(&path, 10_000_000);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut packed = Packed::new(std::io::sink(), "sink").unwrap();
    let sums = compile(Reader::open(&path).unwrap(), Options::default(), &mut packed).unwrap();
    packed.finish().unwrap();
    println!("{sums:?}");
    let (wall, cpu) = (began.elapsed(), cpu_seconds() - cpu);
    println!(
        "{bytes} bytes compressed; compiled in {wall:?}, {cpu:.1} s of CPU; peak {} MiB",
        peak_kib() / 1024
    );
}
