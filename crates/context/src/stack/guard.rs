//! Guard pages: lightweight ones (Linux 6.13 and later), which split no mapping and may be millions, or `mprotect`,
//! which takes two mappings of the process's limit for each.

use super::StackError;
use core::sync::atomic::{AtomicI64, AtomicU8, Ordering};

/// Not in the `libc` crate yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// Makes this module behave as on a kernel without lightweight guards, for tests.
const FORCE_MPROTECT: &str = "RADDLE_TEST_MPROTECT_GUARDS";

/// How guards are made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardMethod {
    /// `madvise(MADV_GUARD_INSTALL)`.
    Lightweight,
    /// `mprotect(PROT_NONE)`.
    Mprotect,
}

/// 0: not probed yet; else 1 plus the method.
static METHOD: AtomicU8 = AtomicU8::new(0);
/// Guards that `mprotect` may still make before the process runs out of mappings.
static BUDGET: AtomicI64 = AtomicI64::new(0);

/// How guards are made here, probed once.
pub fn guard_method() -> GuardMethod {
    // Ordering[guard]: Acquire. Pairs with the Release below. Makes visible: the budget.
    match METHOD.load(Ordering::Acquire) {
        0 => {
            let method = probe();
            if method == GuardMethod::Mprotect {
                // Racing probes write the same number, before anyone spends of it.
                BUDGET.store(mapping_budget(), Ordering::Relaxed);
            }
            // Ordering[guard]: Release. Pairs with the Acquire above. Makes visible: the budget.
            METHOD.store(1 + method as u8, Ordering::Release);
            method
        }
        1 => GuardMethod::Lightweight,
        _ => GuardMethod::Mprotect,
    }
}

fn probe() -> GuardMethod {
    if std::env::var_os(FORCE_MPROTECT).is_some() {
        return GuardMethod::Mprotect;
    }
    let page = super::size::page_size();
    // SAFETY: a fresh mapping of our own.
    unsafe {
        let memory = libc::mmap(
            core::ptr::null_mut(),
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return GuardMethod::Mprotect;
        }
        let works = libc::madvise(memory, page, MADV_GUARD_INSTALL) == 0 && is_out_of_reach(memory.cast());
        libc::munmap(memory, page);
        if works { GuardMethod::Lightweight } else { GuardMethod::Mprotect }
    }
}

/// Whether the kernel finds a page inaccessible: emulators accept advice that they do not follow.
fn is_out_of_reach(page: *const u8) -> bool {
    let mut ends = [0; 2];
    // SAFETY: a pipe of our own; the kernel checks the address that it reads one byte from.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return false;
        }
        let refused = libc::write(ends[1], page.cast(), 1) == -1;
        libc::close(ends[0]);
        libc::close(ends[1]);
        refused
    }
}

/// Each guard splits one mapping in two more; a reserve is left to the rest of the program.
fn mapping_budget() -> i64 {
    let limit =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse::<i64>().ok());
    let used = std::fs::read_to_string("/proc/self/maps").map_or(1000, |maps| maps.lines().count() as i64);
    ((limit.unwrap_or(65530) - used - 1000) / 2).max(0)
}

/// Whether guards count against the limit of mappings.
pub fn are_scarce() -> bool {
    guard_method() == GuardMethod::Mprotect
}

/// Takes one guard off the budget.
pub fn spend_one() -> Result<(), StackError> {
    // Ordering: Relaxed, a counter only.
    if BUDGET.fetch_sub(1, Ordering::Relaxed) > 0 {
        return Ok(());
    }
    // Ordering: Relaxed, a counter only.
    BUDGET.fetch_add(1, Ordering::Relaxed);
    Err(StackError::new(
        "no guard page is left for another stack: this kernel has no lightweight guards (Linux 6.13), and guards made by mprotect \
         are limited by vm.max_map_count; raise it with `sysctl vm.max_map_count=...` or run fewer threads at once",
    ))
}

/// Bytes of guard of a slot: code that does not probe its frames jumps further in large stacks.
pub fn length(slot_size: usize, page: usize) -> usize {
    if slot_size >= 1 << 20 { 4 * page } else { page }
}

/// Makes ranges inaccessible. They stay so.
///
/// # Safety
/// They are the lowest bytes of slots that the caller owns and nobody has used.
pub unsafe fn install(ranges: &[libc::iovec]) {
    let done = match guard_method() {
        // SAFETY: by the caller's promise nothing lies there.
        GuardMethod::Lightweight => match unsafe { super::size::advise(ranges, MADV_GUARD_INSTALL) } {
            // Not in locked memory. (Those that were made stay.)
            Err(why) if why.raw_os_error() == Some(libc::EINVAL) => protect(ranges),
            done => done,
        },
        GuardMethod::Mprotect => protect(ranges),
    };
    if let Err(why) = done {
        // A stack without a guard would corrupt its neighbour silently.
        let remedy = match why.raw_os_error() {
            Some(libc::ENOMEM) => "raise vm.max_map_count or run fewer threads at once",
            _ => "run fewer threads at once",
        };
        crate::tls::fatal(&format!("a stack's guard page cannot be made: {why}; {remedy}"));
    }
}

/// Makes ranges of the caller's, which nobody has used, inaccessible.
fn protect(ranges: &[libc::iovec]) -> std::io::Result<()> {
    ranges.iter().try_for_each(|range| {
        // SAFETY: the lowest bytes of a slot of the caller's, which nobody has used.
        let done = unsafe { libc::mprotect(range.iov_base, range.iov_len, libc::PROT_NONE) } == 0;
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    })
}
