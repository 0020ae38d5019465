//! Ticks of the timer: threads that compute without quantum checks give way in the handler (`--preempt=timer`, decision
//! 0039), or only those that spin ([`spins`], decision 0055).
//!
//! A tick is one of our signals, sent by a timer of the kernel thread's own. Its handler ([`asked`]) runs on the kernel
//! thread's alternate stack: the code that computes may be on a stack with no room for a handler (Erlang's processes,
//! fibers of OCaml, Go's goroutines), as only code may be whose program has all its handlers run on alternate ones.
//! If the thread is due, and can give way where it was interrupted, on its own stack, the handler sends it the same
//! again as a signal whose handler runs there ([`ticked`]). In that it gives way ([`preemption`]), and
//! goes on later, perhaps on another kernel thread: it returns from the handler with the mask and the alternate stack
//! of that one ([`masks::give_way`]), with its own registers, `errno`, and vector registers, which the kernel has put
//! on the stack. Otherwise the timer asks again soon.
//!
//! It can give way where none of these holds:
//! 1. the interrupted instruction is one of [`CLOSED`]: the C library, the loader, the unwinder, this library, what the
//!    kernel lends. They may have locks or storage of the kernel thread's in hand. Our functions that give locks back
//!    ([`spins`]) do not count;
//! 2. it was called by the C library, the loader or the unwinder ([`is_called_back`]): the comparison of `qsort`, a
//!    stream's functions, a constructor, an unlock of theirs;
//! 3. a handler of the program runs, or the thread is the child of a `vfork`, or it holds (`raddle_hold`);
//! 4. it is on another stack than its own.

use super::spins::Locking;
use super::{masks, signals, spins, vfork};
use crate::os::{c, system_call};
use raddle::drop_in::preemption::{self, Asked, Interrupted, Spins};
use std::ffi::{CStr, c_int, c_void};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// When threads give way that do not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preempt {
    /// Where they wait only.
    Never,
    /// At quantum checks too, and where they spin.
    Yields,
    /// At quantum checks, and where a timer finds them.
    Timer,
}

impl Preempt {
    /// What `RADDLE_PREEMPT` says.
    pub fn read(text: Option<&str>) -> Preempt {
        match text {
            None | Some("yields") => Preempt::Yields,
            Some("never") => Preempt::Never,
            Some("timer") => Preempt::Timer,
            Some(other) => {
                let line =
                    format!("raddle: RADDLE_PREEMPT is `{other}`, not never, yields or timer: yields is taken\n");
                crate::os::say(&std::ffi::CString::new(line).unwrap_or_default());
                Preempt::Yields
            }
        }
    }
}

/// Objects in whose code no thread gives way, by the beginnings of their files' names; beside them this library, and
/// what the kernel lends.
const CLOSED_OBJECTS: [&[u8]; 9] =
    [b"libc.so", b"libc-2", b"ld-", b"libgcc_s", b"libpthread", b"libdl", b"librt", b"libresolv", b"libraddle_posix"];

/// Code of this list's first kinds calls back into programs, or calls our functions for locks with something of its own
/// in hand: [`is_called_back`] looks for it on stacks.
const CALLING_BACK: usize = 4;

const MOST: usize = 16;

/// Start and end of code, and whether it calls back; zeroes after the last one.
static CLOSED: [[AtomicUsize; 3]; MOST] = [const { [const { AtomicUsize::new(0) }; 3] }; MOST];

/// Where a thread could not be asked whether it was called back: a stack is searched so far.
const SEARCHED_BYTES: usize = 1 << 20;
/// Frames that are looked at where the search has found something that looks like a call from the C library.
const FRAMES: usize = 512;

/// From now on a timer asks threads that compute to give way: those that the setting says.
pub(crate) fn begin(when: Preempt, quantum_ns: u64) {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    let asked = match when {
        Preempt::Never => return,
        Preempt::Yields => Asked::Spinning,
        Preempt::Timer => Asked::All,
    };
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    if find_code() {
        if asked == Asked::All {
            crate::os::say(
                c"raddle: RADDLE_PREEMPT=timer: the library is part of the program, so threads give way at quantum checks alone\n",
            );
        }
        return;
    }
    signals::install_kicks();
    preemption::begin(signals::tick(), quantum_ns, asked);
}

