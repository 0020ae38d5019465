//! Processes that do not outlive the one that started them.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the kernel send `signal` to what `command` starts as soon as the starting kernel thread has ended: for whatever
/// reason, also by a signal that nobody can handle. A set-uid program, and a child of the child, get nothing.
///
/// # Example
/// ```
/// use std::process::Command;
/// let mut command = Command::new("true");
/// raddle_machine::child::end_with_parent(&mut command, 15);
/// # #[cfg(not(miri))]
/// assert!(command.status().unwrap().success());
/// ```
pub fn end_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: takes two numbers; what is wrong with the signal it tells by an error.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes nothing, and cannot fail.
        match unsafe { libc::getppid() } as u32 == parent {
            true => Ok(()),
            // It has ended before it was asked for.
            false => Err(io::Error::from_raw_os_error(libc::ECHILD)),
        }
    };
    // SAFETY: between `fork` and `exec` it makes two system calls, allocates nothing, takes no lock, and leaves memory
    // and descriptors as they are.
    unsafe { command.pre_exec(ask) };
}
