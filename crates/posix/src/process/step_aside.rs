//! A program of a sanitizer into which this library has come by the environment: it begins anew without it.
//!
//! A sanitizer whose runtime is a library takes the functions that this one takes, and has to come first: that of
//! AddressSanitizer refuses to start behind another one, that of ThreadSanitizer does not see the locks that are taken
//! here. `raddle run` looks at the program, and starts such a one as it is; but it may be what a taken-over program
//! becomes, its child (`--children`), or started with `LD_PRELOAD` by hand. So the process
//! replaces itself by the same program, with the same arguments, and this library out of `LD_PRELOAD`. That happens
//! before anything of the program's has run: in this library's constructor, or in the first call that the sanitizer's
//! own constructor makes, which may come before it. Nothing is allocated: the sanitizer's allocator is not ready.
//!
//! Not where the runtime is in the program itself: then it comes first, and the threads become kernel threads.

use crate::os::{c, system_call};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// This library's constructor has run.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// In the constructor.
pub(crate) fn at_begin() {
    if !BEGUN.swap(true, Ordering::Relaxed) {
        step_aside();
    }
}

/// In what a sanitizer's constructor calls.
#[inline]
pub(super) fn before_begin() {
    if !BEGUN.load(Ordering::Relaxed) {
        step_aside();
    }
}

/// Does not return where the program has begun anew.
#[cold]
fn step_aside() {
    let sanitizer = crate::os::sanitizer_in_library();
    crate::os::forget_what_was_missing();
    let Some(sanitizer) = sanitizer else { return };
    let Some(own) = object_of(step_aside as *const c_void) else { return };
    // The C library may not know its environment yet.
    let Some(mut given) = Pages::new() else { return };
    let Some(length) = read(c"/proc/self/environ", given.bytes()) else { return };
    let Some(mut pages) = Pages::new() else { return };
    let mut environment = List::new(&mut pages);
    let (mut is_in, mut quiet) = (false, false);
    for string in given.bytes()[..length].split_inclusive(|&byte| byte == 0) {
        let bytes = string.strip_suffix(b"\0").unwrap_or(string);
        if let Some(list) = bytes.strip_prefix(b"LD_PRELOAD=") {
            let others = || list.split(|byte| b": ".contains(byte)).filter(|path| !path.is_empty());
            let rest = || others().filter(|path| !is_own(path, own));
            is_in = rest().count() < others().count();
            if rest().next().is_some() {
                environment.begin();
                environment.add(b"LD_PRELOAD=");
                rest().enumerate().for_each(|(index, path)| {
                    environment.add(if index == 0 { b"" } else { b":" });
                    environment.add(path);
                });
                environment.add(b"\0");
            }
        } else {
            quiet |= bytes == b"RADDLE_QUIET=1";
            environment.begin();
            environment.add(string);
        }
    }
    // Where it came in otherwise it would come in again.
    if !is_in || environment.is_full() {
        return;
    }
    let environment = environment.end();
    let Some(mut text) = Pages::new() else { return };
    let Some(length) = read(c"/proc/self/cmdline", text.bytes()) else { return };
    let Some(mut pages) = Pages::new() else { return };
    let mut arguments = List::new(&mut pages);
    for argument in text.bytes()[..length].split_inclusive(|&byte| byte == 0) {
        arguments.begin();
        arguments.add(argument);
    }
    let Some(mut path) = Pages::new() else { return };
    if arguments.is_full() || !link(c"/proc/self/exe", path.bytes()) {
        return;
    }
    if !quiet {
        crate::os::say(c"raddle: note: this program is built with ");
        crate::os::say(sanitizer);
        crate::os::say(c": it runs as it is, on kernel threads\n");
    }
    let path = path.bytes().as_ptr().addr();
    // SAFETY: strings and lists of strings that stay. It returns where the kernel refuses; the program goes on then.
    unsafe { system_call(c::SYS_execve, [path, arguments.end().addr(), environment.addr(), 0, 0, 0]) };
}