/// Finds the ranges once, since handlers may not ask the loader. True if this library's code is the program's own.
fn find_code() -> bool {
    /// How many ranges are known, and whether this library is the program.
    type Found = (usize, bool);
    unsafe extern "C" fn visit(info: *mut c::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object that stays loaded during the call, with so many headers and
        // null or a C string for a name; the counter that `find_code` passes, which nobody else has.
        unsafe {
            let (info, (count, linked)) = (&*info, &mut *data.cast::<Found>());
            let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
            let name = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            let kind = CLOSED_OBJECTS.iter().position(|start| name.starts_with(start));
            let lent = c::getauxval(c::AT_SYSINFO_EHDR) as usize;
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
            let code = headers.iter().filter(|header| header.p_type == c::PT_LOAD && header.p_flags & c::PF_X != 0);
            for header in code {
                let low = (info.dlpi_addr + header.p_vaddr) as usize;
                let high = low + header.p_memsz as usize;
                let inside = |address: usize| (low..high).contains(&address);
                let library = inside(begin as *const () as usize);
                // The loader tells of the program first, and without a name.
                *linked |= library && name.is_empty();
                let ours = library || lent != 0 && inside(lent);
                if let Some(range) = CLOSED.get(*count).filter(|_| kind.is_some() || ours) {
                    range[0].store(low, Ordering::Relaxed);
                    range[1].store(high, Ordering::Relaxed);
                    range[2].store(usize::from(kind.is_some_and(|kind| kind < CALLING_BACK)), Ordering::Relaxed);
                    *count += 1;
                }
            }
        }
        0
    }
    let mut found: Found = (0, false);
    // SAFETY: the callback does not unwind.
    unsafe { c::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found.1
}

/// The ranges that are known.
fn closed() -> impl Iterator<Item = (usize, usize, bool)> {
    let word = |word: &AtomicUsize| word.load(Ordering::Relaxed);
    CLOSED
        .iter()
        .map(move |[low, high, back]| (word(low), word(high), word(back) != 0))
        .take_while(|range| range.1 != 0)
}

/// The kernel's argument says that the signal is a tick.
///
/// # Safety
/// `info` is what the kernel passed to a handler.
pub(super) unsafe fn is_tick(info: *const c_void) -> bool {
    // SAFETY: the kernel's argument to a handler is a description of its signal.
    let info = unsafe { &*info.cast::<c::siginfo_t>() };
    // SAFETY: a timer's description has a value.
    info.si_code == c::SI_TIMER && preemption::is_tick(unsafe { info.si_value().sival_ptr }.addr())
}

/// A tick has come.
pub(super) unsafe extern "C-unwind" fn asked(_: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's argument.
    unsafe { raddle::signal::set_back(context) };
    // A call that the signal has ended is made again.
    signals::count_kick();
    // SAFETY: the calling thread's own.
    let errno = unsafe { *c::__errno_location() };
    // SAFETY: the kernel's arguments: a description of the signal, and the interrupted code's saved context.
    let (tick, interrupted) = unsafe { (is_tick(info), &*context.cast::<c::ucontext_t>()) };
    if tick && preemption::is_due(&Place(interrupted)) {
        // SAFETY: take nothing, and the description that the kernel has written. Where no more signals may be queued
        // the next tick asks again.
        unsafe {
            let (process, task) = (system_call(c::SYS_getpid, [0; 6]), system_call(c::SYS_gettid, [0; 6]));
            let again = signals::restarting_kick() as usize;
            let arguments = [process as usize, task as usize, again, info.expose_provenance(), 0, 0];
            system_call(c::SYS_rt_tgsigqueueinfo, arguments);
        }
    }
    crate::os::set_errno(errno);
}

/// The interrupted thread is to give way, if it still can.
///
/// # Safety
/// In the handler of one of our signals, on the interrupted stack, with all signals blocked that can wait; `context` is
/// the kernel's argument.
pub(super) unsafe fn ticked(context: *mut c_void) {
    signals::count_kick();
    // SAFETY: the calling thread's own.
    let errno = unsafe { *c::__errno_location() };
    // SAFETY: the saved context, as promised.
    let interrupted = unsafe { &*context.cast::<c::ucontext_t>() };
    let here = (&raw const errno).addr();
    let is_here = preemption::own_stack(registers(interrupted).1).is_some_and(|stack| stack.contains(&here));
    // Another handler may have come between.
    if is_here && preemption::can_give_way() && may_give_way(interrupted) {
        // SAFETY: the kernel's argument to the handler of this tick, which the caller is.
        unsafe { masks::give_way(context, || preemption::begin_anew(preemption::give_way)) };
    }
    crate::os::set_errno(errno);
}

/// Where a tick has found a thread.
struct Place<'a>(&'a c::ucontext_t);

