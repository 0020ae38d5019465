//! How far apart threads come to quantum checks, for `--stats` and, while the program runs, for `--metrics`: the time
//! between two looks of [`crate::quantum`] between which the thread ran on.
//!
//! A look comes once in so many instructions, so the figures hold the time of those, too: what is far above the others
//! is code without checks, or the kernel took the core. Of the longest one the function is noted in which the check
//! stood that ended it, by its address: the name is looked up when it is told.
//!
//! Nothing is measured unless somebody asked; then each look stores two words more.

use crate::os::c;
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Four for each power of two.
const BUCKETS: usize = 4 * 40;

static ON: AtomicBool = AtomicBool::new(false);
/// Gaps by their length. Counters only.
static COUNTS: [AtomicU64; BUCKETS] = [const { AtomicU64::new(0) }; BUCKETS];
static LONGEST_NS: AtomicU64 = AtomicU64::new(0);
/// Where the check stood that ended the longest.
static LONGEST_AT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// When the thread looked last, and as what ([`raddle::drop_in::preemption::turn`]) it ran then.
    static LAST: Cell<(u64, (usize, u64))> = const { Cell::new((0, (0, 0))) };
}

/// From now on gaps are measured.
pub(crate) fn measure() {
    ON.store(true, Ordering::Relaxed);
}

/// The calling thread looks, at that time.
#[inline]
pub(crate) fn looks(now: impl Fn() -> u64) {
    if ON.load(Ordering::Relaxed) {
        note(now());
    }
}

/// The calling thread goes on after a look.
#[inline]
pub(crate) fn goes_on(now: impl Fn() -> u64) {
    if ON.load(Ordering::Relaxed) {
        LAST.set((now(), raddle::drop_in::preemption::turn()));
    }
}

#[cold]
#[inline(never)]
fn note(now: u64) {
    let (before, turn) = LAST.get();
    if before == 0 || turn != raddle::drop_in::preemption::turn() {
        // Others ran meanwhile.
        return;
    }
    let gap = now.saturating_sub(before);
    COUNTS[bucket(gap)].fetch_add(1, Ordering::Relaxed);
    if gap > LONGEST_NS.fetch_max(gap, Ordering::Relaxed) {
        LONGEST_AT.store(place_of_check(), Ordering::Relaxed);
    }
}

/// What is told of gaps.
pub(crate) struct Gaps {
    pub count: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// The function of the check that ended the longest.
    pub function: String,
}

/// What was measured; `None` if there was no gap.
pub(crate) fn told() -> Option<Gaps> {
    let counts: Vec<u64> = COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let count: u64 = counts.iter().sum();
    if count == 0 {
        return None;
    }
    let max_ns = LONGEST_NS.load(Ordering::Relaxed);
    let at = |share: u64| {
        let rank = (count * share).div_ceil(100).max(1);
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, limit).min(max_ns)
    };
    let function = named(LONGEST_AT.load(Ordering::Relaxed));
    Some(Gaps { count, p50_ns: at(50), p99_ns: at(99), max_ns, function })
}

/// The same in Prometheus's format, for a program that goes on; empty if there was no gap.
pub(crate) fn metrics() -> String {
    let Some(gaps) = told() else { return String::new() };
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let function: String = gaps.function.chars().filter(|c| !c.is_control() && !['"', '\\'].contains(c)).collect();
    let mut text = String::from("# TYPE raddle_quantum_gaps_total counter\n");
    let _ = writeln!(text, "raddle_quantum_gaps_total {}", gaps.count);
    let _ = writeln!(text, "# TYPE raddle_quantum_gap_seconds gauge");
    let _ = writeln!(text, "raddle_quantum_gap_seconds{{quantile=\"0.5\"}} {}", seconds(gaps.p50_ns));
    let _ = writeln!(text, "raddle_quantum_gap_seconds{{quantile=\"0.99\"}} {}", seconds(gaps.p99_ns));
    let _ = writeln!(text, "# HELP raddle_quantum_gap_longest_seconds and the function whose check ended it");
    let _ = writeln!(text, "# TYPE raddle_quantum_gap_longest_seconds gauge");
    let _ = writeln!(text, "raddle_quantum_gap_longest_seconds{{function=\"{function}\"}} {}", seconds(gaps.max_ns));
    text
}

/// The name of the function at an address, which is looked up once for each that is asked for in turn.
fn named(address: usize) -> String {
    static LAST: Mutex<(usize, String)> = Mutex::new((0, String::new()));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.1.is_empty() || last.0 != address {
        *last = (address, function_at(address));
    }
    last.1.clone()
}

