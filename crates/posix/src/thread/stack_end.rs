//! Where the process's stack ends for those who ask the loader: `__libc_stack_end`.
//!
//! R takes its stack's beginning from there and refuses to run where it is too far away; collectors look at all that
//! lies below. With `main` on a lightweight thread the word leads to that one's stack.
//!
//! The loader itself makes the page there executable when a library that is loaded late asks for executable stacks (up
//! to glibc 2.40; later ones refuse it always). The kernel does that for the process's own stack only, so the loader
//! refuses the library.

use crate::os::{c, system_call};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The place is the end of the process's stack from now on.
pub(super) fn set(place: *const c_void) {
    // The program's copy, where it has one. SAFETY: a C string.
    let word = unsafe { c::dlsym(c::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()) };
    if word.is_null() {
        return;
    }
    // SAFETY: asks for a constant.
    let page_bytes = unsafe { c::sysconf(c::_SC_PAGESIZE) } as usize;
    let page = word.addr() & !(page_bytes - 1);
    let protect = |access: c_int| {
        // SAFETY: a page of the loader's data: readable and writable, or readable as the loader has left it.
        unsafe { system_call(c::SYS_mprotect, [page, page_bytes, access as usize, 0, 0, 0]) }
    };
    let is_protected = is_relocated_only(word.addr());
    if is_protected && protect(c::PROT_READ | c::PROT_WRITE) != 0 {
        return;
    }
    // SAFETY: a word of the loader's, which is writable; no other thread of the program's runs yet.
    unsafe { AtomicUsize::from_ptr(word.cast()) }.store(place.expose_provenance(), Ordering::Relaxed);
    if is_protected {
        protect(c::PROT_READ);
    }
}

/// Whether an address lies in what the loader makes read-only once it is relocated.
fn is_relocated_only(address: usize) -> bool {
    struct Look {
        address: usize,
        found: bool,
    }

    unsafe extern "C" fn visit(info: *mut c::dl_phdr_info, _: usize, look: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and the caller's structure.
        unsafe {
            let (info, look) = (&*info, &mut *look.cast::<Look>());
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
            let relocated = headers.iter().filter(|header| header.p_type == c::PT_GNU_RELRO);
            look.found |=
                relocated.map(|header| (info.dlpi_addr + header.p_vaddr, header.p_memsz)).any(|(low, bytes)| {
                    let low = low as usize;
                    (low..low + bytes as usize).contains(&look.address)
                });
        }
        0
    }

    let mut look = Look { address, found: false };
    // SAFETY: the callback has the type that is asked for, does not unwind, and gets its own data.
    unsafe { c::dl_iterate_phdr(Some(visit), (&raw mut look).cast()) };
    look.found
}
