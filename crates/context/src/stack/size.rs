//! Stack sizes as people ask for them, and the address space for slots.

use core::fmt;

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

/// Address space for an arena: touched pages only cost memory.
pub fn map_arena(slot: usize, slots: usize) -> Result<*mut u8, StackError> {
    let bytes = slot.checked_mul(slots).filter(|&bytes| bytes <= 1 << 46);
    let too_much = |why: &str| {
        StackError::new(format!(
            "no address space for {slots} stack slots of {slot} bytes ({why}); ask for fewer or smaller stacks, or raise the limit \
             (ulimit -v, vm.overcommit_memory)"
        ))
    };
    let bytes = bytes.ok_or_else(|| too_much("more than a process can have"))?;
    let memory = reserve(bytes).map_err(|why| too_much(&why.to_string()))?;
    // SAFETY: our own mapping. A huge page would commit what one touched page needs not; refusal does no harm.
    unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_NOHUGEPAGE) };
    Ok(memory)
}

/// A zeroed table that costs memory as it is touched.
pub fn map_table(bytes: usize) -> Result<*mut u8, StackError> {
    reserve(bytes).map_err(|why| StackError::new(format!("no address space for a table of {bytes} bytes ({why})")))
}

fn reserve(bytes: usize) -> std::io::Result<*mut u8> {
    // SAFETY: a new private mapping.
    let memory = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(memory.cast()) }
}
