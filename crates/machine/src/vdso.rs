//! The time, from the code that the kernel lends each process.
//!
//! The C library's function is not asked: another library may have taken its place, and tell the program another time,
//! or how fast it is to pass.
//!
//! The code is found as a loader finds a symbol, by the headers of the image in memory: symbols, their names, and a
//! table of hashes that says how many there are.

use crate::raw::system_call;
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

type ClockGettime = unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int;

/// As the kernel names it.
const NAME: &CStr = if cfg!(target_arch = "x86_64") { c"__vdso_clock_gettime" } else { c"__kernel_clock_gettime" };

/// The function's address; before it was looked for [`UNKNOWN`], and [`NONE`] if there is none.
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
const NONE: usize = 1;

/// Nanoseconds of a clock; `None` for an unknown one.
#[inline]
pub fn nanoseconds(clock: c_int) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Ordering: Relaxed: the word is all there is, and the code is the kernel's.
    let mut function = FUNCTION.load(Ordering::Relaxed);
    if function == UNKNOWN {
        function = look_up();
    }
    // SAFETY: a place for the time; the address of the kernel's function of this type.
    let known = unsafe {
        if function == NONE {
            let place = (&raw mut time).expose_provenance();
            system_call(libc::SYS_clock_gettime as usize, [clock as usize, place, 0, 0, 0, 0]) == 0
        } else {
            core::mem::transmute::<usize, ClockGettime>(function)(clock, &mut time) == 0
        }
    };
    known.then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

#[cold]
#[inline(never)]
fn look_up() -> usize {
    // SAFETY: a number of the auxiliary vector; the image stays as long as the process, unless it unmaps it.
    let found = unsafe {
        match libc::getauxval(libc::AT_SYSINFO_EHDR) as usize {
            0 => NONE,
            image => find(image, NAME).unwrap_or(NONE),
        }
    };
    FUNCTION.store(found, Ordering::Relaxed);
    found
}

/// The function of that name.
///
/// # Safety
/// An ELF image of 64 bits starts at `image`, and all of it is mapped.
unsafe fn find(image: usize, name: &CStr) -> Option<usize> {
    // SAFETY: the caller's promise: headers, tables and strings are where the headers say.
    unsafe {
        let at = core::ptr::with_exposed_provenance::<u8>;
        let header = &*at(image).cast::<libc::Elf64_Ehdr>();
        let programs = at(image + header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
        let programs = core::slice::from_raw_parts(programs, usize::from(header.e_phnum));
        let load = programs.iter().find(|program| program.p_type == libc::PT_LOAD)?;
        let base = image.wrapping_add(load.p_offset as usize).wrapping_sub(load.p_vaddr as usize);
        let dynamic = programs.iter().find(|program| program.p_type == libc::PT_DYNAMIC)?;
        let mut entry = at(base.wrapping_add(dynamic.p_vaddr as usize)).cast::<[usize; 2]>();
        let (mut strings, mut symbols, mut count) = (0, 0, 0);
        while (*entry)[0] != DT_NULL {
            let [tag, value] = *entry;
            let address = base.wrapping_add(value);
            match tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                // The number of entries of its second table is that of symbols.
                DT_HASH => count = *at(address).cast::<[u32; 2]>().cast::<u32>().add(1) as usize,
                DT_GNU_HASH if count == 0 => count = count_by_chains(at(address).cast()),
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings == 0 || symbols == 0 {
            return None;
        }
        let symbols = core::slice::from_raw_parts(at(symbols).cast::<libc::Elf64_Sym>(), count);
        let named = |symbol: &&libc::Elf64_Sym| {
            symbol.st_shndx != 0 && CStr::from_ptr(at(strings + symbol.st_name as usize).cast()) == name
        };
        symbols.iter().find(named).map(|symbol| base.wrapping_add(symbol.st_value as usize))
    }
}

const DT_NULL: usize = 0;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;

/// How many symbols there are by a table of GNU's form: the end of the chain that begins last.
///
/// # Safety
/// Such a table.
unsafe fn count_by_chains(table: *const u32) -> usize {
    // SAFETY: the caller's promise: four words, then so many words of the filter, buckets and chains as they say.
    unsafe {
        let [buckets, first, filter] = [0, 1, 2].map(|word| *table.add(word) as usize);
        let bucket = table.add(4 + 2 * filter);
        let last = (0..buckets).map(|index| *bucket.add(index) as usize).max().unwrap_or(0);
        if last < first {
            return first;
        }
        let chain = bucket.add(buckets);
        // A chain ends with an odd number.
        let mut symbol = last;
        while *chain.add(symbol - first) & 1 == 0 {
            symbol += 1;
        }
        symbol + 1
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_time_that_the_kernel_says() {
        let ask = || {
            let mut time = [0u64; 2];
            let clock = libc::CLOCK_MONOTONIC as usize;
            // SAFETY: a place for the time.
            unsafe { system_call(libc::SYS_clock_gettime as usize, [clock, (&raw mut time).addr(), 0, 0, 0, 0]) };
            time[0] * 1_000_000_000 + time[1]
        };
        for _ in 0..1000 {
            let (before, here, after) = (ask(), nanoseconds(libc::CLOCK_MONOTONIC).unwrap(), ask());
            assert!(before <= here && here <= after, "{before} {here} {after}");
        }
        assert_eq!(nanoseconds(1000), None);
    }

    #[test]
    fn a_name_that_is_not_there_is_not_found() {
        // SAFETY: the image that the kernel lends, or none.
        unsafe {
            let image = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
            if image != 0 {
                assert_eq!(find(image, c"__vdso_clock_gettim"), None);
                assert!(find(image, NAME).is_some());
            }
        }
    }
}
