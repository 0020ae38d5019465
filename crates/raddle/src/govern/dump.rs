//! The dump of all threads: name, state, what each waits for, who holds that, and where it waits.
//!
//! A parked thread is visited: its wait is claimed, so that nobody else resumes it; a visitor runs on its stack, above
//! its frames and under its own thread-local storage, where it finds the note of what the thread waits for and walks
//! the stack; then the thread is made ready, for what it takes as a wake-up for no reason, which every wait here
//! allows. So a dump needs no lock and stops nobody, and what it prints of each thread was true at its visit.

pub(crate) mod circles;
mod frames;

use crate::carry::descriptor::Descriptor;
use crate::carry::note::{NOTE, Note};
use crate::carry::switching::current;
use circles::Holder;
use frames::{Library, own_frames};
use raddle_context::switch::{Context, current_fs, switch, switch_away};
use raddle_context::tls;
use raddle_scheduler::{Claim, Wake};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much to print.
#[derive(Clone, Copy, Debug)]
pub struct DumpOptions {
    /// Threads listed, at most; the others are counted.
    pub threads: usize,
    /// Threads whose stack is walked, at most: a walk costs a millisecond the first time, for the symbols.
    pub backtraces: usize,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self { threads: 1000, backtraces: 20 }
    }
}

/// Writes all lightweight threads of the process: name, state, what each waits for and who holds that, and the stacks
/// of the first parked ones, as far as their stacks have room for the walk. Call it from a kernel thread or from a
/// lightweight one (which lists itself as running), with a stack of the default size or more: without that no stacks
/// are shown.
///
/// # Errors
/// What `out` says.
///
/// # Example
/// ```
/// let pool = raddle::Builder::new().processors(1).build().unwrap();
/// let waiter = raddle::thread::Builder::new().name("patient".into()).spawn_into(&pool, raddle::park).unwrap();
/// let mut text = Vec::new();
/// while !String::from_utf8_lossy(&text).contains("patient") {
///     text.clear();
///     raddle::info::dump(&mut text, Default::default()).unwrap();
/// }
/// # let _ = waiter;
/// # std::process::exit(0);
/// ```
pub fn dump(out: &mut dyn io::Write, options: DumpOptions) -> io::Result<()> {
    let mut options = options;
    if place_of_caller().is_some_and(|(sp, limit)| sp - limit < ROOM_TO_NAME_BYTES) {
        options.backtraces = 0;
        writeln!(out, "raddle: no stacks, since the caller's own is too small to look up names")?;
    }
    let stats = crate::govern::info::stats();
    writeln!(out, "raddle: {} threads spawned, {} ended, {} switches", stats.spawned, stats.exited, stats.switches)?;
    if let Some(delay) = crate::govern::info::run_queue_delay() {
        let [p50, p99, p999, max] = [delay.p50, delay.p99, delay.p999, delay.max].map(|ns| ns as f64 / 1000.0);
        writeln!(
            out,
            "raddle: of {} threads followed, half waited in run queues for at most {p50:.1} us, 99 % {p99:.1}, 99.9 % {p999:.1}, \
             all {max:.1}",
            delay.samples
        )?;
    }
    for pool in crate::carry::pool::pools() {
        let sleeping = pool.idle.sleeping();
        let count = pool.active();
        let retired = match pool.processors().len() - count {
            0 => String::new(),
            n => format!(", {n} retired"),
        };
        writeln!(out, "pool {}: {}, {count} processors, {sleeping} asleep{retired}", pool.index, pool.describe())?;
    }
    // Before the threads are visited, after which they come back to their waits.
    let circles = crate::govern::dump::circles::drawn();
    let library = Library::find();
    let mut holders = Holders::new();
    let (mut listed, mut walked, mut omitted) = (0, 0, 0u64);
    for (index, descriptor) in crate::carry::pool::descriptors().iterate() {
        // SAFETY: objects of the slab live for ever.
        let descriptor: &'static Descriptor = unsafe { &*std::ptr::from_ref(descriptor) };
        if !descriptor.is_in_use() || descriptor.thread.is_kernel_thread() {
            continue;
        }
        if listed == options.threads {
            omitted += 1;
            continue;
        }
        listed += 1;
        let text = describe(descriptor, walked < options.backtraces, &mut walked, &library, &mut holders);
        writeln!(out, "thread {index} {text}")?;
    }
    if omitted > 0 {
        writeln!(out, "and {omitted} more")?;
    }
    for circle in circles {
        write!(out, "raddle: these wait for each other:\n{circle}")?;
    }
    out.flush()
}

