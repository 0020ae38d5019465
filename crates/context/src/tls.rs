//! Blocks of thread-local storage: the C library's view of a thread, built for lightweight threads.
//!
//! A block is what glibc allocates at the end of a kernel thread's stack: the initialised TLS variables of all modules
//! loaded at start, room for some loaded later, and its own `struct pthread` (the TCB). The thread pointer points into
//! it. Blocks are built in memory of the caller's, table of modules (dtv) included, as the loader built a first one for
//! us: its functions are found by name; where a field of `struct pthread` lies is read at run time from
//! the descriptors that glibc exports for debuggers, and checked by use ([`init`]).
//!
//! Life of a block: [`Tls::prepare`] once, on zeroed memory; [`Tls::begin`] on the thread as the first thing it does;
//! the thread runs; [`Tls::run_destructors`] on it as the last; [`Tls::renew`] before the next thread uses it.
//! `prepare` and `renew` neither lock nor allocate, so they may be called where nothing may block; `begin` and
//! `run_destructors` ask the loader when libraries were loaded meanwhile, and free what the thread had of them.
//!
//! The table has room for [`TABLE_ENTRIES`] modules, in memory that is touched as it is used: the loader would grow a
//! shorter one with its own allocator, whose memory it is not.
//!
//! Two words of a block belong to no thread: the pointers to malloc's cache and arena ([`MallocWords`]). They follow
//! the kernel thread: whoever switches moves them ([`move_malloc_words`]), so that a parked thread holds no cache.
//!
//! A library that is loaded at run time with *static* TLS (rare: it is refused beyond a small surplus) is initialised
//! by the loader in all blocks that are prepared, whose threads live or not: they are in its list of threads
//! ([`Tls::reaches_live_threads`] says whether they are).
//!
//! Known limits. `strerror` and the
//! resolver keep small buffers per block, not per thread.
//!
//! # Example
//! ```
//! let tls = raddle_context::tls::init().expect("a supported C library");
//! println!("a block takes {} bytes", tls.block_size());
//! ```

mod check;
mod image;
mod layout;
mod numbers;
mod robust;
mod tables;
mod threads;

use crate::switch;
use core::ffi::c_void;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use image::Image;
use layout::{DTV_UNALLOCATED, DtvEntry, KeyData, Layout};
pub use numbers::forked;
use raddle_machine::{Machine, Real};
use std::sync::OnceLock;
use threads::{Sweep, Threads};

/// Libraries with thread-local storage that a process may have loaded at once, where the caller of [`Tls::prepare`]
/// gives [`Tls::table_reach`] bytes. Linux programs with more than a few dozen are not known to us.
pub const TABLE_ENTRIES: usize = 1024;

/// Why lightweight threads with their own thread-local storage cannot be had here. Displays as one line that names the
/// cause and what is used instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// What did not match.
    pub reason: String,
}

impl Unsupported {
    fn new(reason: impl Into<String>) -> Self {
        Unsupported { reason: reason.into() }
    }
}

/// A limit of the process or its user, not the C library, is in the way.
const NO_KERNEL_THREAD: &str = "no kernel thread can be started";

/// The reason where the user wants no lightweight threads.
pub const KERNEL_THREADS_ASKED_FOR: &str = "RADDLE_KERNEL_THREADS=1";

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.contains(NO_KERNEL_THREAD) {
            return f.write_str(
                "lightweight threads need a kernel thread, and none can be started (RLIMIT_NPROC, pids.max?); one kernel thread per thread is used",
            );
        }
        if self.reason == KERNEL_THREADS_ASKED_FOR {
            return write!(f, "{KERNEL_THREADS_ASKED_FOR}: one kernel thread per thread is used");
        }
        write!(
            f,
            "lightweight threads are not supported by this C library ({}); one kernel thread per thread is used",
            self.reason
        )
    }
}

impl std::error::Error for Unsupported {}

