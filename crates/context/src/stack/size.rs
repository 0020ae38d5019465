//! Stack sizes as people ask for them, and the address space for slots.

use core::ffi::{c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Why a stack cannot be had, in one line that names cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackError {
    reason: String,
}

impl StackError {
    pub(super) fn new(reason: impl Into<String>) -> StackError {
        StackError { reason: reason.into() }
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for StackError {}

impl From<StackError> for std::io::Error {
    fn from(error: StackError) -> Self {
        std::io::Error::new(std::io::ErrorKind::OutOfMemory, error)
    }
}

/// A checked stack size.
///
/// ```
/// use raddle_context::stack::StackSize;
/// assert_eq!("100K".parse::<StackSize>().unwrap().slot_size(), 128 << 10);
/// assert!(StackSize::new(0).unwrap_err().to_string().contains("16 KiB"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackSize(usize);

impl StackSize {
    /// The least size of a slot.
    pub const MIN: StackSize = StackSize(16 << 10);
    /// The largest.
    pub const MAX: StackSize = StackSize(1 << 30);
    /// What [`StackSize::default`] gives; `raddle` itself asks for more.
    pub const DEFAULT: StackSize = StackSize(64 << 10);

    /// Checks a size in bytes: what a thread asks for, guard and thread-local storage included.
    ///
    /// # Errors
    /// Zero, less than [`StackSize::MIN`], or more than [`StackSize::MAX`].
    pub fn new(bytes: usize) -> Result<StackSize, StackError> {
        if bytes < Self::MIN.0 {
            Err(StackError::new(format!("a stack of {bytes} bytes is too small; ask for 16 KiB or more")))
        } else if bytes > Self::MAX.0 {
            Err(StackError::new(format!("a stack of {bytes} bytes is too large; ask for 1 GiB or less")))
        } else {
            Ok(StackSize(bytes))
        }
    }

    /// The bytes asked for.
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// The slot that serves it: the next power of two.
    pub fn slot_size(self) -> usize {
        self.0.next_power_of_two()
    }
}

impl Default for StackSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl core::str::FromStr for StackSize {
    type Err = StackError;

    /// A number of bytes, or one with K, M or G (and `iB` or `B` behind it, if you like).
    fn from_str(text: &str) -> Result<StackSize, StackError> {
        let wrong =
            || StackError::new(format!("`{text}` is not a stack size; write bytes, or for example 64K, 1M, 1G"));
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1usize,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(wrong()),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        // Digits only: what does not parse is too large.
        StackSize::new(digits.parse::<usize>().unwrap_or(usize::MAX).saturating_mul(unit))
    }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: asks for a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// What may be done with stacks.
fn protection() -> c_int {
    libc::PROT_READ | libc::PROT_WRITE | if executable_stacks_wanted() { libc::PROT_EXEC } else { 0 }
}

/// Address space for an arena: touched pages only cost memory. A core dump holds none of it until [`dump`] says so.
pub fn map_arena(slot: usize, slots: usize) -> Result<*mut u8, StackError> {
    let bytes = slot.checked_mul(slots).filter(|&bytes| bytes <= 1 << 46);
    let too_much = |why: &str| {
        StackError::new(format!(
            "no address space for {slots} stack slots of {slot} bytes ({why}); ask for fewer or smaller stacks, or raise the limit \
             (ulimit -v, vm.overcommit_memory)"
        ))
    };
    let bytes = bytes.ok_or_else(|| too_much("more than a process can have"))?;
    let memory = map(core::ptr::null_mut(), bytes, protection(), 0).map_err(|why| too_much(&why.to_string()))?;
    // SAFETY: our own mapping. A huge page would commit what one touched page needs not; refusal does no harm.
    unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_NOHUGEPAGE) };
    leave_out_of_dumps(memory, bytes);
    Ok(memory)
}

/// A zeroed table that costs memory as it is touched.
pub fn map_table(bytes: usize) -> Result<*mut u8, StackError> {
    let table = map(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, 0);
    let table =
        table.map_err(|why| StackError::new(format!("no address space for a table of {bytes} bytes ({why})")))?;
    leave_out_of_dumps(table, bytes);
    Ok(table)
}

/// Where slots may lie that are mapped one by one: an address that nothing is mapped near, for `bytes` bytes. The
/// kernel maps from both ends of the address space towards the middle.
pub fn far_away(bytes: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);
    // Ordering: Relaxed, a counter only. A gap between two.
    NEXT.fetch_add(bytes.next_multiple_of(1 << 30) + (1 << 30), Ordering::Relaxed)
}

/// Maps one slot at its place, where a limit on address space does not let all of them be mapped at once.
pub fn map_slot(place: usize, bytes: usize) -> Result<(), StackError> {
    let no_room = |why: &dyn fmt::Display| {
        StackError::new(format!(
            "no address space for another stack slot of {bytes} bytes ({why}); ask for smaller stacks, let threads end, or raise the limit \
             (ulimit -v, ulimit -d, vm.overcommit_memory)"
        ))
    };
    // First: whoever tries again and again where there is none has one call that fails.
    has_room_for(bytes).map_err(|why| no_room(&why))?;
    let wish = core::ptr::with_exposed_provenance_mut(place);
    let memory = map(wish, bytes, protection(), libc::MAP_FIXED_NOREPLACE).map_err(|why| no_room(&why))?;
    if memory != wish.cast() {
        // A kernel before 4.17 takes the place for a wish.
        // SAFETY: mapped just now, and nobody's.
        unsafe { libc::munmap(memory.cast(), bytes) };
        return Err(no_room(&"its place is taken"));
    }
    // SAFETY: as in `map_arena`.
    unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_NOHUGEPAGE) };
    Ok(())
}

