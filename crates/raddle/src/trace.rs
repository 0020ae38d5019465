//! A trace of what threads and processors do, for Perfetto or Chrome's `about:tracing`: who ran where and when, what
//! each waited for, who woke whom, and whose processor was taken since it blocked in the kernel.
//!
//! Events go into a file in memory, a lane for each processor, in turns: the last [`EVENTS`] of each are kept, so a
//! trace takes a bounded amount of memory however long the program runs, and what is in the file survives the
//! process. [`Trace::finish`] makes JSON of it; after a crash [`convert`] does.
//!
//! While nothing is traced, nothing is added to a switch or a wake-up: both look at a mask anyway, for what is due
//! now and then (`pace.rs`), and a trace changes that mask. Who wakes from outside, and a processor that falls idle,
//! look at one word more.
//!
//! A fork's child writes nothing more: it shares the file, and is not the program.
//!
//! # Example
//! ```
//! let path = std::env::temp_dir().join(format!("raddle-trace-{}.json", std::process::id()));
//! let trace = raddle::trace::Trace::begin(&path, raddle::trace::EVENTS).unwrap();
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| raddle::spawn(|| ()).join().unwrap());
//! trace.finish().unwrap();
//! assert!(std::fs::read_to_string(&path).unwrap().contains("\"traceEvents\""));
//! # std::fs::remove_file(path).unwrap();
//! ```

mod json;
mod story;

use crate::lanes::{self, layout::Layout};
use std::io;
use std::path::{Path, PathBuf};

/// Events that are kept of each processor if nobody says otherwise: 2 MiB, the last quarter of a second of a
/// processor that switches each 8 microseconds.
pub const EVENTS: usize = 1 << 16;
/// The most that may be asked for.
pub const MOST_EVENTS: usize = 1 << 24;

/// A trace that goes on until it is finished, or the process ends.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
}

impl Trace {
    /// Begins a trace, which keeps the last so many events of each processor (a power of two, or the next one) in
    /// `path` with `.raw` at its end. Where an earlier program of this process, which has replaced itself, left one
    /// there, `path` gets `.2` at its end, and so on.
    ///
    /// # Errors
    /// One goes on already, or the file cannot be made.
    pub fn begin(path: &Path, events: usize) -> io::Result<Trace> {
        let claim = lanes::Claim::take().ok_or_else(|| io::Error::other("a trace goes on already"))?;
        let (process, begun) = (u64::from(std::process::id()), begun());
        let number = |n: u32| if n < 2 { path.to_path_buf() } else { with_end(path, &format!(".{n}")) };
        let taken = |path: &Path| json::process_of(&raw(path)).is_some_and(|its| its == (process, begun));
        let path = (1..).map(number).find(|path| !taken(path)).unwrap_or_else(|| path.to_path_buf());
        let events = events.clamp(1024, MOST_EVENTS).next_power_of_two();
        let lanes = 1 + crate::os::default_processors() + SPARE_LANES;
        let layout = Layout { lanes, events };
        let file = crate::os::mapped::create(&raw(&path), layout.size())?;
        let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let head = lanes::Head { process, begun, layout, program: program.trim_end() };
        // SAFETY: made just now, of that size; it is never unmapped.
        unsafe { lanes::begin(claim, file, &head) };
        crate::pace::watch(true);
        Ok(Trace { path })
    }

    /// The file in which events are kept while it goes on.
    pub fn raw(&self) -> PathBuf {
        raw(&self.path)
    }

    /// Ends the trace, and makes JSON of it.
    ///
    /// # Errors
    /// The file cannot be written: then the one that ends in `.raw` stays, for [`convert`].
    pub fn finish(self) -> io::Result<PathBuf> {
        // In this order: the next one may begin after that.
        crate::pace::watch(false);
        lanes::end();
        convert(&raw(&self.path), &self.path)?;
        std::fs::remove_file(raw(&self.path))?;
        Ok(self.path)
    }
}

/// Lanes for processors of pools beyond the first one's.
const SPARE_LANES: usize = 4;

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    name.into()
}

fn raw(path: &Path) -> PathBuf {
    with_end(path, ".raw")
}

/// When this process began, as the kernel counts it.
fn begun() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Makes JSON of a trace that was not finished: its program crashed, was killed, or replaced itself.
///
/// # Errors
/// It is no trace, or a file cannot be read or written.
pub fn convert(raw: &Path, into: &Path) -> io::Result<()> {
    json::convert(raw, into)
}