/// The words of a block in which malloc keeps its cache and its arena, relative to the thread pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MallocWords {
    /// How many of the offsets count: 0 when another allocator is in use or the words were not found.
    pub count: usize,
    /// The offsets from the thread pointer.
    pub offsets: [isize; 2],
}

/// The C library as found by [`init`].
#[derive(Debug)]
pub struct Tls {
    layout: Layout,
    image: Image,
    malloc: MallocWords,
    /// The loader's list of threads, or why our blocks are not in it.
    threads: Result<Threads, Unsupported>,
}

/// Cache lines below the thread pointer that [`Tls::approach`] fetches. Read off a call of `read` under the drop-in
/// library, whose variables begin 304 bytes below.
const APPROACHED: usize = 6;

static TLS: OnceLock<Result<Tls, Unsupported>> = OnceLock::new();

/// Whether there are malloc words to move, and where. A single malloc word is listed twice, which moves it twice.
static MOVE: AtomicBool = AtomicBool::new(false);
static WORDS: [AtomicIsize; 2] = [AtomicIsize::new(0), AtomicIsize::new(0)];

/// Cache lines of the modules' images that are fetched ahead: of a larger image the end goes without.
const FETCHED_IMAGE: usize = 8;

/// Looks at the C library once, checks what this crate relies on by using it, and keeps the result.
///
/// # Errors
/// [`Unsupported`] names the first thing that is not as expected: another C library, another layout, shadow stacks.
pub fn init() -> Result<&'static Tls, Unsupported> {
    TLS.get_or_init(|| {
        numbers::begin();
        let tls = check::find()?;
        if tls.malloc.count > 0 {
            // Ordering: Relaxed: contexts with blocks exist only after `init` has returned, by way of the OnceLock.
            WORDS[0].store(tls.malloc.offsets[0], Ordering::Relaxed);
            WORDS[1].store(tls.malloc.offsets[tls.malloc.count - 1], Ordering::Relaxed);
            MOVE.store(true, Ordering::Relaxed);
        }
        Ok(tls)
    })
    .as_ref()
    .map_err(Clone::clone)
}

/// Moves libc's malloc words from one thread pointer's block to another's: the cache stays with the kernel thread.
///
/// # Safety
/// Both are thread pointers of live blocks (a kernel thread's own, or prepared ones); the block at `to_fs` is not in
/// use by another kernel thread, and the caller is not interrupted by code that allocates before it switches to
/// `to_fs`.
#[inline(always)]
pub unsafe fn move_malloc_words(from_fs: usize, to_fs: usize) {
    // Ordering: Relaxed: set once before any block exists.
    if MOVE.load(Ordering::Relaxed) {
        let (a, b) = (WORDS[0].load(Ordering::Relaxed), WORDS[1].load(Ordering::Relaxed));
        // SAFETY: the offsets were found inside libc's part of every block. Volatile, since malloc reads them behind
        // the compiler's back.
        unsafe {
            let from = from_fs as *const u8;
            let to = to_fs as *mut u8;
            let x = from.offset(a).cast::<usize>().read_volatile();
            let y = from.offset(b).cast::<usize>().read_volatile();
            to.offset(a).cast::<usize>().write_volatile(x);
            to.offset(b).cast::<usize>().write_volatile(y);
        }
    }
}

impl Tls {
    /// Bytes of a block, a multiple of [`Tls::align`].
    pub fn block_size(&self) -> usize {
        self.layout.block_size()
    }

    /// The alignment of a block's two ends.
    pub fn align(&self) -> usize {
        self.layout.align
    }

    /// Where malloc's words are.
    pub fn malloc_words(&self) -> MallocWords {
        self.malloc
    }

    /// Where libc's own TLS variables lie relative to the thread pointer: kept when a block is renewed, since some are
    /// pointers to caches, but for those that a program can see (`errno`, the locale, `dlerror`'s state).
    pub fn libc_range(&self) -> (isize, isize) {
        self.image.libc_range()
    }