/// In words, those that hold what others wait for: each is looked for once.
type Holders = HashMap<Holder, String>;

/// One thread, in a line or with its stack.
fn describe(
    descriptor: &'static Descriptor,
    walk: bool,
    walked: &mut usize,
    library: &Library,
    holders: &mut Holders,
) -> String {
    // SAFETY: null, or an activation, which are never freed.
    if let Some(activation) = unsafe { descriptor.activation.get().as_ref() } {
        let name = circles::name_of(descriptor);
        return match activation.waits_for.load(Ordering::Relaxed) {
            0 => format!("{name} is running"),
            word => format!("{name} is apart and waits for a word in memory ({word:#x}) in the kernel"),
        };
    }
    let claimed = descriptor
        .thread
        .current_wait()
        .is_some_and(|epoch| descriptor.thread.claim_parked(epoch, Wake::Itself) == Claim::WonParked);
    if !claimed {
        return match descriptor.thread.current_wait() {
            Some(epoch) => {
                let name = circles::name_of(descriptor);
                // What was read is its own if the wait is the same as before.
                let name = if descriptor.thread.current_wait() == Some(epoch) { name } else { "a thread".into() };
                let at = std::ptr::from_ref(descriptor).addr();
                format!(
                    "{name} waits, on its way or below a thread that it joins and that runs in its place; it is the one at {at:#x}"
                )
            }
            None => "ready, or on its way".into(),
        };
    }
    // SAFETY: the claim was won and the thread is off its stack, until it is made ready below.
    let visited = unsafe { visit(descriptor, walk) };
    *walked += usize::from(visited.stack.is_some());
    let text = visited.describe(descriptor, walk, library, holders);
    // The claim was ours: the thread goes on from a wake-up for no reason.
    // SAFETY: the claim was won above.
    unsafe { crate::carry::ready::make_ready(descriptor.record()) };
    text
}

/// Bytes below a thread's frames that the visitor needs to read the note, and to walk the stack as well: twice what it
/// was seen to use, without optimisation.
const ROOM_TO_LOOK_BYTES: usize = 1 << 10;
const ROOM_TO_WALK_BYTES: usize = 4 << 10;
/// Bytes that the caller needs to look up the names of functions: 128 KiB, six times the 22 that std's look-up was
/// seen to take in a small program, with optimisation and without (2026-11-28, `names` of docs/constants.md).
const ROOM_TO_NAME_BYTES: usize = crate::carry::pool::DEFAULT_STACK / 2;

/// Where the calling thread's stack is used up to, and where it ends; `None` on a kernel thread's.
fn place_of_caller() -> Option<(usize, usize)> {
    let here = 0u8;
    let sp = (&raw const here).addr();
    raddle_context::stack::find(sp).map(|place| (sp, place.limit))
}

/// What the visitor and its caller hand each other. The visitor, whose stack may be small, only collects.
struct Visit {
    back: Context,
    walk: bool,
    note: Option<Note>,
    stack: Option<Backtrace>,
}

impl Visit {
    /// In words. `walk`: the stack was to be walked.
    fn describe(&self, target: &'static Descriptor, walk: bool, library: &Library, holders: &mut Holders) -> String {
        let name = target.name().unwrap_or_else(|| "<unnamed>".into());
        let Some(note) = self.note else { return format!("{name:?} waits, with no room on its stack to ask for what") };
        let mut text = format!("{name:?} waits for {}", note.kind());
        if note.object != 0 {
            let _ = write!(text, " ({:#x})", note.object);
        }
        let noted = Some(note.holder).filter(|holder| *holder != 0).map(Holder::Record);
        if let Some(holder) = noted.or_else(|| Holder::of(note.kind(), note.object)) {
            let who = holders.entry(holder).or_insert_with(|| holder.describe());
            let verb = if note.kind().ends_with("mutex") { "held by" } else { "which is up to" };
            let _ = write!(text, ", {verb} {who}");
        }
        let _ = write!(text, "; it is the one at {:#x}", std::ptr::from_ref(target).addr());
        match &self.stack {
            Some(stack) => _ = write!(text, "\n{}", own_frames(stack, library)),
            None if walk => text.push_str("; its stack has no room to be walked"),
            None => {}
        }
        text
    }
}

