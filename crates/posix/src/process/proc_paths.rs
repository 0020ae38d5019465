//! Names of files that name a thread by its number: `/proc/self/task/N`, `/proc/N`.
//!
//! The kernel knows the numbers of kernel threads. A thread that is named by the number that its `gettid` answered
//! before it was [dedicated] becomes so, and the name is translated; so does one that names itself
//! (`/proc/thread-self`). The directory itself (`/proc/self/task`) lists
//! kernel threads, and those of lightweight threads are the runtime's.
//!
//! [dedicated]: crate::thread::dedicated

use crate::os::reach;
use crate::thread::dedicated::{self, task_of};
use crate::thread::record::Record;
use raddle_macros::entry;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Bytes of the longest name that is translated, with a null byte.
const ROOM: usize = 256;
const FOLDER: &[u8] = b"/proc/";

/// The name, or its translation in `room`.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
unsafe fn translated(path: *const c_char, room: &mut [u8; ROOM]) -> *const c_char {
    // Before there are threads it names none of ours.
    if !(dedicated::has_runtime() && reach::reads(path)) {
        return path;
    }
    // SAFETY: as promised; no byte behind the first one that differs is read.
    let names_proc = FOLDER.iter().enumerate().all(|(at, &byte)| unsafe { path.add(at).read() } as u8 == byte);
    // SAFETY: a C string, since it begins as the folder's name; the room outlives the answer.
    if names_proc { unsafe { translate(path, room) } } else { path }
}

/// # Safety
/// `path` is a C string.
#[cold]
#[inline(never)]
unsafe fn translate(path: *const c_char, room: &mut [u8; ROOM]) -> *const c_char {
    // SAFETY: a C string of the caller's.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    let task = |part: &[u8]| {
        let number: u32 = std::str::from_utf8(part).ok()?.parse().ok()?;
        // The first thread's stands for the process.
        let target = Record::of_number(number).filter(|_| number != std::process::id())?;
        task_of(target.record()).ok()
    };
    let mut written = 0;
    let mut changed = false;
    // "", "proc", a process or thread, "task", a thread, and the rest.
    for (at, part) in name.split(|&byte| byte == b'/').enumerate() {
        let mut digits = [0u8; 10];
        if at == 2 && part == b"thread-self" {
            dedicated::known_alone();
        }
        let number = if at == 2 || at == 4 { task(part) } else { None };
        let part = match number {
            Some(number) => {
                changed = true;
                decimal(number, &mut digits)
            }
            None => part,
        };
        let separator = usize::from(at > 0);
        if written + separator + part.len() >= ROOM {
            return path;
        }
        room[written] = b'/';
        room[written + separator..written + separator + part.len()].copy_from_slice(part);
        written += separator + part.len();
    }
    room[written] = 0;
    if changed { room.as_ptr().cast() } else { path }
}

fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// Entry points whose first argument is a name, and those whose second one is.
macro_rules! of_names {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// Variadic in C, some of them: an argument that the caller did not pass is read and goes nowhere.
            #[entry]
            pub unsafe extern "C-unwind" fn $name(path: *const c_char, $($argument: $type),*) -> $result {
                let mut room = [0; ROOM];
                // SAFETY: the caller's arguments. The C library's function may unwind, where it is a cancellation
                // point.
                unsafe {
                    let path = translated(path, &mut room);
                    let found = next!($name: fn()) as *const ();
                    type Function = unsafe extern "C-unwind" fn(*const c_char, $($type),*) -> $result;
                    std::mem::transmute::<*const (), Function>(found)(path, $($argument),*)
                }
            }
        )*
    };
}

macro_rules! of_names_in_folders {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[entry]
            pub unsafe extern "C-unwind" fn $name(folder: c_int, path: *const c_char, $($argument: $type),*) -> $result {
                let mut room = [0; ROOM];
                // SAFETY: the program's arguments; the room outlives the call, which may unwind.
                unsafe {
                    let path = translated(path, &mut room);
                    let found = next!($name: fn()) as *const ();
                    type Function = unsafe extern "C-unwind" fn(c_int, *const c_char, $($type),*) -> $result;
                    std::mem::transmute::<*const (), Function>(found)(folder, path, $($argument),*)
                }
            }
        )*
    };
}

of_names! {
    open(flags: c_int, mode: c_uint) -> c_int;
    open64(flags: c_int, mode: c_uint) -> c_int;
    __open_2(flags: c_int) -> c_int;
    __open64_2(flags: c_int) -> c_int;
    fopen(mode: *const c_char) -> *mut c_void;
    fopen64(mode: *const c_char) -> *mut c_void;
    opendir() -> *mut c_void;
    readlink(buffer: *mut c_char, size: usize) -> isize;
    __readlink_chk(buffer: *mut c_char, size: usize, room_of_buffer: usize) -> isize;
    access(mode: c_int) -> c_int;
    stat(status: *mut c_void) -> c_int;
    stat64(status: *mut c_void) -> c_int;
}

of_names_in_folders! {
    openat(flags: c_int, mode: c_uint) -> c_int;
    openat64(flags: c_int, mode: c_uint) -> c_int;
    __openat_2(flags: c_int) -> c_int;
    __openat64_2(flags: c_int) -> c_int;
    readlinkat(buffer: *mut c_char, size: usize) -> isize;
    fstatat(status: *mut c_void, flags: c_int) -> c_int;
    fstatat64(status: *mut c_void, flags: c_int) -> c_int;
    statx(flags: c_int, mask: c_uint, status: *mut c_void) -> c_int;
}

aliases! {
    __open = open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    __open64 = open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    _IO_fopen = fopen(path: *const c_char, mode: *const c_char) -> *mut c_void;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_other_names_stay() {
        assert_eq!(decimal(0, &mut [0; 10]), b"0");
        assert_eq!(decimal(u32::MAX, &mut [0; 10]), b"4294967295");
        for name in [c"/proc/self/task/1/comm", c"/proc/1/stat", c"/pro", c"/etc/passwd", c""] {
            // SAFETY: a C string.
            assert_eq!(unsafe { translated(name.as_ptr(), &mut [0; ROOM]) }, name.as_ptr());
        }
    }
}