    /// Bytes of a block's table of modules that are touched from the start, a multiple of 16.
    pub fn table_size(&self) -> usize {
        self.image.table_size()
    }

    /// Bytes that a table should have within reach.
    pub fn table_reach(&self) -> usize {
        (TABLE_ENTRIES * size_of::<DtvEntry>()).max(self.table_size())
    }

    /// Builds a block in the [`Tls::block_size`] bytes below `area_top`, with a table of modules of `table_bytes` bytes
    /// at `table`, and returns its thread pointer. Neither locks nor allocates.
    ///
    /// # Safety
    /// `area_top` is a multiple of [`Tls::align`], `table` of 16, `table_bytes` at least [`Tls::table_size`]; the bytes
    /// below the one and behind the other are writable, zero, used by nobody else, and stay mapped as long as the
    /// process lives. They may be zeroed for another block once `TakeBack` has had this one and is dropped.
    pub unsafe fn prepare(&self, area_top: *mut u8, table: *mut u8, table_bytes: usize) -> usize {
        // SAFETY: the block and the table are the caller's, zeroed and large enough, and stay.
        unsafe {
            let fs = build(&self.layout, &self.image, area_top, table, table_bytes);
            if let Ok(threads) = &self.threads {
                threads.push(fs);
            }
            fs
        }
    }

    /// Whether libraries with static TLS that are loaded at run time are initialised in threads that live then: `Err`
    /// says why not.
    ///
    /// # Errors
    /// What is not as expected in this C library.
    pub fn reaches_live_threads(&self) -> Result<(), &Unsupported> {
        self.threads.as_ref().map(|_| ())
    }

