//! On which core a kernel thread ran last, as the kernel itself writes it down; and kernel threads of the idle class.
//!
//! The kernel writes the core into the area that a kernel thread registers for restartable sequences. The C library
//! registers one in each kernel thread's own storage, which is gone when the thread has ended. So an activation moves
//! the registration into its record, which is never freed: others may read the word at any time.

use raddle_machine::raw::system_call;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The kernel's `struct rseq` in its first form, which every kernel accepts, and whether it is registered.
#[repr(C, align(32))]
pub(crate) struct CoreWord {
    start: AtomicU32,
    /// Where the thread runs, or ran last.
    core: AtomicU32,
    /// The address of a [`Section`], or zero, which the kernel writes when the thread was off its core and is
    /// elsewhere.
    section: AtomicU64,
    /// Flags and words of newer kernels.
    rest: [AtomicU32; 4],
    trap: Section,
    registered: AtomicBool,
}

/// The kernel's `struct rseq_cs`: who was off its core in the range goes on at `handler`.
#[repr(C, align(32))]
struct Section {
    version_and_flags: u64,
    start: AtomicU64,
    length: u64,
    handler: AtomicU64,
}

const LENGTH: usize = 32;
/// What the C libraries register with, which the kernel compares.
const SIGNATURE: usize = raddle_context::interlude::SIGNATURE as usize;
const UNREGISTER: usize = 1;

impl CoreWord {
    /// Not registered.
    pub const fn new() -> Self {
        Self {
            start: AtomicU32::new(0),
            core: AtomicU32::new(0),
            section: AtomicU64::new(0),
            rest: [const { AtomicU32::new(0) }; 4],
            trap: Section {
                version_and_flags: 0,
                start: AtomicU64::new(0),
                // The instruction itself.
                length: 1,
                handler: AtomicU64::new(0),
            },
            registered: AtomicBool::new(false),
        }
    }

    /// The core on which its kernel thread runs, or ran last. `None` while it is not registered.
    pub fn core(&self) -> Option<u32> {
        // Acquire: a registration that is seen has come after the one before it was given up.
        self.registered.load(Ordering::Acquire).then(|| self.core.load(Ordering::Relaxed))
    }

    fn area(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// When the kernel thread comes back to the instruction at `place` after it was off its core, it goes on at
    /// `handler`, once. False while the area is not registered. By one caller at a time, and not while another place
    /// may be in force.
    pub fn trap(&'static self, place: usize, handler: usize) -> bool {
        if !self.registered.load(Ordering::Acquire) {
            return false;
        }
        self.trap.handler.store(handler as u64, Ordering::Relaxed);
        self.trap.start.store(place as u64, Ordering::Relaxed);
        let section = std::ptr::from_ref(&self.trap).expose_provenance() as u64;
        // Release: the section is whole when the kernel reads it.
        self.section.store(section, Ordering::Release);
        true
    }

    /// No place is in force any more. By its own kernel thread.
    pub fn untrap(&self) {
        self.section.store(0, Ordering::Relaxed);
    }

    /// Gives the core up to whoever else may run there, and says whether there was nobody. Of a kernel thread of the
    /// idle class: nothing with which it shares its core's time is ready. By its own kernel thread, which sets no
    /// traps.
    ///
    /// Whoever is off its core outside of the section that its area names finds that name gone; so it is known, and not
    /// judged by the time. True, too, where the area is not registered.
    ///
    /// A C program asked the same by the kernel's count of switches, on a busy machine: of 995 turns of the idle class
    /// in which the other thread computed none was called alone; of 8,578 in which it had blocked 351 were not, since
    /// another program ran (2026-11-27, two virtual cores, Linux 6.18).
    pub fn yields_to_nobody(&'static self) -> bool {
        /// Where the kernel expects the signature in front of a handler, which is never entered: no code lies at
        /// address one.
        static NOWHERE: [u32; 2] = [SIGNATURE as u32, 0];
        if !self.trap(1, NOWHERE.as_ptr().wrapping_add(1).expose_provenance()) {
            return true;
        }
        yield_core();
        self.section.load(Ordering::Relaxed) != 0
    }

    /// Has the kernel keep the word for the calling kernel thread, whose thread pointer is the C library's. False where
    /// there are no restartable sequences, or the C library's registration cannot be undone.
    pub fn register(&'static self) -> bool {
        if let Some(offset) = library_area() {
            let area = raddle_context::switch::current_fs().wrapping_add_signed(offset);
            if rseq(area, UNREGISTER).is_err() {
                return false;
            }
            // SAFETY: the calling kernel thread's own area, which the kernel keeps no more: the C library's own
            // functions ask the kernel then.
            unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(area + 4)) }
                .store((-2i32) as u32, Ordering::Relaxed);
        }
        self.untrap();
        let registered = rseq(self.area(), 0).is_ok();
        self.registered.store(registered, Ordering::Release);
        registered
    }

    /// The calling kernel thread, which has registered it, is about to end.
    pub fn unregister(&'static self) {
        if self.registered.swap(false, Ordering::AcqRel) {
            // A failure leaves a registration that ends with the kernel thread.
            let _ = rseq(self.area(), UNREGISTER);
        }
    }
}

