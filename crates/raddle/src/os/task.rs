//! What the kernel says a kernel thread does.

use raddle_machine::raw::system_call;
use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

/// The state of a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// On a core, or waiting for one.
    Running,
    /// Waiting for something in the kernel, or stopped.
    Blocked,
    /// It has ended, or nothing could be read.
    Unknown,
}

/// Where the kernel tells of this process's kernel threads.
const TASKS: &str = "/proc/self/task";

thread_local! {
    /// That folder, where the calling kernel thread keeps it open. (No destructor: see [`super::spawn`].)
    static KEPT: Cell<i32> = const { Cell::new(-1) };
}

/// Keeps the folder open, in a table of descriptors of the calling kernel thread's own: a program may change its root
/// (`chroot`) to where there is no `/proc`.
pub(super) fn keep_open() {
    KEPT.set(open(TASKS).map_or(-1, std::os::fd::IntoRawFd::into_raw_fd));
}

/// Opens what lies in that folder.
fn open_there(name: &str) -> io::Result<File> {
    if KEPT.get() < 0 { open(&format!("{TASKS}/{name}")) } else { open(name) }
}

/// Opens by an absolute name, or by one in the folder that is kept open.
fn open(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let arguments = [KEPT.get() as usize, name.as_ptr().expose_provenance(), flags as usize, 0, 0, 0];
    // SAFETY: a string that ends with a null byte, which the kernel reads.
    let descriptor = unsafe { system_call(libc::SYS_openat as usize, arguments) };
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor as i32));
    }
    // SAFETY: opened just now, and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}

/// All that such a file holds.
fn read_there(name: &str) -> io::Result<String> {
    let mut text = String::new();
    open_there(name)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The state of kernel thread `tid` of this process; opens a file.
pub(super) fn task_state(tid: u32) -> TaskState {
    // The state stands behind a number and a name of 15 bytes: one read of the first bytes has it.
    let mut start = [0; 128];
    let read = open_there(&format!("{tid}/stat")).and_then(|mut file| file.read(&mut start));
    read.map_or(TaskState::Unknown, |length| parse(&String::from_utf8_lossy(&start[..length])))
}

/// Nanoseconds that kernel thread `tid` of this process has been on a core. One system call.
pub(crate) fn time_on_core(tid: u32) -> Option<u64> {
    /// The low bits of a clock's name: of one kernel thread, as the scheduler counts.
    const OF_A_THREAD: i32 = 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = !(tid as i32) << 3 | OF_A_THREAD;
    (read_clock(clock, &mut time) == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds that the calling kernel thread has been on a core. One system call.
pub(crate) fn own_time_on_core() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds that all kernel threads of the process have been on cores. One system call.
pub(crate) fn process_time_on_core() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The kernel's answer: the C library's function may be the drop-in library's, which answers for threads.
fn read_clock(clock: i32, time: &mut libc::timespec) -> isize {
    let arguments = [clock as usize, std::ptr::from_mut(time).expose_provenance(), 0, 0, 0, 0];
    // SAFETY: writes to the local only; an unknown kernel thread is an error.
    unsafe { raddle_machine::raw::system_call(libc::SYS_clock_gettime as usize, arguments) }
}

/// Microseconds that kernel thread `tid` of this process has waited for a core while it could have run; opens a file.
pub(super) fn waiting(tid: u32) -> Option<u64> {
    let text = read_there(&format!("{tid}/schedstat")).ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1000)
}

/// The instruction to which kernel thread `tid` of this process comes back when it is no longer blocked; opens a file.
pub(super) fn place(tid: u32) -> Option<usize> {
    let text = read_there(&format!("{tid}/syscall")).ok()?;
    parse_place(&text)
}

/// `running`, or numbers of which the last one is where it goes on.
fn parse_place(text: &str) -> Option<usize> {
    let last = text.split_whitespace().next_back()?;
    usize::from_str_radix(last.strip_prefix("0x")?, 16).ok().filter(|place| *place != 0)
}

/// Whether the kernel lets system calls end inside a restartable sequence. One built to find faults in such sequences
/// ends the process instead; opens files.
pub(super) fn sections_are_safe() -> bool {
    static SAFE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *SAFE.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let built = std::fs::read_to_string(format!("/boot/config-{}", release.trim()));
        !built.is_ok_and(|built| built.lines().any(|line| line == "CONFIG_DEBUG_RSEQ=y"))
    })
}

/// How many kernel threads the process has; opens a directory.
pub(super) fn kernel_threads() -> Option<u64> {
    let folder = open_there(".").ok()?;
    let (mut entries, mut count) = ([0u64; 512], 0);
    loop {
        let arguments = [folder.as_raw_fd() as usize, entries.as_mut_ptr().expose_provenance(), 4096, 0, 0, 0];
        // SAFETY: the kernel writes at most so many bytes to the entries.
        let length = unsafe { system_call(libc::SYS_getdents64 as usize, arguments) };
        let bytes = entries.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        match usize::try_from(length).ok()? {
            0 => return Some(count),
            length => count += named_by_numbers(&bytes[..length]),
        }
    }
}