    /// Begins to take blocks back; `None` where somebody else keeps the loader's lock.
    pub(crate) fn take_back(&self) -> Option<TakeBack<'_>> {
        let sweep = match &self.threads {
            Ok(threads) => Some((0..threads::LOCK_TRIES).find_map(|_| threads.sweep())?),
            Err(_) => None,
        };
        Some(TakeBack { tls: self, sweep })
    }
    /// What a thread does first, on itself, where it may block: if libraries were loaded since its block was written,
    /// it takes what they have in static TLS. True if it did: then TLS variables of such libraries are as new.
    ///
    /// # Safety
    /// `fs` is the caller's own thread pointer, of a block that came from [`Tls::prepare`]; the thread has run no code
    /// of its program yet.
    #[inline]
    pub unsafe fn begin(&self, fs: usize) -> bool {
        // SAFETY: the caller's own block.
        unsafe {
            let behind = self.image.is_behind(&self.layout, fs as *mut u8);
            if behind {
                self.image.catch_up(&self.layout, fs as *mut u8);
            }
            behind
        }
    }

    /// Makes a used block equal to a fresh one: TLS variables as in the modules' images, no thread-specific data, no
    /// memory for libraries loaded at run time. libc's own part is kept (its caches survive) but for what a program can
    /// see. Does not ask the loader: the thread that uses the block next does, by [`Tls::begin`].
    ///
    /// # Safety
    /// `fs` came from [`Tls::prepare`] and the thread that used it has run [`Tls::run_destructors`] (or has never run).
    /// If it is the caller's own block, the caller uses no TLS variable of its own afterwards.
    pub unsafe fn renew(&self, fs: usize) {
        let block = fs as *mut u8;
        // SAFETY: all offsets were found inside the block, which the caller owns.
        unsafe {
            let is_plain = self.image.write(&self.layout, block);
            self.image.reset_libc_part(block);
            self.layout.reset_cancellation(block);
            if !is_plain || self.layout.specific_used(block) || numbers::are_suspect() {
                self.renew_rest(block);
            }
        }
    }

    /// What [`Tls::renew`] has to do seldom.
    ///
    /// # Safety
    /// As for [`Tls::renew`].
    #[inline(never)]
    unsafe fn renew_rest(&self, block: *mut u8) {
        // SAFETY: as for the caller.
        unsafe {
            self.image.write_below(&self.layout, block);
            self.reset_dtv(block);
            if self.layout.specific_used(block) {
                self.layout.clear_specific(block);
            }
            if numbers::are_suspect() {
                self.renumber(block);
            }
        }
    }

    /// Brings closer what [`Tls::renew`] and a thread's first steps touch of the block below `area_top`, which may be
    /// somebody else's.
    #[inline]
    pub(crate) fn fetch(&self, area_top: *mut u8) {
        let fs = area_top.addr() - self.layout.fs_below_top();
        for offset in self.layout.renewed() {
            Real::prefetch(fs.wrapping_add_signed(offset));
        }
        let (low, end) = self.image.written();
        for offset in (low..end).step_by(64).take(FETCHED_IMAGE) {
            Real::prefetch(fs.wrapping_add_signed(offset));
        }
    }

    /// Brings closer what a thread touches first that was suspended for long, beside its stack: variables of libraries
    /// near its thread pointer, malloc's words, and its table of modules. Nothing is read; `fs` may have gone to
    /// another thread meanwhile.
    #[inline]
    pub fn approach(&self, fs: usize) {
        (0..APPROACHED).for_each(|line| Real::prefetch(fs.wrapping_sub(64 * line)));
        if MOVE.load(Ordering::Relaxed) {
            WORDS.iter().for_each(|word| Real::prefetch(fs.wrapping_add_signed(word.load(Ordering::Relaxed))));
        }
        Real::prefetch(fs.wrapping_add(self.layout.fs_below_top() + crate::stack::HEADER));
    }

    /// Forgets what the block held of libraries loaded at run time.
    ///
    /// # Safety
    /// As for [`Tls::renew`].
    unsafe fn reset_dtv(&self, block: *mut u8) {
        let (first, last) = self.image.dynamic_modules();
        if first > last {
            return;
        }
        // SAFETY: the loader keeps the number of entries in front of the dtv.
        unsafe {
            let dtv = self.layout.dtv(block);
            let length = dtv.sub(1).read().value;
            for module in first..=last.min(length) {
                let entry = dtv.add(module);
                let DtvEntry { value, to_free } = entry.read();
                if value != DTV_UNALLOCATED && !self.image.is_static(module) {
                    entry.write(DtvEntry { value: DTV_UNALLOCATED, to_free: 0 });
                    libc::free(to_free as *mut c_void);
                }
            }
        }
    }

    /// Destructors of C++ and Rust thread-local variables, then those of POSIX thread-specific data (up to four
    /// rounds); then robust mutexes that the thread holds are marked.
    ///
    /// # Safety
    /// Runs on the thread whose block is current; its program's code uses no TLS variable with a destructor afterwards.
    pub unsafe fn end_variables(&self) {
        // SAFETY: the caller's block.
        unsafe { self.end_variables_of(switch::current_fs() as *mut u8) };
    }

    /// # Safety
    /// As for [`Tls::end_variables`]; `block` is the caller's.
    #[inline(always)]
    unsafe fn end_variables_of(&self, block: *mut u8) {
        // SAFETY: the functions and offsets are those of this libc, the block is the caller's.
        unsafe {
            (self.layout.call_tls_dtors)();
            if self.layout.specific_used(block) {
                self.run_key_destructors(block);
            }
            self.layout.leave_robust(block);
        }
    }

    /// What a thread does last, on itself: [`Tls::end_variables`], then what libc would carry into the next thread;
    /// what libraries loaded at run time had for it is freed.
    ///
    /// # Safety
    /// Runs on the thread whose block is current, once; no TLS variable with a destructor is used afterwards.
    pub unsafe fn run_destructors(&self) {
        let block = switch::current_fs() as *mut u8;
        // SAFETY: the functions and offsets are those of this libc, the block is the caller's.
        unsafe {
            self.end_variables_of(block);
            self.image.tidy_libc_part(block);
            if !self.image.is_as_started() {
                self.leave_libraries(block);
            }
        }
    }

    /// Frees what libraries loaded at run time had for the thread: here and not in [`Tls::renew`], which may not block.
    ///
    /// # Safety
    /// As for [`Tls::run_destructors`].
    #[inline(never)]
    unsafe fn leave_libraries(&self, block: *mut u8) {
        self.image.refresh_if_stale(&self.layout);
        // SAFETY: the caller's own block, whose thread uses no variable of those any more.
        unsafe { self.reset_dtv(block) };
    }

    #[cold]
    #[inline(never)]
    unsafe fn run_key_destructors(&self, block: *mut u8) {
        let layout = &self.layout;
        // SAFETY: the tables are those of this libc; destructors are the program's own.
        unsafe {
            for _round in 0..libc_destructor_rounds() {
                layout.set_specific_used(block, false);
                for level1 in 0..layout.key_blocks {
                    let keys = layout.specific(block, level1).read();
                    if keys.is_null() {
                        continue;
                    }
                    for level2 in 0..layout.keys_per_block {
                        let data: *mut KeyData = keys.add(level2);
                        let KeyData { seq, value } = data.read();
                        if value.is_null() {
                            continue;
                        }
                        (*data).value = core::ptr::null_mut();
                        let key = layout.keys.add(level1 * layout.keys_per_block + level2).read_volatile();
                        if key.seq == seq
                            && let Some(destructor) = key.destructor
                        {
                            destructor(value);
                        }
                    }
                }
                if !layout.specific_used(block) {
                    break;
                }
            }
            layout.clear_specific(block);
            // A key destructor may have used a variable with a destructor for the first time.
            (layout.call_tls_dtors)();
        }
    }
}