fn rseq(area: usize, flags: usize) -> io::Result<()> {
    // SAFETY: the kernel writes to the area while it is registered: it is in a record that is never freed, or the C
    // library's.
    let result = unsafe { system_call(libc::SYS_rseq as usize, [area, LENGTH, flags, SIGNATURE, 0, 0]) };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-(result as i32))) }
}

/// Where the C library's area lies, relative to the thread pointer, if it registers one. Asked for before the first
/// kernel thread of the runtime begins: the loader, which answers, may be held up by what waits for that one.
pub(super) fn library_area() -> Option<isize> {
    static OFFSET: std::sync::OnceLock<Option<isize>> = std::sync::OnceLock::new();
    *OFFSET.get_or_init(|| {
        // SAFETY: names of C strings; the symbols, where they exist, are of these types.
        unsafe {
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
            (!size.is_null() && !offset.is_null() && size.read() != 0).then(|| offset.read())
        }
    })
}

/// Makes the calling kernel thread one of the idle class on `core`: it runs there while nothing else wants to. Kernel
/// threads that it would start are not of that class. It has so many [filters](super::filters) of system calls.
///
/// # Errors
/// The kernel's: the core is not allotted to the process, or a filter forbids it. One that ends the process for it is
/// not asked.
pub(crate) fn stand_by_on(core: u32, filters: Option<u32>) -> io::Result<()> {
    /// With so many filters a copy has lived on: only a further one could be deadly.
    static SURVIVED: AtomicU32 = AtomicU32::new(0);
    if filters != Some(SURVIVED.load(Ordering::Relaxed)) {
        if !survives(core) {
            return Err(io::Error::other("a filter of system calls ends a process that asks for it"));
        }
        if let Some(filters) = filters {
            SURVIVED.store(filters, Ordering::Relaxed);
        }
    }
    ask_to_stand_by(core)
}

/// Whether a process that asks lives on: a copy of this one, which asks and ends. Nobody hears of it: its end raises no
/// signal, and a wait for children does not meet it.
fn survives(core: u32) -> bool {
    // SAFETY: without flags and stack, a copy of the calling kernel thread in memory of its own.
    let child = unsafe { system_call(libc::SYS_clone as usize, [0; 6]) };
    if child == 0 {
        // The kernel's: the default action, no flags, nothing masked.
        let default = [0usize; 4];
        let address = default.as_ptr().expose_provenance();
        // SAFETY: the copy's own handlers, and its end. Other kernel threads do not exist here, so nothing of this
        // library or the program's is called.
        unsafe {
            system_call(libc::SYS_rt_sigaction as usize, [libc::SIGSYS as usize, address, 0, 8, 0, 0]);
            let _ = ask_to_stand_by(core);
            system_call(libc::SYS_exit_group as usize, [0; 6]);
        }
        unreachable!("it has ended");
    }
    let mut status: libc::c_int = 0;
    let address = (&raw mut status).expose_provenance();
    loop {
        // SAFETY: the kernel writes the status of a process that only we know.
        let ended =
            unsafe { system_call(libc::SYS_wait4 as usize, [child as usize, address, libc::__WALL as usize, 0, 0, 0]) };
        if ended != -(libc::EINTR as isize) {
            return child > 0 && ended == child && libc::WIFEXITED(status);
        }
    }
}

fn yield_core() {
    // SAFETY: takes nothing.
    unsafe { system_call(libc::SYS_sched_yield as usize, [0; 6]) };
}