/// How many of a folder's entries have a number for a name: each has the length at its bytes 16 and 17, the name at 19.
fn named_by_numbers(mut entries: &[u8]) -> u64 {
    let mut count = 0;
    while let &[_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, first, ..] = entries {
        count += u64::from(first.is_ascii_digit());
        entries = entries.get(usize::from(u16::from_ne_bytes([low, high])).max(1)..).unwrap_or(&[]);
    }
    count
}

/// How many filters of system calls kernel thread `tid` of this process has; 0 where `/proc` is absent, since nobody
/// knows then, and `None` where the kernel tells of them without their number, as older ones do. Opens a file.
pub(super) fn filters(tid: u32) -> Option<u32> {
    let status = read_there(&format!("{tid}/status")).unwrap_or_default();
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u32>().ok());
    // The mode.
    if of("Seccomp:") == Some(2) { of("Seccomp_filters:") } else { Some(0) }
}

/// The name may hold anything, brackets included: the state follows the last bracket.
fn parse(stat: &str) -> TaskState {
    match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        Some('R') => TaskState::Running,
        Some('S' | 'D' | 'T' | 't' | 'K' | 'W' | 'P') => TaskState::Blocked,
        _ => TaskState::Unknown,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_last_bracket() {
        assert_eq!(parse("12 (a) R) S 1 2"), TaskState::Blocked);
        assert_eq!(parse("12 (x) R 1"), TaskState::Running);
        assert_eq!(parse(""), TaskState::Unknown);
        assert_eq!(task_state(crate::os::gettid()), TaskState::Running);
        assert_eq!(parse("12 (fifteen letters) R"), TaskState::Running);
    }

    #[test]
    fn a_kernel_thread_that_computes_is_on_a_core_and_an_unknown_one_is_not() {
        let me = crate::os::gettid();
        let before = time_on_core(me).unwrap();
        while time_on_core(me).unwrap() == before {}
        // A process's number, but no kernel thread of ours.
        assert_eq!(time_on_core(1), None);
        beside_one_that_waits(|other| {
            // It may be on its way off its core.
            while time_on_core(other).unwrap() != time_on_core(other).unwrap() {}
        });
    }

    #[test]
    fn the_folder_that_is_kept_open_tells_the_same() {
        let me = crate::os::gettid();
        let tells = || (task_state(me), waiting(me).is_some(), filters(me), open_there("0/stat").is_err());
        let by_name = tells();
        assert_eq!(by_name.0, TaskState::Running);
        // As many as there were before or after it was counted.
        let listed = || std::fs::read_dir(TASKS).unwrap().count() as u64;
        let counted = |before: u64, count: u64| (before.min(listed())..=before.max(listed())).contains(&count);
        while !counted(listed(), kernel_threads().unwrap()) {}
        keep_open();
        assert!(KEPT.get() >= 0);
        assert_eq!(tells(), by_name);
        while !counted(listed(), kernel_threads().unwrap()) {}
        super::super::events::close(KEPT.replace(-1));
    }

    #[test]
    fn who_waits_for_a_core_is_known_of_kernel_threads_of_ours() {
        let me = crate::os::gettid();
        let before = waiting(me).unwrap();
        assert!(waiting(me).unwrap() >= before);
        assert_eq!(waiting(1), None);
    }

    #[test]
    fn where_a_kernel_thread_comes_back_to_is_known_while_it_is_blocked() {
        assert_eq!(parse_place("202 0x7f 0x0 0x7ffe 0x7f12\n"), Some(0x7f12));
        assert_eq!((parse_place("running\n"), parse_place("-1 0x0 0x0"), parse_place("")), (None, None, None));
        beside_one_that_waits(|other| {
            let place = place(other).expect("it waits");
            // SAFETY: an instruction of this program or of the C library, which can be read; before it is the call.
            let call = unsafe { ((place - 2) as *const [u8; 2]).read() };
            assert!(call == [0x0f, 0x05] || !cfg!(target_arch = "x86_64"), "{call:x?}");
        });
        // One that asks about itself is in a call: another one computes meanwhile.
        let (tell, told) = std::sync::mpsc::channel();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(crate::os::gettid()).unwrap();
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let other = told.recv().unwrap();
            // It may be on its way out of the call that has told its number.
            while place(other).is_some() {}
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    /// Shows `look` a kernel thread that is blocked until it returns.
    pub(in crate::os) fn beside_one_that_waits(look: impl FnOnce(u32)) {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(crate::os::gettid()).unwrap();
            let _ = ended.recv();
        });
        let task = told.recv().unwrap();
        while task_state(task) != TaskState::Blocked {}
        look(task);
        drop(end);
        other.join().unwrap();
    }
}