/// Gives back pages that [`map_arena`], [`map_table`] or [`map_slot`] has mapped.
///
/// # Safety
/// Nobody has them.
pub unsafe fn unmap(start: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: our own pages, which nobody has. Refused (by the limit of mappings), they stay, and are lost.
        unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(start), bytes) };
    }
}

/// Slots are seldom unmapped, and the runtime ends the process where it gets no memory: so the last of a limited
/// address space is left to whoever allocates. Whether that much is there beside a slot of that size.
fn has_room_for(slot: usize) -> std::io::Result<()> {
    /// A part of the limit: at least what an allocator may map at once (a huge page), at most what the C library's maps
    /// for one of its arenas.
    const LIMIT_PART: usize = 32;
    const BOUNDS_BYTES: (usize, usize) = (2 << 20, 64 << 20);
    // All of it would be taken.
    if are_to_be_locked() {
        return Ok(());
    }
    let bytes = slot + (address_space() / LIMIT_PART).clamp(BOUNDS_BYTES.0, BOUNDS_BYTES.1);
    let room = map(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
    // SAFETY: mapped just now, and nobody's.
    unsafe { libc::munmap(room.cast(), bytes) };
    Ok(())
}

/// Bytes of address space that the process may have; `usize::MAX` without a limit.
pub fn address_space() -> usize {
    let limit = |resource| {
        // SAFETY: zeroes are a valid limit, which is written to.
        unsafe {
            let mut limit: libc::rlimit = core::mem::zeroed();
            if libc::getrlimit(resource, &mut limit) == 0 { limit.rlim_cur as usize } else { usize::MAX }
        }
    };
    // RLIM_INFINITY is the largest number.
    limit(libc::RLIMIT_AS).min(limit(libc::RLIMIT_DATA))
}

/// Whether the program, or a library that is loaded now, asks for executable stacks: code on them that calls nested
/// functions of GCC's.
pub fn executable_stacks_wanted() -> bool {
    unsafe extern "C" fn wants(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a library, whose headers stay while it is loaded; the caller's answer.
        unsafe {
            let headers = core::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            let stack = headers.iter().find(|header| header.p_type == libc::PT_GNU_STACK);
            // What says nothing is older than the question, but for what the kernel provides.
            let kernels = (*info).dlpi_addr == libc::getauxval(libc::AT_SYSINFO_EHDR);
            let old = cfg!(target_arch = "x86_64") && !kernels && (*info).dlpi_phnum > 0;
            let executable = stack.map_or(old, |header| header.p_flags & libc::PF_X != 0);
            *found.cast::<bool>() |= executable;
            c_int::from(executable)
        }
    }
    let mut found = false;
    // SAFETY: the function takes a place for a bool.
    unsafe { libc::dl_iterate_phdr(Some(wants), (&raw mut found).cast()) };
    found
}

/// Allows code on pages of a stack. False if the system refuses.
pub fn allow_execution(start: usize, bytes: usize) -> bool {
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: a slot's own memory, which may be read and written before and after.
    unsafe { libc::mprotect(core::ptr::with_exposed_provenance_mut(start), bytes, all) == 0 }
}

/// Pages that a core dump, and a debugger that makes one, need not look at: there are billions.
fn leave_out_of_dumps(memory: *mut u8, bytes: usize) {
    // SAFETY: advice on our own mapping; refusal does no harm.
    unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_DONTDUMP) };
}