/// The name of the library that an address lies in.
fn object_of<'a>(address: *const c_void) -> Option<&'a CStr> {
    // SAFETY: zeroes are a valid Dl_info; the name lives as long as the library.
    unsafe {
        let mut found: c::Dl_info = std::mem::zeroed();
        let is_known = c::dladdr(address, &mut found) != 0 && !found.dli_fname.is_null();
        is_known.then(|| CStr::from_ptr(found.dli_fname))
    }
}

/// A name without a folder was looked for by the loader.
fn is_own(path: &[u8], own: &CStr) -> bool {
    let own = own.to_bytes();
    own == path || !path.contains(&b'/') && own.rsplit(|&byte| byte == b'/').next() == Some(path)
}

/// The file's bytes, if they fit: how many.
fn read(name: &CStr, room: &mut [u8]) -> Option<usize> {
    // SAFETY: a C string, and room of that size.
    unsafe {
        let flags = (c::O_RDONLY | c::O_CLOEXEC) as usize;
        let file = system_call(c::SYS_openat, [c::AT_FDCWD as usize, name.as_ptr().addr(), flags, 0, 0, 0]);
        if file < 0 {
            return None;
        }
        let mut length = 0;
        let ends = loop {
            let place = room.as_mut_ptr().addr() + length;
            match system_call(c::SYS_read, [file as usize, place, room.len() - length, 0, 0, 0]) {
                0 => break length < room.len(),
                more if more > 0 => length += more as usize,
                _ => break false,
            }
        };
        system_call(c::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        ends.then_some(length)
    }
}

/// What the link names, with a null byte behind it.
fn link(name: &CStr, room: &mut [u8]) -> bool {
    let (place, size) = (room.as_mut_ptr().addr(), room.len());
    // SAFETY: a C string, and room of that size.
    let length =
        unsafe { system_call(c::SYS_readlinkat, [c::AT_FDCWD as usize, name.as_ptr().addr(), place, size, 0, 0]) };
    (1..size as isize).contains(&length)
}

/// Zeroes of our own.
struct Pages(*mut u8);

/// Room for a command line or an environment; with more than that the program goes on as it began.
const BYTES: usize = 4 << 20;

impl Pages {
    fn new() -> Option<Pages> {
        let (protection, flags) = (c::PROT_READ | c::PROT_WRITE, c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE);
        // SAFETY: new pages, or an error. They stay.
        let pages = unsafe { system_call(c::SYS_mmap, [0, BYTES, protection as usize, flags as usize, usize::MAX, 0]) };
        (!(-4095..0).contains(&pages)).then(|| Pages(std::ptr::with_exposed_provenance_mut(pages as usize)))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes of our own.
        unsafe { std::slice::from_raw_parts_mut(self.0, BYTES) }
    }
}

/// A list of strings as `execve` takes it: pointers in the first quarter, text behind.
struct List {
    pointers: *mut *const c_char,
    text: *mut u8,
    count: usize,
    used: usize,
}

impl List {
    const POINTERS: usize = BYTES / 4 / size_of::<*const c_char>();
    const TEXT: usize = BYTES / 4 * 3;

    fn new(pages: &mut Pages) -> List {
        List { pointers: pages.0.cast(), text: pages.0.wrapping_add(BYTES / 4), count: 0, used: 0 }
    }

    /// Another string.
    fn begin(&mut self) {
        if self.count < Self::POINTERS {
            // SAFETY: within the first quarter.
            unsafe { *self.pointers.add(self.count) = self.text.wrapping_add(self.used).cast() };
        }
        self.count += 1;
    }

    /// A part of it, the last one with its null byte.
    fn add(&mut self, part: &[u8]) {
        if self.used + part.len() <= Self::TEXT {
            // SAFETY: within the text's room.
            unsafe { self.text.add(self.used).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        self.used += part.len();
    }

    /// Something had no room.
    fn is_full(&self) -> bool {
        self.count >= Self::POINTERS || self.used > Self::TEXT
    }

    /// The list; null pointers follow.
    fn end(&self) -> *mut *const c_char {
        self.pointers
    }
}