fn ask_to_stand_by(core: u32) -> io::Result<()> {
    const WORDS: usize = 128;
    let mut cores = [0u64; WORDS];
    let Some(word) = cores.get_mut(core as usize / 64) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    *word = 1 << (core % 64);
    let parameters: libc::c_int = 0;
    // SAFETY: a set of the given length, and the one number that is the parameters; the kernel reads both.
    let results = unsafe {
        [
            system_call(
                libc::SYS_sched_setaffinity as usize,
                [0, size_of_val(&cores), cores.as_ptr().expose_provenance(), 0, 0, 0],
            ),
            system_call(
                libc::SYS_sched_setscheduler as usize,
                [
                    0,
                    (libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK) as usize,
                    (&raw const parameters).expose_provenance(),
                    0,
                    0,
                    0,
                ],
            ),
        ]
    };
    match results.into_iter().find(|result| *result < 0) {
        Some(error) => Err(io::Error::from_raw_os_error(-(error as i32))),
        None => {
            // What it does later: a filter to which that is deadly ends the copy.
            yield_core();
            Ok(())
        }
    }
}

/// Whether a kernel thread may stand by here.
///
/// # Errors
/// What is missing.
pub(crate) fn probe_standby() -> Result<(), String> {
    let probe = || {
        let word: &'static CoreWord = Box::leak(Box::new(CoreWord::new()));
        let registered = word.register();
        let core = word.core();
        word.unregister();
        match core.filter(|_| registered) {
            None => Err("the kernel does not say on which core a thread runs (no restartable sequences)".to_string()),
            Some(core) => {
                stand_by_on(core, super::filters()).map_err(|error| format!("SCHED_IDLE is refused: {error}"))
            }
        }
    };
    let kernel_thread = super::marks::native(|| std::thread::Builder::new().name("raddle-probe".into()).spawn(probe));
    let joined = kernel_thread.map_err(|error| format!("no kernel thread: {error}"))?.join();
    joined.unwrap_or_else(|_| Err("the probe panicked".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_writes_down_where_a_kernel_thread_runs() {
        static WORD: CoreWord = CoreWord::new();
        std::thread::spawn(|| {
            assert_eq!(WORD.core(), None);
            if !WORD.register() {
                // No restartable sequences here.
                assert_eq!(WORD.core(), None);
                return;
            }
            let core = WORD.core().unwrap();
            stand_by_on(core, Some(0)).unwrap();
            assert_eq!(WORD.core(), Some(core));
            // SAFETY: asks for numbers.
            let is_at = unsafe { (libc::sched_getcpu(), libc::sched_getscheduler(0)) };
            assert_eq!(is_at, (core as i32, libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK));
            WORD.unregister();
            assert_eq!(WORD.core(), None);
        })
        .join()
        .unwrap();
        assert!(stand_by_on(u32::MAX, Some(0)).is_err());
    }

    #[test]
    fn who_yields_the_core_knows_whether_another_ran() {
        static WORD: CoreWord = CoreWord::new();
        static TURNS: AtomicU64 = AtomicU64::new(0);
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        std::thread::spawn(|| {
            // Not registered: it is not known.
            assert!(WORD.yields_to_nobody());
            if !WORD.register() {
                return;
            }
            let core = WORD.core().unwrap();
            stand_by_on(core, Some(0)).unwrap();
            let other = std::thread::spawn(move || {
                // Of the usual class again: SCHED_RESET_ON_FORK.
                let mut cores = [0u64; 128];
                cores[core as usize / 64] = 1 << (core % 64);
                let address = cores.as_ptr().expose_provenance();
                // SAFETY: the kernel reads a set of the given length.
                let result = unsafe {
                    system_call(libc::SYS_sched_setaffinity as usize, [0, size_of_val(&cores), address, 0, 0, 0])
                };
                assert_eq!(result, 0);
                while !IS_OVER.load(Ordering::Relaxed) {
                    TURNS.fetch_add(1, Ordering::Relaxed);
                }
            });
            // How often the other one ran meanwhile, and how often that was known.
            let (mut ran, mut known) = (0, 0);
            while ran < 5 {
                let before = TURNS.load(Ordering::Relaxed);
                let to_nobody = WORD.yields_to_nobody();
                if before != 0 && TURNS.load(Ordering::Relaxed) != before {
                    ran += 1;
                    known += u32::from(!to_nobody);
                }
            }
            // Not all: the other one may also come between the counts and the answer.
            assert!(known > 0);
            IS_OVER.store(true, Ordering::Relaxed);
            other.join().unwrap();
            WORD.unregister();
        })
        .join()
        .unwrap();
    }
}