impl Interrupted for Place<'_> {
    fn is_over(&self) -> bool {
        preemption::is_over_by_ticks(crate::start::settings().quantum.shortest())
    }

    fn spins(&self) -> Spins {
        let at = registers(self.0).0;
        match spins::locking(at) {
            Some(Locking::Locks) => Spins::HoldsALock,
            Some(Locking::Leaves) => Spins::Yes,
            None if spins::is_near_a_pause(at) => Spins::Yes,
            None => Spins::No,
        }
    }

    fn may(&self) -> bool {
        may_give_way(self.0)
    }

    fn is_blocked(&self) -> bool {
        super::rights::is_c_library_code(self.0) && super::rights::is_waiting_call(self.0)
    }
}

/// See the top of the file.
fn may_give_way(interrupted: &c::ucontext_t) -> bool {
    let (at, stack_pointer) = registers(interrupted);
    let closed_here = closed().any(|(low, high, _)| (low..high).contains(&at));
    let closed_here = closed_here && spins::locking(at) != Some(Locking::Leaves);
    if closed_here || masks::is_in_handler() || preemption::is_held() || vfork::is_child() {
        return false;
    }
    preemption::own_stack(stack_pointer).is_some_and(|stack| !is_called_back(at, stack_pointer, stack.end))
}

fn registers(interrupted: &c::ucontext_t) -> (usize, usize) {
    let machine = &interrupted.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    return (machine.gregs[c::REG_RIP as usize] as usize, machine.gregs[c::REG_RSP as usize] as usize);
    #[cfg(target_arch = "aarch64")]
    return (machine.pc as usize, machine.sp as usize);
}

/// Whether the C library, the loader or the unwinder has called the interrupted code, or that cannot be found out.
///
/// A word on the stack that could be a return address into them is looked for first, which is quick. Most threads have
/// none; it may also be a stale one. Only then the frames are walked, as an exception would.
fn is_called_back(at: usize, stack_pointer: usize, end: usize) -> bool {
    let first = stack_pointer.next_multiple_of(size_of::<usize>());
    if end.saturating_sub(first) > SEARCHED_BYTES {
        return true;
    }
    let ranges = closed().filter(|range| range.2);
    let mut back = [(0, 0); CALLING_BACK + 1];
    back.iter_mut().zip(ranges).for_each(|(place, (low, high, _))| *place = (low, high - low));
    let mut found = false;
    let mut word = first;
    while word < end {
        // SAFETY: on the calling thread's own stack, above what it has interrupted; all bytes there are mapped.
        let value = unsafe { std::ptr::with_exposed_provenance::<usize>(word).read() };
        found |= back.iter().any(|&(low, length)| value.wrapping_sub(low) < length);
        word += size_of::<usize>();
    }
    found && is_called_back_by_frames(at)
}

/// What was seen of the frames.
struct Walk {
    /// The interrupted instruction.
    at: usize,
    /// Its frame was reached: those before are the handler's.
    reached: bool,
    frames: usize,
    called_back: bool,
    /// The last frame seen was this library's, which begins all threads.
    whole: bool,
}

impl Walk {
    fn frame(&mut self, at: usize) -> ControlFlow<()> {
        self.frames += 1;
        if !self.reached {
            self.reached = at == self.at;
            return if self.frames < FRAMES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        }
        // A return address may lie behind the last instruction of a function.
        let range = closed().find(|(low, high, _)| (*low..*high).contains(&(at - 1)));
        self.called_back = range.is_some_and(|range| range.2);
        self.whole = range.is_some_and(|(low, high, _)| (low..high).contains(&(begin as *const () as usize)));
        if self.called_back || self.frames >= FRAMES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn is_called_back_by_frames(at: usize) -> bool {
    let mut walk = Walk { at, reached: false, frames: 0, called_back: false, whole: false };
    crate::os::frames::walk(|place| walk.frame(place));
    walk.called_back || !walk.whole
}
