//! A program that replaces itself: what it becomes goes on under `raddle run`.
//!
//! The library and its settings are not in the environment of the program that `raddle run` became, so that its children are native. But a script that ends with
//! `exec ./server`, `env`, `nice`, a version manager's shim and a server that upgrades itself are that program themselves, not
//! children: the functions here put the library and the settings into the environment that they hand on. In a fork, which
//! is another process, nothing is put in.
//!
//! `execl`, `execlp` and `execle` are left alone, as they take any number of arguments: what they start is native.

use crate::os::{c, system_call};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null;
use std::sync::OnceLock;

/// What `raddle run` had put into the environment, as it was found there.
pub(crate) struct Kept {
    /// The library's path.
    pub library: CString,
    /// `NAME=VALUE`, for each setting.
    pub settings: Vec<CString>,
    /// The process that it was meant for.
    pub process: u32,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Keeps that for the program that this one may become.
pub(crate) fn keep(kept: Kept) {
    let _ = KEPT.set(kept);
}

type Strings = *const *const c_char;
const PRELOAD: &CStr = c"LD_PRELOAD=";

/// The strings of a list that ends with a null pointer.
///
/// # Safety
/// The list is one, or null, and stays.
unsafe fn strings<'a>(list: Strings) -> impl Iterator<Item = &'a CStr> {
    let at = move |index: usize| {
        // SAFETY: the list has not ended before.
        let string = if list.is_null() { null() } else { unsafe { *list.add(index) } };
        // SAFETY: a C string that stays.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
    };
    (0..).map_while(at)
}

/// Whether that is a `NAME=VALUE` of the name that the other one has.
fn same_name(one: &CStr, other: &CStr) -> bool {
    let name = |string: &CStr| string.to_bytes().iter().position(|&byte| byte == b'=').unwrap_or(usize::MAX);
    let (length, others) = (name(one), name(other));
    length == others && length != usize::MAX && one.to_bytes()[..length] == other.to_bytes()[..length]
}

/// An environment in pages of its own: a program may call `exec` in a handler, where nothing may be allocated.
struct Environment {
    pages: *mut u8,
    size: usize,
}

impl Environment {
    /// The environment `given`, the library and the settings. None without memory, where the program goes on natively.
    ///
    /// # Safety
    /// `given` is an environment, or null, and stays.
    unsafe fn with(kept: &Kept, given: Strings) -> Option<Environment> {
        // SAFETY: the caller's promise.
        let given = || unsafe { strings(given) };
        let others = given().find(|string| same_name(string, PRELOAD));
        let others = others.map_or(&[][..], |string| &string.to_bytes()[PRELOAD.count_bytes()..]);
        let pointers = given().count() + kept.settings.len() + 2;
        let parts = [PRELOAD.to_bytes(), kept.library.to_bytes(), if others.is_empty() { b"" } else { b":" }, others];
        let size = pointers * size_of::<*const c_char>() + parts.iter().map(|part| part.len()).sum::<usize>() + 1;
        let (protection, flags) = (c::PROT_READ | c::PROT_WRITE, c::MAP_PRIVATE | c::MAP_ANONYMOUS);
        // SAFETY: new pages, or an error.
        let pages = unsafe { system_call(c::SYS_mmap, [0, size, protection as usize, flags as usize, usize::MAX, 0]) };
        if (-4095..0).contains(&pages) {
            return None;
        }
        let environment = Environment { pages: pages as *mut u8, size };
        let list = environment.list();
        let mut text = environment.pages.wrapping_add(pointers * size_of::<*const c_char>());
        // SAFETY: the pages are new zeroes, `size` of them: room for so many pointers, the parts and a null byte after them.
        unsafe {
            *list = text.cast();
            for part in parts {
                text.copy_from_nonoverlapping(part.as_ptr(), part.len());
                text = text.add(part.len());
            }
            let replaced = |string: &CStr| {
                same_name(string, PRELOAD) || kept.settings.iter().any(|setting| same_name(setting, string))
            };
            let rest = kept.settings.iter().map(CString::as_c_str).chain(given().filter(|string| !replaced(string)));
            rest.enumerate().for_each(|(index, string)| *list.add(1 + index) = string.as_ptr());
        }
        Some(environment)
    }

    fn list(&self) -> *mut *const c_char {
        self.pages.cast()
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: its own pages, which nobody points to any more.
        unsafe { system_call(c::SYS_munmap, [self.pages as usize, self.size, 0, 0, 0, 0]) };
    }
}

/// Calls `exec` with that environment, and with the library and its settings if this process is the one that they were meant for.
///
/// # Safety
/// `given` is an environment, or null.
unsafe fn go_on(given: Strings, exec: impl FnOnce(Strings) -> c_int) -> c_int {
    let kept = KEPT.get().filter(|kept| kept.process == std::process::id());
    // SAFETY: the caller's promise.
    let ours = kept.and_then(|kept| unsafe { Environment::with(kept, given) });
    exec(ours.as_ref().map_or(given, |ours| ours.list().cast_const()))
}

fn environment() -> Strings {
    unsafe extern "C" {
        static mut environ: Strings;
    }
    // SAFETY: who changes the environment while another thread starts a program breaks the C library's rules.
    unsafe { environ }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, given: Strings) -> c_int {
    let next = next!(execve: fn(*const c_char, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, |given| next(path, arguments, given)) }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's arguments, and what `execv` says of the environment.
    unsafe { execve(path, arguments, environment()) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, given: Strings) -> c_int {
    let next = next!(execvpe: fn(*const c_char, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, |given| next(file, arguments, given)) }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's arguments, and what `execvp` says of the environment.
    unsafe { execvpe(file, arguments, environment()) }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(descriptor: c_int, arguments: Strings, given: Strings) -> c_int {
    let next = next!(fexecve: fn(c_int, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, |given| next(descriptor, arguments, given)) }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Strings,
    given: Strings,
    flags: c_int,
) -> c_int {
    let next = next!(execveat: fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, |given| next(folder, path, arguments, given, flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(kept: &Kept, given: &[&CStr]) -> Vec<CString> {
        let list: Vec<_> = given.iter().map(|string| string.as_ptr()).chain([null()]).collect();
        // SAFETY: such a list, which stays.
        let environment = unsafe { Environment::with(kept, list.as_ptr()) }.unwrap();
        // SAFETY: the list that was made, which ends with a null pointer.
        unsafe { strings(environment.list().cast_const()) }.map(CStr::to_owned).collect()
    }

    #[test]
    fn the_library_comes_first_and_settings_are_replaced() {
        let kept = Kept {
            library: c"/l.so".into(),
            settings: vec![c"RADDLE_RUN=7".into(), c"RADDLE_MAIN=1".into()],
            process: 7,
        };
        let plain = [c"LD_PRELOAD=/l.so", c"RADDLE_RUN=7", c"RADDLE_MAIN=1", c"A=b", c"odd"].map(CString::from);
        assert_eq!(with(&kept, &[c"A=b", c"odd"]), plain);
        assert_eq!(with(&kept, &[c"RADDLE_MAIN=0", c"A=b", c"odd"]), plain);
        let other = with(&kept, &[c"RADDLE_MAINS=0", c"LD_PRELOAD=/x.so:/y.so", c"LD_PRELOADS=z"]);
        assert_eq!(other[0], CString::from(c"LD_PRELOAD=/l.so:/x.so:/y.so"));
        assert_eq!(other[3..], [c"RADDLE_MAINS=0", c"LD_PRELOADS=z"].map(CString::from));
        // SAFETY: no list.
        assert_eq!(unsafe { strings(null()) }.count(), 0);
    }
}