/// A core dump holds these pages from now on.
pub fn dump(start: usize, bytes: usize) {
    // SAFETY: advice on our own mapping; refusal does no harm.
    unsafe { libc::madvise(core::ptr::with_exposed_provenance_mut(start), bytes, libc::MADV_DODUMP) };
}

/// Whether [`advise`] may make a call that filters of system calls seldom know.
static TOGETHER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const UNFILTERED: u8 = 1;
const FILTERED: u8 = 2;

/// The process has no filter of system calls, which might kill for a call that it does not know: many slots may be
/// made and emptied by one such call, unless [`has_filters`] was called.
pub fn has_no_filters() {
    // Relaxed: the word carries no data.
    let _ = TOGETHER.compare_exchange(UNKNOWN, UNFILTERED, Ordering::Relaxed, Ordering::Relaxed);
}

/// The process has a filter of system calls, or is about to get one.
pub fn has_filters() {
    // Relaxed: the word carries no data.
    TOGETHER.store(FILTERED, Ordering::Relaxed);
}

/// Advises the kernel of many ranges, in one call where it takes that from a process about itself (seen on Linux
/// 6.18) and no filter may kill for it: where pages go, each call interrupts all cores that run the process. Each range
/// is tried; the first refusal is the answer.
///
/// # Safety
/// As for `madvise` of each.
pub unsafe fn advise(ranges: &[libc::iovec], advice: c_int) -> std::io::Result<()> {
    /// `PIDFD_SELF_THREAD_GROUP`, which the `libc` crate lacks.
    const THIS_PROCESS: isize = -10_001;
    let bytes: usize = ranges.iter().map(|range| range.iov_len).sum();
    let arguments = [
        THIS_PROCESS.cast_unsigned(),
        ranges.as_ptr().expose_provenance(),
        ranges.len(),
        advice.cast_unsigned() as usize,
        0,
        0,
    ];
    // Relaxed: the word carries no data.
    if ranges.len() > 1 && TOGETHER.load(Ordering::Relaxed) == UNFILTERED {
        // SAFETY: the kernel reads the ranges, and the caller vouches for what it does there.
        let done = unsafe { raddle_machine::raw::system_call(libc::SYS_process_madvise as usize, arguments) };
        if done == bytes.cast_signed() {
            return Ok(());
        }
    }
    let mut result = Ok(());
    for range in ranges {
        // SAFETY: the caller's conditions.
        if unsafe { libc::madvise(range.iov_base, range.iov_len, advice) } != 0 && result.is_ok() {
            result = Err(std::io::Error::last_os_error());
        }
    }
    result
}

/// Takes the memory of many ranges away: they are zeroes from then on, also where it is locked.
///
/// # Safety
/// The caller's own, and nobody uses it.
pub unsafe fn empty(ranges: &[libc::iovec]) {
    /// Linux 5.18, not in the `libc` crate yet.
    const MADV_DONTNEED_LOCKED: c_int = 24;
    // SAFETY: the caller's own memory, which nobody uses.
    if unsafe { advise(ranges, libc::MADV_DONTNEED) }.is_ok() {
        return;
    }
    for range in ranges {
        // SAFETY: the caller's own memory, which nobody uses, and which may be written to.
        unsafe {
            if libc::madvise(range.iov_base, range.iov_len, MADV_DONTNEED_LOCKED) != 0 {
                range.iov_base.cast::<u8>().write_bytes(0, range.iov_len);
            }
        }
    }
}

/// Mappings to come are locked in memory, so that all their pages are had at once.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// The program has mappings to come locked (`mlockall`), or no more.
pub fn lock(locked: bool) {
    // Relaxed: the word carries no data.
    LOCKED.store(locked, Ordering::Relaxed);
}

/// Whether [`lock`] says so.
pub fn are_to_be_locked() -> bool {
    // Relaxed: the word carries no data.
    LOCKED.load(Ordering::Relaxed)
}

fn map(wish: *mut c_void, bytes: usize, protection: c_int, flags: c_int) -> std::io::Result<*mut u8> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping, in nobody else's place.
    let memory = unsafe { libc::mmap(wish, bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(memory.cast()) }
}
