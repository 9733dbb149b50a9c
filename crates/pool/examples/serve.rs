//! A program that keeps its files in a pool and shows them to other programs: `cargo run -p weir-pool --example serve -- POOL DIR`.
//!
//! Each line that it reads goes to the file `notes` by a direct call. Files that other programs put into `DIR/inbox` it takes out and
//! prints, after each line. It ends with its input.

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;

use pool::{OpenOptions, Pool, PoolOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve POOL DIR".into());
    };
    let pool = PoolOptions::new("crest").size("64MiB".parse()?).open(PathBuf::from(file))?;
    pool.create_dir_all("inbox")?;
    let mut served = pool.serve(directory)?;
    let notes = OpenOptions::new().append(true).create(true).open(&pool, "notes")?;
    println!("served on {}", served.directory().display());
    for line in stdin().lock().lines() {
        writeln!(&notes, "{}", line?)?;
        take_inbox(&pool)?;
        println!("noted");
        stdout().flush()?;
    }
    drop(notes);
    // Fails while another program uses the directory; dropping `served` would end it all the same.
    served.unmount()?;
    drop(served);
    Ok(pool.close()?)
}

/// Prints what other programs have left, and removes it.
fn take_inbox(pool: &Pool) -> Result<(), Box<dyn Error>> {
    for entry in pool.read_dir("inbox")? {
        let path = PathBuf::from("inbox").join(entry.file_name());
        println!("{}: {}", path.display(), pool.read_to_string(&path)?.trim_end());
        pool.remove_file(&path)?;
    }
    Ok(())
}