fn bucket(value: u64) -> usize {
    let value = value.max(4);
    let power = value.ilog2();
    let quarter = (value >> (power - 2)) & 3;
    ((power as usize - 2) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// What is larger than all in that bucket.
fn limit(bucket: usize) -> u64 {
    let (power, quarter) = (bucket / 4, bucket as u64 % 4);
    (quarter + 5) << power
}

/// The return address behind the check that called, in the program's function: behind this library's frames, and behind
/// the cold function that each instrumented object has. 0 if it cannot be found.
fn place_of_check() -> usize {
    let mut found = [0usize; 2];
    crate::os::frames::walk(|at| {
        if crate::process::rights::is_of_this_library(at) {
            return ControlFlow::Continue(());
        }
        found = [found[1], at];
        if found[0] == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found[1]
}

/// The name of the function at an address, by its file's symbols; else the file and the place in it.
fn function_at(address: usize) -> String {
    // SAFETY: zeroes are a description, which is written to; any address may be asked for.
    let found = unsafe {
        let mut found: c::Dl_info = std::mem::zeroed();
        (address != 0 && c::dladdr(std::ptr::with_exposed_provenance(address), &mut found) != 0).then_some(found)
    };
    let Some(found) = found.filter(|found| !found.dli_fname.is_null()) else { return "unknown".into() };
    // SAFETY: a C string that lives as long as the object.
    let file = unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy().into_owned();
    let base = found.dli_fbase.addr();
    // The program itself may be named as it was started.
    let bytes = std::fs::read(&file).or_else(|_| std::fs::read("/proc/self/exe")).unwrap_or_default();
    let name = symbol(&bytes, address - base).or_else(|| symbol(&bytes, address));
    let place = || format!("{}+{:#x}", file.rsplit('/').next().unwrap_or(&file), address - base);
    name.map_or_else(place, |name| as_written(&name))
}

/// A name of the linker's as it stands in the source: Rust's here, C++'s by the program's own library.
fn as_written(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    let in_cpp = name.starts_with("_Z").then(|| crate::os::demangle_cpp(name)).flatten();
    in_cpp.unwrap_or_else(|| name.into())
}

/// The function at an address, by the symbols of an ELF file of 64 bits.
fn symbol(file: &[u8], address: usize) -> Option<String> {
    let word = |at: usize, length: usize| -> Option<usize> {
        let bytes = file.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
    };
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let inside = |place: usize| (place < file.len()).then_some(place);
    let (sections, count) = (inside(word(40, 8)?)?, word(60, 2)?);
    for index in 0..count {
        const SYMBOLS: usize = 2;
        let at = sections + index * 64;
        if word(at + 4, 4)? != SYMBOLS {
            continue;
        }
        let (offset, size, names) = (inside(word(at + 24, 8)?)?, word(at + 32, 8)?, word(at + 40, 4)?);
        let names = inside(word(sections + names * 64 + 24, 8)?)?;
        for place in (offset..offset.checked_add(size)?).step_by(24) {
            const FUNCTION: usize = 2;
            let (start, length) = (word(place + 8, 8)?, word(place + 16, 8)?);
            // A return address may lie behind the last instruction.
            if word(place + 4, 1)? & 15 == FUNCTION && start < address && address <= start.saturating_add(length) {
                let from = file.get(names + word(place, 4)?..)?;
                let end = from.iter().position(|&byte| byte == 0)?;
                return Some(String::from_utf8_lossy(&from[..end]).into_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_a_quarter_below_its_limit() {
        for value in (0..300u64).chain((8..39).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + (1 << (p - 1)) + 7])) {
            let limit = limit(bucket(value));
            assert!(value < limit && limit <= value.max(4) + value.max(4) / 4 + 1, "{value}: {limit}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn names_are_told_as_they_are_written() {
        assert_eq!(as_written("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(as_written("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(as_written("slow"), "slow");
        // No program in C++: nothing here knows.
        assert_eq!(as_written("_ZNot"), "_ZNot");
    }

    #[test]
    fn what_is_no_file_of_symbols_has_none() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(symbol(&file[..200], 1), None);
        assert_eq!(symbol(b"", 1), None);
        assert_eq!(symbol(&[0xff; 4096], 1), None);
        let mut broken = file[..4096.min(file.len())].to_vec();
        broken[40..48].fill(0xff);
        assert_eq!(symbol(&broken, 1), None);
    }
}
