//! Block devices by name: an SSD of `flash::model`, a hard disk, or a RAM disk behind a loop device.
//!
//! | written | means |
//! |---|---|
//! | `fast24,allocation=on` | the SSD preset with another value |
//! | `mine.toml,allocation=on` | the same of a preset in a file |
//! | `fast24,nr_requests=1` | a driver that hands the device one request at a time |
//! | `fast24,phase=3` | three pages of 4 KiB lie in the open flash page when the workload begins; by default none |
//! | `loop,nr_requests=128,size=2GiB` | a file in memory behind a loop device |
//! | `hdd,nr_requests=32,size=32GiB` | a hard disk, as wide as a whole one |

use std::sync::Arc;

use sim::Bytes;

use super::{BlockDevice, DiskDevice, LoopDevice, SsdDevice, WriteFlags, disk};
use crate::MediaError;
use crate::flash::model::{KINDS, PRESETS};
use crate::flash::{self, Data, PAGE, SECTOR, SsdModel};
use crate::medium::MediumError;

/// The name of the RAM disk.
const LOOP: &str = "loop";
/// The name of the hard disk.
const DISK: &str = "hdd";
/// Most requests of a loop device (`BLKDEV_MAX_RQ`).
const LOOP_REQUESTS: u32 = 128;
/// Most requests of an NVMe queue of the driver: one less than entries.
const SSD_REQUESTS: u32 = 1023;

/// A device that can be built.
#[derive(Clone, Debug)]
pub struct BlockModel {
    text: String,
    kind: Kind,
    requests: Option<u32>,
    phase: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Ssd(Box<SsdModel>),
    Loop(Bytes),
    Disk(Bytes),
}

/// A device that was built, and what it is besides.
#[derive(Clone, Debug)]
pub struct Built {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// The same, if it is an SSD.
    pub ssd: Option<Arc<SsdDevice>>,
    phase: u64,
}

impl BlockModel {
    /// The names of all devices that a build has.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(preset, _)| *preset).chain([LOOP, DISK]).filter(|name| Self::parse(name).is_ok())
    }

    /// One line.
    pub fn summary(&self) -> &str {
        match &self.kind {
            Kind::Ssd(model) => model.summary(),
            Kind::Loop(_) => {
                "a RAM disk behind a loop device, one worker and no dies: nr_requests=128, size=2GiB"
            }
            Kind::Disk(_) => {
                "a hard disk of 7,200 turns a minute with a write cache: nr_requests=32, size=32GiB"
            }
        }
    }

    /// What survives a power loss.
    pub fn promises(&self) -> String {
        let when = match &self.kind {
            Kind::Ssd(model) if model.config().is_ok_and(|config| !config.capacitor) => "after a flush",
            Kind::Disk(_) => "after a flush",
            _ => "on completion",
        };
        format!("a block of {SECTOR} bytes is atomic, durable {when}")
    }

    /// Whether a name is one of these devices.
    pub fn knows(text: &str) -> bool {
        let name = text.split(',').next().unwrap_or_default().trim();
        [LOOP, DISK].contains(&name)
            || PRESETS.iter().any(|(preset, _)| *preset == name)
            || KINDS.iter().any(|(kind, _)| *kind == name)
            || SsdModel::is_file(name)
    }

    /// The device that people write as `NAME[,parameter=value…]`.
    pub fn parse(text: &str) -> Result<Self, MediumError> {
        let bad = |name: &str, value: &str, expected: &str| MediumError::BadValue {
            medium: text.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
            expected: expected.to_owned(),
        };
        let (mut rest, mut requests, mut phase, mut size) = (Vec::new(), None, 0, None);
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some(("nr_requests", value)) => {
                    let parsed = value.parse().ok().filter(|number| *number > 0);
                    requests = Some(parsed.ok_or_else(|| bad("nr_requests", value, "a number from 1"))?);
                }
                Some(("phase", value)) => {
                    let parsed = value.parse().ok().filter(|number| *number < 8);
                    phase = parsed.ok_or_else(|| bad("phase", value, "a number of pages, 0 to 7"))?;
                }
                Some(("size", value)) if rest == [LOOP] || rest == [DISK] => {
                    let parsed = value.parse().ok().filter(|size: &Bytes| size.0 >= 1 << 20);
                    size = Some(parsed.ok_or_else(|| bad("size", value, "a size such as 2GiB"))?);
                }
                _ => rest.push(part),
            }
        }
        let kind = match rest.as_slice() {
            [LOOP] => Kind::Loop(size.unwrap_or(Bytes::gib(2))),
            [DISK] => Kind::Disk(size.unwrap_or(Bytes::gib(32))),
            [name @ (LOOP | DISK), other, ..] => {
                return Err(bad(other, "", &format!("a parameter of {name}: nr_requests, size")));
            }
            _ => Kind::Ssd(Box::new(SsdModel::parse(&rest.join(","))?)),
        };
        if let Kind::Ssd(model) = &kind
            && model.config().is_ok_and(|config| config.kind == flash::config::Kind::Zoned)
        {
            let expected =
                "a device that takes writes anywhere, which designs need: give it to `weir sim flash`";
            return Err(bad("model", "zoned", expected));
        }
        Ok(Self { text: text.to_owned(), kind, requests, phase })
    }

    /// The SSD, and how many pages its open flash page holds when the workload begins. None for another device.
    pub fn ssd(&self) -> Option<(&SsdModel, u64)> {
        match &self.kind {
            Kind::Ssd(model) => Some((model, self.phase)),
            Kind::Loop(_) | Kind::Disk(_) => None,
        }
    }

    /// The name without parameters.
    pub fn name(&self) -> &str {
        self.text.split(',').next().unwrap_or_default()
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The claims that a value was fitted on.
    pub fn fitted_on(&self) -> &[String] {
        match &self.kind {
            Kind::Ssd(model) => model.fitted_on(),
            Kind::Loop(_) | Kind::Disk(_) => &[],
        }
    }

    /// A fresh device; zeros take no memory on an SSD.
    pub fn build(&self) -> Result<Built, MediaError> {
        match &self.kind {
            Kind::Loop(size) => {
                let device = LoopDevice::new(*size, self.requests.unwrap_or(LOOP_REQUESTS))?;
                Ok(Built { device, ssd: None, phase: 0 })
            }
            Kind::Disk(size) => {
                let device = DiskDevice::new(*size, self.requests.unwrap_or(disk::QUEUE))?;
                Ok(Built { device, ssd: None, phase: 0 })
            }
            Kind::Ssd(model) => {
                let config = model.config().map_err(|_| MediaError::Empty)?;
                let depth = self.requests.unwrap_or(SSD_REQUESTS);
                let ssd =
                    SsdDevice::with_depth(&config, Data::Sparse, depth).map_err(|_| MediaError::Empty)?;
                let device = Arc::clone(&ssd) as Arc<dyn BlockDevice>;
                Ok(Built { device, ssd: Some(ssd), phase: self.phase })
            }
        }
    }
}

