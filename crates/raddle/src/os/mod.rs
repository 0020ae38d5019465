//! Every system call of this crate, and what the system says about cores.

mod cores;
pub(crate) mod events;
pub(crate) mod looks;
mod on_core;
mod probe;
pub(crate) mod ring;
pub(crate) mod signals;
mod task;

pub(crate) use cores::{allotted, default_processors, online};
pub(crate) use looks::{kernel_threads, task_state, time_waiting, waited};
pub(crate) use on_core::{CoreWord, probe_standby, stand_by_on};
pub(crate) use probe::{kernel_events, rseq};
pub(crate) use task::{TaskState, time_on_core};

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel's name of the calling kernel thread.
pub(crate) fn gettid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { raddle_machine::raw::system_call(libc::SYS_gettid as usize, [0; 6]) as u32 }
}

/// Starts a kernel thread of the runtime's own, with all signals blocked: it runs none of the program's code, or takes its mask later.
///
/// # Errors
/// When the system gives none.
pub(crate) fn spawn(name: String, main: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    struct Blocked(u64);
    impl Drop for Blocked {
        fn drop(&mut self) {
            signals::unblock(self.0);
        }
    }
    if crate::dedicated::is_marked() {
        // It would inherit what its creator alone is to have.
        return Err(std::io::Error::other(
            "asked for by a thread that has rights, or other things of the kernel's, of its own",
        ));
    }
    let kernel_thread = std::thread::Builder::new().name(thread_name(&name)).stack_size(256 * 1024);
    let guarded = move || or_abort(|| "a kernel thread of the runtime panicked".to_string(), main);
    let _blocked = Blocked(signals::block_all());
    crate::drop_in::native(|| kernel_thread.spawn(guarded)).map(drop)
}

/// `name` without what no kernel thread can have in its name, for which std would panic.
pub(crate) fn thread_name(name: &str) -> String {
    name.replace('\0', "?")
}

/// Prints a line on standard error, each different line once.
pub(crate) fn say_once(line: &str) {
    static SAID: [AtomicU32; 32] = [const { AtomicU32::new(0) }; 32];
    let hash = line.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)) | 1;
    for slot in &SAID {
        match slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(said) if said == hash => return,
            Err(_) => {}
        }
    }
    // A closed standard error must not end anybody.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says why, and ends the process.
#[cold]
pub(crate) fn end(why: &str) -> ! {
    say_once(&format!("raddle: {why}: the process ends"));
    std::process::abort()
}

/// Runs `f`, whose panic would leave the runtime half changed or without its monitor: `who` says who panicked, and the process ends.
#[inline(always)]
pub(crate) fn or_abort<T>(who: impl FnOnce() -> String, f: impl FnOnce() -> T) -> T {
    struct Bomb<W: FnOnce() -> String>(Option<W>);
    impl<W: FnOnce() -> String> Drop for Bomb<W> {
        fn drop(&mut self) {
            if let Some(who) = self.0.take() {
                end(&who());
            }
        }
    }
    let mut bomb = Bomb(Some(who));
    let value = f();
    bomb.0 = None;
    value
}

/// Installs a handler that runs on the alternate stack and restarts system calls.
pub(crate) fn on_signal(signal: i32, handler: extern "C" fn(i32)) -> std::io::Result<()> {
    // SAFETY: an action of zeroes but for the handler and flags is valid; the handler only stores and makes a futex call.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Installs the report of stack overflows, with the names of threads.
pub(crate) fn install_overflow_report() {
    static DONE: std::sync::Once = std::sync::Once::new();
    DONE.call_once(|| {
        let name_of = |_: usize, out: &mut dyn std::fmt::Write| {
            let name = crate::switching::current().and_then(|me| me.name());
            let _ = out.write_str(name.unwrap_or("<unnamed>"));
        };
        if let Err(error) = raddle_context::overflow::install(name_of) {
            say_once(&format!("raddle: stack overflows will not be reported by name: {error}"));
        }
    });
}
