//! A program that replaces itself: what it becomes goes on under `raddle run`.
//!
//! The library and its settings are not in the environment of the program that `raddle run` became, so that its
//! children are native. But a script that ends with `exec ./server`, `env`, `nice`, a version manager's shim and a
//! server that upgrades itself are that program themselves, not children: the functions here put the library and the
//! settings into the environment that they hand on. In a fork, which is another process, nothing is put in, nor where
//! another `raddle run` has put in its own, nor for a program that cannot be taken over ([`target`]).
//!
//! `execl`, `execlp` and `execle` are left alone, as they take any number of arguments: what they start is native.

use super::masks;
use super::target::{self, Target};
use crate::os::{c, system_call};
use raddle_macros::entry;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `raddle run` had put into the environment, as it was found there.
pub(crate) struct Kept {
    /// The library's path.
    pub library: CString,
    /// `NAME=VALUE`, for each setting.
    pub settings: Vec<CString>,
    /// `NAME=VALUE` that one of them had replaced: where it is found unchanged it is replaced again.
    pub replaced: Option<CString>,
    /// The process that it was meant for.
    pub process: u32,
    /// No remarks are wanted.
    pub quiet: bool,
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
        // SAFETY: an environment, or null, which stays for as long as its strings are used here.
        let given = || unsafe { strings(given) }.filter(|&string| Some(string) != kept.replaced.as_deref());
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
        // SAFETY: the pages are new zeroes, `size` of them: room for so many pointers, the parts and a null byte after
        // them.
        unsafe {
            *list = text.cast();
            for part in parts {
                text.copy_from_nonoverlapping(part.as_ptr(), part.len());
                text = text.add(part.len());
            }
            // What the program set by hand stays.
            let missing = |setting: &&CStr| !given().any(|string| same_name(setting, string));
            let settings = kept.settings.iter().map(CString::as_c_str).filter(missing);
            let rest = settings.chain(given().filter(|string| !same_name(string, PRELOAD)));
            // Who changes the list meanwhile gets no more than there is room for.
            rest.take(pointers - 2).enumerate().for_each(|(index, string)| *list.add(1 + index) = string.as_ptr());
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

/// In the child of a fork, which may have its parent's number in a namespace of its own.
pub(super) fn forget() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// What is to be put into the environment `given`. Nothing in another process, nor where it holds those settings:
/// another `raddle run` has put them there.
///
/// # Safety
/// `given` is an environment, or null.
unsafe fn kept(given: Strings) -> Option<&'static Kept> {
    let is_child = IS_CHILD.load(Ordering::Relaxed) || super::vfork::is_child();
    let kept = KEPT.get().filter(|kept| !is_child && kept.process == std::process::id())?;
    // SAFETY: an environment, or null, which is read during the call.
    let is_there = unsafe { strings(given) }.any(|string| same_name(string, c"RADDLE_RUN="));
    let library = kept.library.as_ptr();
    // SAFETY: a C string.
    let readable =
        || unsafe { system_call(c::SYS_faccessat, [c::AT_FDCWD as usize, library.addr(), c::R_OK as usize, 0, 0, 0]) };
    (!is_there && readable() == 0).then_some(kept)
}

/// Calls `exec` with that environment, and with the library and its settings if this process is the one that they were
/// meant for, and the target can be taken over.
///
/// # Safety
/// `given` is an environment, or null.
unsafe fn go_on(given: Strings, target: impl FnOnce() -> Target, exec: impl Fn(Strings) -> c_int) -> c_int {
    let exec = |given| masks::with_own(|| exec(given));
    // SAFETY: an environment, or null, which is read during the call.
    let Some(kept) = (unsafe { kept(given) }) else { return exec(given) };
    match target() {
        // SAFETY: the same environment, which stays until the program is replaced or the call has failed.
        Target::Fit => match unsafe { Environment::with(kept, given) } {
            Some(ours) => {
                let result = exec(ours.list().cast_const());
                // SAFETY: the calling thread's.
                if unsafe { *c::__errno_location() } != c::E2BIG {
                    return result;
                }
                say(kept, c"too much for its environment with raddle's settings");
                exec(given)
            }
            None => exec(given),
        },
        Target::Unfit(why) => {
            say(kept, why);
            exec(given)
        }
        Target::Unknown => exec(given),
    }
}

/// A line that says why the program runs natively from here.
fn say(kept: &Kept, why: &CStr) {
    if !kept.quiet {
        [c"raddle: note: what this program replaces itself by is ", why, c": it runs natively\n"]
            .into_iter()
            .for_each(crate::os::say);
    }
}

/// Looks at the file that is open there; by its name in `/proc`, since one that was opened for its path only cannot be
/// read.
fn of_descriptor(descriptor: c_int) -> Target {
    use std::io::Write as _;
    let mut name = [0; 32];
    let _ = write!(&mut name[..31], "/proc/self/fd/{descriptor}");
    // SAFETY: zeroes follow the name.
    unsafe { target::of_path(c::AT_FDCWD, name.as_ptr().cast()) }
}

fn environment() -> Strings {
    unsafe extern "C" {
        static mut environ: Strings;
    }
    // SAFETY: who changes the environment while another thread starts a program breaks the C library's rules.
    unsafe { environ }
}

#[entry]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, given: Strings) -> c_int {
    let next = next!(execve: fn(*const c_char, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, || target::of_path(c::AT_FDCWD, path), |given| next(path, arguments, given)) }
}