/// Bytes between a suspended thread's frames and the end of its stack.
fn room(context: &Context) -> usize {
    let sp = context.sp().addr();
    raddle_context::stack::find(sp).map_or(0, |place| sp.saturating_sub(place.limit))
}

/// Runs the visitor on a parked thread's stack.
///
/// # Safety
/// The thread is off its stack, and nobody resumes it meanwhile.
unsafe fn visit(descriptor: &'static Descriptor, walk: bool) -> Visit {
    // SAFETY: the caller holds the thread (descriptor rule 2).
    let context = unsafe { &*descriptor.context.get() };
    let room = room(context);
    let mut visit = Visit { back: Context::empty(), walk: walk && room >= ROOM_TO_WALK_BYTES, note: None, stack: None };
    if room < ROOM_TO_LOOK_BYTES {
        return visit;
    }
    // A lightweight caller must not be switched away from meanwhile: its processor's mark is held.
    let inside = current().map(crate::carry::switching::enter);
    let home = current_fs();
    // SAFETY: nobody resumes the thread, as promised by the caller; the visitor has room on its stack, as was seen
    // above; it never returns and catches its panics. The malloc words travel with the kernel thread, as at every
    // switch.
    unsafe {
        let visitor = context.visited_by(visitor);
        tls::move_malloc_words(home, visitor.fs());
        switch(&raw mut visit.back, &visitor, (&raw mut visit).expose_provenance());
    }
    if let Some(inside) = inside {
        inside.leave();
    }
    visit
}

unsafe extern "C" fn visitor(visit: usize) -> ! {
    // SAFETY: the argument is the caller's `Visit`, which waits for the switch back.
    let visit = unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Visit>(visit) };
    visit.note = Some(NOTE.try_with(Cell::get).unwrap_or(Note::NOTHING));
    if visit.walk {
        // A panic hook must not take itself for the thread that is visited.
        let hidden = crate::carry::switching::show(std::ptr::null());
        // Frames only: their names are looked up by the caller, which takes a lot of stack.
        visit.stack = std::panic::catch_unwind(Backtrace::force_capture).ok();
        crate::carry::switching::show(hidden);
    }
    // SAFETY: back to the caller, which is suspended in `visit`; nothing of this frame is used again.
    unsafe {
        tls::move_malloc_words(current_fs(), visit.back.fs());
        switch_away(&visit.back, 0)
    }
}

/// Signals that may be caught and that no fault brings, by name: those that a user may name for dumps. The numbers are
/// those of x86-64 and aarch64.
pub const DUMP_SIGNALS: [(&str, i32); 5] = [("HUP", 1), ("QUIT", 3), ("USR1", 10), ("USR2", 12), ("WINCH", 28)];

static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on, the signal makes the monitor dump all threads to standard error: `kill -QUIT PID` with
/// `dump_on_signal(libc::SIGQUIT)`.
///
/// # Errors
/// What `sigaction` says: a signal that cannot be caught, or does not exist.
pub fn dump_on_signal(signal: i32) -> io::Result<()> {
    crate::govern::monitor::start();
    crate::os::on_signal(signal, wanted)
}

/// The handler: a store, and a futex call that is safe in handlers.
pub(crate) extern "C" fn wanted(_: i32) {
    WANTED.store(true, Ordering::Release);
    crate::carry::pool::hint();
}

/// The monitor's part.
pub(crate) fn dump_if_wanted() {
    if WANTED.load(Ordering::Relaxed) && WANTED.swap(false, Ordering::Acquire) {
        let _ = dump(&mut io::stderr(), DumpOptions::default());
    }
}
