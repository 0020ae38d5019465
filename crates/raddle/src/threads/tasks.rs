//! Tasks of a scope: forked by the scope's owner, run by it as plain calls at the end of the scope, or as threads of
//! their own.
//!
//! What a half is to [`join`](crate::join), a task is to a scope: a record, here in the scope itself (or in a box, when
//! the scope's room is used up), of which nobody else knows until it becomes a thread, at the same occasions and within
//! the same bound: see [`crate::threads::forkjoin`]. The owner runs its newest task first, the oldest is made a thread
//! first, so the list of a scope is: an older part that are threads, then a newer part that waits.
//!
//! Who may touch what: the lists belong to the scope's owner. Others fork by spawning. A request of the monitor is a
//! handler on the owner's kernel thread, and stays away while the owner changes a list ([`undisturbed`]). What a task
//! borrows and its record stay until the owner has run it, or joined its thread.

use crate::carry::above::TASKS;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::current;
use crate::threads::forkjoin::{Header, undisturbed};
use crate::threads::members::Member;
use crate::threads::scope::Data;
use raddle_scheduler::code_of_program;
use raddle_scheduler::discard::discard;
use std::cell::{Cell, UnsafeCell};
use std::mem::{MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Words of a scope's own room: a dozen tasks with a few words of closure each. With 24, 96 and 384 `fib by=scope`
/// takes the same instructions to 1 % (2026-11-28, docs/constants.md).
const ROOM_WORDS: usize = 96;

thread_local! {
    /// The newest open scope of the calling thread. Where the list ends is null, or the thread's own place in a scope,
    /// with a mark.
    static SCOPES: Cell<*const Tasks> = const { Cell::new(std::ptr::null()) };
}

/// The lowest bit of the end of the list, where that is a [`Member`].
const MARK: usize = 1;

/// The open scope at a place of the list; none at its end.
///
/// # Safety
/// The place comes from the calling thread's list.
#[inline(always)]
unsafe fn scope_at<'a>(at: *const Tasks) -> Option<&'a Tasks> {
    // SAFETY: null, or an open scope, which lies in a frame of the thread's stack that is alive.
    if at.addr() & MARK == 0 { unsafe { at.as_ref() } } else { None }
}

/// The calling thread's place in the scope that it belongs to, or null.
pub(crate) fn member() -> *const Member {
    let mut at = SCOPES.get();
    // SAFETY: the calling thread's list.
    while let Some(tasks) = unsafe { scope_at(at) } {
        at = tasks.outer.get();
    }
    at.map_addr(|address| address & !MARK).cast()
}

/// True while the calling thread has a scope open.
#[inline(always)]
pub(crate) fn has_open_scope() -> bool {
    // SAFETY: the calling thread's list.
    unsafe { scope_at(SCOPES.get()) }.is_some()
}

/// Names, or with null forgets, the calling thread's place in the scope that it belongs to. It has no scope open.
#[inline(always)]
pub(crate) fn set_member(member: *const Member) {
    // SAFETY: the calling thread's list.
    debug_assert!(unsafe { scope_at(SCOPES.get()) }.is_none(), "a thread begins and ends without a scope of its own");
    let mark = if member.is_null() { 0 } else { MARK };
    undisturbed(|| SCOPES.set(member.map_addr(|address| address | mark).cast()));
}

/// True if a task of the calling thread waits.
#[inline(always)]
pub(crate) fn wait() -> bool {
    TASKS.get() != 0
}

/// A task in its scope's list. `header.older` leads to older tasks.
#[repr(C)]
struct Task {
    header: Header,
    newer: Cell<*const Task>,
    /// Where its scope notes that it panicked.
    panicked: *const AtomicBool,
    /// For one in a box: frees that.
    free: Option<unsafe fn(*const Task)>,
    /// How much of the scope's room was used before it.
    below: usize,
}

#[repr(C)]
struct Closure<F> {
    task: Task,
    work: MaybeUninit<F>,
}

/// The tasks of one scope.
pub(crate) struct Tasks {
    /// Null on a kernel thread, where all is spawned.
    owner: *const Descriptor,
    /// The next older open scope of the owner.
    outer: Cell<*const Tasks>,
    /// The scope's other part.
    data: Cell<*const Data>,
    newest: Cell<*const Task>,
    /// No task older than this one waits. Null: none that is here now.
    oldest: Cell<*const Task>,
    used: Cell<usize>,
    /// How many tasks the owner gave away at once when it last found a processor hungry.
    gift: Cell<usize>,
    room: UnsafeCell<[MaybeUninit<u64>; ROOM_WORDS]>,
}

// SAFETY: other threads only compare `owner` with themselves; the rest is touched by the owner.
unsafe impl Sync for Tasks {}
// A panic leaves the lists whole: no code of the program runs while they change.
impl std::panic::RefUnwindSafe for Tasks {}

impl Tasks {
    /// For a scope of the calling thread.
    pub fn new() -> Self {
        Self {
            owner: current().map_or(std::ptr::null(), std::ptr::from_ref),
            outer: Cell::new(std::ptr::null()),
            data: Cell::new(std::ptr::null()),
            newest: Cell::new(std::ptr::null()),
            oldest: Cell::new(std::ptr::null()),
            used: Cell::new(0),
            gift: Cell::new(0),
            room: UnsafeCell::new([MaybeUninit::uninit(); ROOM_WORDS]),
        }
    }

    /// Makes the scope known to its owner. It lies where it will stay until [`Tasks::close`].
    pub fn open(&self, data: *const Data) {
        if !self.owner.is_null() {
            self.data.set(data);
            self.outer.set(SCOPES.get());
            undisturbed(|| SCOPES.set(self));
        }
    }

    /// The reverse of [`Tasks::open`], when no task is left and no thread of the scope.
    pub fn close(&self) {
        if !self.owner.is_null() {
            debug_assert!(self.newest.get().is_null() && std::ptr::eq(SCOPES.get(), self));
            undisturbed(|| SCOPES.set(self.outer.get()));
        }
    }

    /// Adds a task, or gives `work` back where it has to be spawned: the caller is not the scope's owner.
    ///
    /// # Safety
    /// What `work` borrows and `panicked` live until [`Tasks::finish`] has returned, which is called, and nobody moves
    /// the scope before.
    #[inline]
    pub unsafe fn add<F: FnOnce() + Send>(&self, panicked: *const AtomicBool, work: F) -> Result<(), F> {
        if self.owner.is_null() || !current().is_some_and(|me| std::ptr::eq(me, self.owner)) {
            return Err(work);
        }
        let words = size_of::<Closure<F>>().div_ceil(size_of::<u64>());
        let below = self.used.get();
        let fits = align_of::<Closure<F>>() <= align_of::<u64>() && words <= ROOM_WORDS - below;
        let place: *mut Closure<F> = if fits {
            self.used.set(below + words);
            // SAFETY: below the end of the room, and nobody uses it from `below` on.
            unsafe { self.room.get().cast::<u64>().add(below).cast() }
        } else {
            Box::into_raw(Box::<Closure<F>>::new_uninit()).cast()
        };
        let task = Task {
            header: Header::new(self.newest.get().cast(), execute::<F>),
            newer: Cell::new(std::ptr::null()),
            panicked,
            free: if fits { None } else { Some(free::<F>) },
            below,
        };
        // SAFETY: room or box are large and aligned enough, and nobody else knows the place.
        unsafe { place.write(Closure { task, work: MaybeUninit::new(work) }) };
        let task: *const Task = place.cast();
        crate::threads::requests::note_use();
        undisturbed(|| {
            // SAFETY: the newest task's record, which stays while it is in the list.
            if let Some(newest) = unsafe { self.newest.get().as_ref() } {
                newest.newer.set(task);
            }
            if self.oldest.get().is_null() {
                self.oldest.set(task);
            }
            self.newest.set(task);
            TASKS.set(TASKS.get() + 1);
        });
        Ok(())
    }

    /// Takes the newest task out of the list; true with it if it is a thread.
    #[inline]
    fn pop(&self) -> Option<(*const Task, bool)> {
        undisturbed(|| {
            let place = self.newest.get();
            // SAFETY: as in `add`.
            let task = unsafe { place.as_ref() }?;
            let older: *const Task = task.header.older().cast();
            // SAFETY: null, or a task of this list, which stays until its owner, the caller, takes it out.
            if let Some(older) = unsafe { older.as_ref() } {
                older.newer.set(std::ptr::null());
            }
            if std::ptr::eq(self.oldest.get(), place) {
                self.oldest.set(std::ptr::null());
            }
            self.newest.set(older);
            let promoted = task.header.is_promoted();
            if !promoted {
                TASKS.set(TASKS.get() - 1);
            }
            Some((place, promoted))
        })
    }

    /// Runs what waits, and waits for what became threads. Called by the owner.
    #[inline]
    pub fn finish(&self) {
        while let Some((place, promoted)) = self.pop() {
            // SAFETY: the record stays until it is freed below. (Its room is used again once `execute` has taken the
            // closure out, at the earliest: only the owner uses the room.)
            let (free, below) = unsafe { ((*place).free, (*place).below) };
            if promoted {
                // SAFETY: it stays until it is freed below, and it has become a thread, whose end this waits for.
                unsafe { (*place).header.finish() };
            } else if wait() && crate::threads::scope::hungry() {
                self.feed();
            }
            self.used.set(below);
            if !promoted {
                // SAFETY: out of the list and no thread: nobody else runs it.
                unsafe { execute_here(place) };
            }
            if let Some(free) = free {
                // SAFETY: it has run, and is in no list.
                unsafe { free(place) };
            }
        }
    }

    /// The owner is about to run a task itself, and another processor is hungry: it gets twice as many as last time,
    /// since it had done with those, and at most half of what waits. So the one neither runs dry while the other
    /// computes, nor is more made into threads than was asked for.
    #[cold]
    #[inline(never)]
    fn feed(&self) {
        let half = TASKS.get().div_ceil(2);
        self.gift.set((2 * self.gift.get()).clamp(1, half));
        crate::threads::forkjoin::offer_some(self.gift.get());
    }

    /// Its oldest task that waits.
    fn oldest(&self) -> Option<&Header> {
        // SAFETY: tasks in the list, whose records stay; the caller is the owner, or interrupts it outside
        // `undisturbed`.
        while let Some(task) = unsafe { self.oldest.get().as_ref() } {
            if !task.header.is_promoted() {
                return Some(&task.header);
            }
            self.oldest.set(task.newer.get());
        }
        None
    }
}

/// The oldest task of the calling thread that waits, the address of its scope, and the scope's other part. For the
/// thread itself inside `undisturbed`, or a handler that interrupts it outside.
pub(crate) fn oldest() -> Option<(usize, &'static Header, *const Data)> {
    let mut oldest = None;
    let mut at = SCOPES.get();
    // SAFETY: the calling thread's list; its frames stay alive while the caller goes on.
    while let Some(tasks) = unsafe { scope_at(at) } {
        if let Some(header) = tasks.oldest() {
            oldest = Some((at.addr(), header, tasks.data.get()));
        }
        at = tasks.outer.get();
    }
    oldest
}

/// The calling thread was cancelled: so are the scopes that it has open.
pub(crate) fn cancel_open_scopes() {
    let mut at = SCOPES.get();
    // SAFETY: the calling thread's list.
    while let Some(tasks) = unsafe { scope_at(at) } {
        // SAFETY: the other part of the same scope.
        unsafe { &*tasks.data.get() }.owner_cancelled();
        at = tasks.outer.get();
    }
}

/// One of the calling thread's tasks became a thread.
pub(crate) fn note_promoted() {
    TASKS.set(TASKS.get() - 1);
}

/// The reverse: no thread could be had.
pub(crate) fn note_unpromoted() {
    TASKS.set(TASKS.get() + 1);
}

/// # Safety
/// The task waits and is in no list.
#[inline(always)]
unsafe fn execute_here(place: *const Task) {
    // SAFETY: the header is the task's first field; the rest is the caller's promise.
    unsafe { Header::execute(place.cast()) }
}

unsafe fn execute<F: FnOnce()>(header: *const Header) {
    let closure = header.cast::<Closure<F>>();
    // SAFETY: the record is of this type, and is run once. What comes after does not use it: the owner may reuse its
    // room.
    let (work, panicked) = unsafe { ((*closure).work.assume_init_read(), (*closure).task.panicked) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| code_of_program::call(work))) {
        // SAFETY: the scope's, which waits for the task. Relaxed: read after the end of the task, by its owner or after
        // a join.
        unsafe { &*panicked }.store(true, Ordering::Relaxed);
        discard(payload);
    }
}

unsafe fn free<F>(task: *const Task) {
    // SAFETY: made by `add` as a box of this type; the closure was taken out.
    drop(unsafe { Box::<MaybeUninit<Closure<F>>>::from_raw(task.cast_mut().cast()) });
}