#[entry]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's arguments, and what `execv` says of the environment.
    unsafe { execve(path, arguments, environment()) }
}

#[entry]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, given: Strings) -> c_int {
    let next = next!(execvpe: fn(*const c_char, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe {
        let find = || {
            let mut room = [0; target::READ];
            let path =
                if file.is_null() { file } else { target::in_path(file, c::getenv(c"PATH".as_ptr()), &mut room) };
            target::of_path(c::AT_FDCWD, path)
        };
        go_on(given, find, |given| next(file, arguments, given))
    }
}

#[entry]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's arguments, and what `execvp` says of the environment.
    unsafe { execvpe(file, arguments, environment()) }
}

#[entry]
pub unsafe extern "C" fn fexecve(descriptor: c_int, arguments: Strings, given: Strings) -> c_int {
    let next = next!(fexecve: fn(c_int, Strings, Strings) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe { go_on(given, || of_descriptor(descriptor), |given| next(descriptor, arguments, given)) }
}

#[entry]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Strings,
    given: Strings,
    flags: c_int,
) -> c_int {
    let next = next!(execveat: fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int);
    // SAFETY: the caller's arguments.
    unsafe {
        let is_empty = flags & c::AT_EMPTY_PATH != 0 && !path.is_null() && *path == 0;
        let look = || if is_empty { of_descriptor(folder) } else { target::of_path(folder, path) };
        go_on(given, look, |given| next(folder, path, arguments, given, flags))
    }
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
    fn the_library_comes_first_and_settings_by_hand_stay() {
        let kept = Kept {
            library: c"/l.so".into(),
            settings: vec![c"RADDLE_RUN=7".into(), c"RADDLE_MAIN=1".into()],
            replaced: None,
            process: 7,
            quiet: true,
        };
        let plain = [c"LD_PRELOAD=/l.so", c"RADDLE_RUN=7", c"RADDLE_MAIN=1", c"A=b", c"odd"].map(CString::from);
        assert_eq!(with(&kept, &[c"A=b", c"odd"]), plain);
        let by_hand = with(&kept, &[c"RADDLE_MAIN=0", c"A=b", c"odd"]);
        assert_eq!(
            by_hand,
            ["LD_PRELOAD=/l.so", "RADDLE_RUN=7", "RADDLE_MAIN=0", "A=b", "odd"].map(|text| CString::new(text).unwrap())
        );
        let other = with(&kept, &[c"RADDLE_MAINS=0", c"LD_PRELOAD=/x.so:/y.so", c"LD_PRELOADS=z"]);
        assert_eq!(other[0], CString::from(c"LD_PRELOAD=/l.so:/x.so:/y.so"));
        assert_eq!(other[3..], [c"RADDLE_MAINS=0", c"LD_PRELOADS=z"].map(CString::from));
        // SAFETY: no list.
        assert_eq!(unsafe { strings(null()) }.count(), 0);
    }

    #[test]
    fn what_a_setting_had_replaced_is_replaced_again_unless_the_program_changed_it() {
        let kept = Kept {
            library: c"/l.so".into(),
            settings: vec![c"T=user:ours".into(), c"T_BEFORE=user".into()],
            replaced: Some(c"T=user".into()),
            process: 7,
            quiet: true,
        };
        let rest = |given: &[&CStr]| with(&kept, given).split_off(1);
        assert_eq!(rest(&[c"T=user"]), [c"T=user:ours", c"T_BEFORE=user"].map(CString::from));
        assert_eq!(rest(&[]), [c"T=user:ours", c"T_BEFORE=user"].map(CString::from));
        assert_eq!(rest(&[c"T=other"]), [c"T_BEFORE=user", c"T=other"].map(CString::from));
    }
}
