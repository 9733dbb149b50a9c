//! `weir serve block`: an SSD, NVMMBD or a RAM disk at the speed of the model: as an NBD server, or as a file for a loop device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fuse::MountError;
use media::block::{MemoryDevice, SsdDevice};
use media::flash::model::PRESETS;
use media::flash::{Data, PAGE, SsdModel};
use media::{BlockDevice, Medium};
use report::table::Table;
use serde_json::json;
use sim::{Bytes, Machine, Nanos, Seed, Setup};

use super::disk::{self, Ended};
use crate::failure::{Exit, Failure};
use crate::nbd::{self, Export, Lateness};
use crate::output::Output;
use crate::{interrupt, nbd::listen};

/// Serve a block device: over NBD (network block device) on a Unix socket, or as a file for a loop device.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir serve block --medium ssd --size 1GiB --socket /tmp/ssd.sock\n\
                  Then: nbdinfo 'nbd+unix:///?socket=/tmp/ssd.sock', or fio's nbd engine, or qemu-nbd, or nbd-client\n\
                  If the kernel has no nbd: weir serve block --medium ssd --mount DIR\n\
                  Then, as root: losetup --direct-io=on --find --show DIR/disk")]
pub(crate) struct Block {
    /// ssd, ram, an SSD preset (fast24,allocation=on), or a memory medium (hinfs), which is served as an
    /// NVMMBD, a block device over memory
    #[arg(long, default_value = "ssd", value_name = "MEDIUM")]
    medium: String,
    /// Size of the device
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    size: Bytes,
    /// The Unix socket to create and listen on
    #[arg(long, value_name = "PATH", required_unless_present = "mount", conflicts_with = "mount")]
    socket: Option<PathBuf>,
    /// Instead of a socket: mount a FUSE file system with a single file, "disk", on this empty directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Name of the NBD export, which is also the default export
    #[arg(long, default_value = "weir", value_name = "NAME")]
    name: String,
}

/// What `ssd` means: the study's device without the defects that a file system would notice, and with TRIM.
const SSD: &str = "fast24,trim=yes,free_unmapped_reads=no";

impl Block {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let device = self.device()?;
        let description = format!("{}, {}, in memory", self.medium, device.geometry().bytes);
        let name = self.name.clone();
        let export = Arc::new(Export { name, description, device, lateness: Lateness::default() });
        match (&self.socket, &self.mount) {
            (_, Some(dir)) => Self::serve_file(dir, &export, output)?,
            (Some(socket), None) => self.serve_socket(socket, &export, output)?,
            (None, None) => return Err(Failure::usage("give --socket PATH or --mount DIR")),
        }
        print(&export.lateness, output);
        Ok(())
    }

    fn serve_socket(&self, socket: &Path, export: &Arc<Export>, output: &Output) -> Result<(), Failure> {
        let listener = listen(socket).map_err(|error| Failure::io("serve on", socket, &error))?;
        let stop = interrupt::flag();
        output.note(&format!(
            "serving {} at nbd+unix:///{}?socket={}; Ctrl-C ends it, and the data is lost",
            export.description,
            self.name,
            socket.display()
        ));
        let shared = Arc::clone(export);
        let setup = Setup::real_clock(Machine::unit(), Seed(0));
        let served = sim::run(&setup, move || nbd::serve(&listener, &shared, &stop, log));
        // The socket may have been removed already.
        let _ = std::fs::remove_file(socket);
        served
            .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?
            .map_err(|error| Failure::io("serve on", socket, &error))
    }

    fn serve_file(dir: &Path, export: &Arc<Export>, output: &Output) -> Result<(), Failure> {
        let dir = std::path::absolute(dir).map_err(|error| Failure::io("find", dir, &error))?;
        let refused = |error: MountError| Failure::new(Exit::Host, error.to_string());
        fuse::check_directory(&dir, false).map_err(refused)?;
        let stop = interrupt::flag();
        let told = format!(
            "serving {} as {}/disk; Ctrl-C or umount ends it, and the data is lost",
            export.description,
            dir.display()
        );
        let (shared, on, quiet) = (Arc::clone(export), dir.clone(), output.is_quiet());
        let setup = Setup::real_clock(Machine::unit(), Seed(0));
        let served = sim::run(&setup, move || {
            disk::serve(&on, &shared, &stop, || {
                if !quiet {
                    log(&told);
                }
            })
        });
        let served = served.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        served.map_err(|ended| match ended {
            Ended::Refused(error) => refused(error),
            Ended::Served(error) => Failure::io("serve on", &dir, &error),
        })
    }

    fn device(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        let name = self.medium.split(',').next().unwrap_or_default();
        let failed = |error: media::MediaError| Failure::new(Exit::Run, format!("{}: {error}", self.medium));
        if name == "ram" {
            return Ok(MemoryDevice::ram(self.size).map_err(failed)?);
        }
        if name == "ssd" || PRESETS.iter().any(|(preset, _)| *preset == name) || SsdModel::is_file(name) {
            let rest = self.medium.strip_prefix("ssd").filter(|_| name == "ssd");
            let text = rest.map_or(self.medium.clone(), |rest| SSD.to_owned() + rest);
            let mut model = SsdModel::parse(&text)?;
            if !self.size.0.is_multiple_of(PAGE) {
                return Err(Failure::usage(format!("--size {} is not whole pages of 4 KiB", self.size.0)));
            }
            // Hosts see less than the flash there is.
            let spare = u128::from(100 + model.config()?.over_provisioning);
            let flash = (u128::from(self.size.0) * spare).div_ceil(100);
            model.set("capacity", &flash.to_string(), "given")?;
            return Ok(SsdDevice::new(&model.config()?, Data::Sparse)?);
        }
        let model = Medium::parse(&self.medium)?.build()?;
        Ok(MemoryDevice::nvmm(self.size, model).map_err(failed)?)
    }
}

fn log(what: &str) {
    crate::output::say(what);
}

/// How late this host was: a run is no measurement when it was late by more than a twentieth of what requests take.
fn print(lateness: &Lateness, output: &Output) {
    let (service, late) = lateness.histograms();
    let (service, late) = (service.summary(), late.summary());
    let valid = late.p50_ns * 20 <= service.p50_ns;
    if output.is_json() {
        output.document(&json!({
            "schema": "weir.serve.block/1",
            "connections": lateness.connections(),
            "service": service,
            "lateness": late,
            "valid": valid,
        }));
        return;
    }
    let mut table =
        Table::new(format!("{} requests of {} connections", service.count, lateness.connections()));
    table.words("");
    for column in ["p50", "p90", "p99", "max"] {
        table.numbers(column);
    }
    for (name, summary) in [("the device's time", service), ("this host was late by", late)] {
        let times = [summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.max_ns];
        let mut row = vec![name.to_owned()];
        row.extend(times.map(|ns| Nanos(ns).to_string()));
        table.rows.push(row);
    }
    output.data(&table.to_text());
    if !valid {
        output.note("this host was late by more than a twentieth of the device's time: do not take this for a measurement");
    }
}