impl From<Arc<dyn BlockDevice>> for Built {
    fn from(device: Arc<dyn BlockDevice>) -> Self {
        Self { device, ssd: None, phase: 0 }
    }
}

impl Built {
    /// Before the workload begins: what was written so far ends with a whole flash page, and `phase` pages of the next one are
    /// taken. They are the last pages of the device, which a file system that was just made has not given out.
    pub fn align(&self) -> Result<(), MediaError> {
        let Some(ssd) = &self.ssd else { return Ok(()) };
        ssd.pad();
        let end = ssd.geometry().bytes.0;
        for page in 1..=self.phase {
            ssd.write(end - page * PAGE, &[0; PAGE as usize], WriteFlags::default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_with_their_drivers_limits() {
        let one = BlockModel::parse("fast24,allocation=on,nr_requests=1").unwrap();
        let built = one.build().unwrap();
        assert_eq!((one.name(), built.device.geometry().queue_depth), ("fast24", 1));
        let disk = BlockModel::parse("loop,size=16MiB").unwrap().build().unwrap();
        assert_eq!((disk.device.geometry().queue_depth, disk.ssd.is_none()), (128, true));
        assert!(BlockModel::knows("fast24,phase=1") && !BlockModel::knows("hinfs"));
        assert!(BlockModel::names().all(|name| BlockModel::parse(name).unwrap().build().is_ok()));
        let told = BlockModel::parse("nvmevirt.zns").unwrap_err().to_string();
        assert!(told.contains("zoned") && told.contains("weir sim flash"), "{told}");
        for wrong in ["fast24,phase=8", "fast24,nr_requests=0", "loop,speed=1", "fast24,wings=2"] {
            assert!(BlockModel::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_workload_begins_with_a_new_flash_page() {
        let built = BlockModel::parse("fast24").unwrap().build().unwrap();
        built.device.write(0, &[1; 12_288], WriteFlags::default()).unwrap();
        built.align().unwrap();
        let at = [1 << 20, (1 << 20) + 28_672, (1 << 20) + 32_768];
        for off in at {
            built.device.write(off, &[1; 4096], WriteFlags::default()).unwrap();
        }
        let off = (1 << 20) + 4096;
        built.device.write(off, &vec![1; 24_576], WriteFlags::default()).unwrap();
        let ssd = built.ssd.unwrap();
        let page = |off| ssd.with(|ssd| ssd.layout(off)).unwrap();
        assert_eq!(page(0).die, 0);
        assert_eq!(page(1 << 20).die, 1, "the page that was begun before is full");
    }
}