/// Builds a block below `area_top`, in nobody's list.
///
/// # Safety
/// As for [`Tls::prepare`], but the memory need not stay longer than the block is used.
unsafe fn build(layout: &Layout, image: &Image, area_top: *mut u8, table: *mut u8, table_bytes: usize) -> usize {
    let fs = area_top.wrapping_sub(layout.fs_below_top());
    debug_assert!(area_top.addr().is_multiple_of(layout.align));
    debug_assert!(table.addr().is_multiple_of(align_of::<DtvEntry>()) && table_bytes >= image.table_size());
    // SAFETY: the block and the table are the caller's, zeroed and large enough.
    unsafe {
        layout.write_header(fs);
        layout.write_identity(fs, numbers::next());
        image.write_libc_part(fs);
        image.build(layout, fs, table, table_bytes);
    }
    fs.addr()
}

/// Takes blocks back whose memory shall go: when it is dropped, nobody looks at them any more.
pub(crate) struct TakeBack<'a> {
    tls: &'a Tls,
    sweep: Option<Sweep<'a>>,
}

impl TakeBack<'_> {
    /// Gives back what a block holds outside itself, and has it forgotten.
    ///
    /// # Safety
    /// As for [`Tls::renew`]; the block is not the caller's own, and is prepared anew before it is used again.
    pub unsafe fn take(&self, fs: usize) {
        // SAFETY: the caller's conditions.
        unsafe {
            self.tls.renew(fs);
            if let Some(sweep) = &self.sweep {
                sweep.doom(fs);
            }
        }
    }
}

/// PTHREAD_DESTRUCTOR_ITERATIONS of glibc.
fn libc_destructor_rounds() -> usize {
    4
}

/// Says why on standard error and aborts: for failures after the point at which an error could be returned.
#[cold]
pub(crate) fn fatal(message: &str) -> ! {
    let mut line = crate::overflow::Line::new();
    let _ = fmt::Write::write_fmt(&mut line, format_args!("raddle: {message}\n"));
    line.send();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
