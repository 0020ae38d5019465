//! The loader's list of threads, with the blocks of lightweight threads in it.
//!
//! A library with static TLS that is loaded at run time is initialised by the loader in each thread of a list of its
//! own, under a lock of its own. Blocks that are in that list are served like any kernel thread's, whether their thread
//! runs, waits or has yet to start; also debuggers find them there.
//!
//! Nothing that must not block may take that lock. So two blocks that nobody runs on, *first* and *last*, are linked in
//! under the lock once, at start, one right behind the other. The loader puts new threads in front of all others, and
//! takes out its own only, so what lies between the two is ours for ever: it reads there and never writes. New blocks
//! are pushed behind *first*, by one compare-exchange; the loader walks forward only, so there is no second link to
//! keep.
//!
//! Roles: pushers; the loader, a reader, inside its lock; a sweeper, inside the same lock, which it only tries to take.
//!
//! Words of a node: `next`, which the loader follows; `prev`, which it uses for its own nodes only: here it points to
//! the node itself, or is 0 once the node is to be swept ([`Sweep::doom`]).
//!
//! I1. Between `first` and `last` there are nodes of blocks in memory that stays mapped.
//! I2. Only the holder of the lock writes the `next` of a node in the list, but for that of *first*, which changes by
//!     compare-exchange.
//! I3. Memory of a node goes back to the system only after a sweep that began after it was doomed.
//!
//! Progress: `push` is lock-free, `Sweep` gives up where the lock is held. The child of a fork gets new lists from the
//! C library, with itself alone in them: what hangs behind *first* there is read by nobody.
//!
//! Where the lock lies is known by its distance from the list; that it is there is proved by use ([`Threads::find`]): a
//! kernel thread that creates another must wait as long as we hold it. If it is not there, nothing is linked, and such
//! libraries read zeros in threads that live when they are loaded.
//!
//! | edge | from | to |
//! |---|---|---|
//! | `threads` | the compare-exchange of `push` (SeqCst) | the sweeper's load; the loader's reading, which is not ours to tag |

use super::Unsupported;
use super::image::Image;
use super::layout::{Layout, Libc};
use crate::switch;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// From the list of threads on stacks that are not libc's to the lock: the list itself, the list of unused stacks, the
/// size of those and a word for fork.
const LOCK_BEHIND_LIST: usize = 16 + 16 + 8 + 8;

/// A node of a list, as libc has it.
#[repr(C)]
struct Node {
    next: AtomicUsize,
    prev: AtomicUsize,
}

/// See the module's description.
#[derive(Debug)]
pub struct Threads {
    /// Addresses of nodes and of the lock, which live as long as the process.
    first: usize,
    last: usize,
    lock: usize,
    /// From a thread pointer to its node.
    node: isize,
    process: u32,
}

impl Threads {
    /// Finds the list and its lock and links the two end blocks in.
    ///
    /// # Errors
    /// What is not as expected; nothing was linked then.
    pub fn find(libc_so: &Libc, layout: &Layout, image: &Image) -> Result<Threads, Unsupported> {
        let global = libc_so.need(c"_rtld_global")?.addr();
        let list = |name: &CStr| -> Result<usize, Unsupported> {
            let descriptor = libc_so.need(name)?;
            // SAFETY: a descriptor of three words.
            Ok(global + unsafe { descriptor.cast::<[u32; 3]>().read() }[2] as usize)
        };
        let user = list(c"_thread_db_rtld_global__dl_stack_user")?;
        let used = list(c"_thread_db_rtld_global__dl_stack_used")?;
        let lock = user + LOCK_BEHIND_LIST;
        if lock + 4 > global + size_of_symbol(global)? {
            return Err(Unsupported::new("the lock of the list of threads is elsewhere"));
        }
        let mut threads = Threads { first: 0, last: 0, lock, node: layout.list_node(), process: std::process::id() };
        threads.prove(libc_so)?;
        threads.first = threads.end_block(layout, image)?;
        threads.last = threads.end_block(layout, image)?;
        let Some(held) = (0..LOCK_TRIES).find_map(|_| threads.try_lock()) else {
            return Err(Unsupported::new("the lock of the list of threads is not to be had"));
        };
        let own = switch::current_fs().wrapping_add_signed(threads.node);
        // SAFETY: the lists are libc's, whole while we hold its lock.
        let linked = unsafe {
            if reaches(user, own) || reaches(used, own) {
                let (head, first, last) = (node(user), node(threads.first), node(threads.last));
                let old = head.next.load(Ordering::Relaxed);
                last.next.store(old, Ordering::Relaxed);
                last.prev.store(threads.first, Ordering::Relaxed);
                first.next.store(threads.last, Ordering::Relaxed);
                first.prev.store(user, Ordering::Relaxed);
                node(old).prev.store(threads.last, Ordering::Relaxed);
                // Ordering[threads]: Release, for debuggers and a child of fork, which take no lock. Pairs with no load
                // here.
                head.next.store(threads.first, Ordering::Release);
                true
            } else {
                false
            }
        };
        drop(held);
        if linked { Ok(threads) } else { Err(Unsupported::new("the list of threads is not as expected")) }
    }

    /// Puts a prepared block into the list.
    ///
    /// # Safety
    /// The block at `fs` is prepared, is not in the list, and stays mapped as long as the process (I1, I3).
    pub unsafe fn push(&self, fs: usize) {
        let own = fs.wrapping_add_signed(self.node);
        // SAFETY: inside the block, and the node of `first`, which stays.
        unsafe {
            let (own_node, first) = (node(own), node(self.first));
            own_node.prev.store(own, Ordering::Relaxed);
            let mut next = first.next.load(Ordering::Relaxed);
            loop {
                own_node.next.store(next, Ordering::Relaxed);
                // Ordering[threads]: SeqCst. Pairs with the load in `Sweep::drop`. Makes visible: the node. SeqCst,
                // since the thread that starts here then looks whether a library was loaded: either it sees that, or
                // the loader sees the node.
                match first.next.compare_exchange_weak(next, own, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => next = now,
                }
            }
        }
    }

    /// Begins to take nodes out; `None` when somebody holds the loader's lock.
    pub fn sweep(&self) -> Option<Sweep<'_>> {
        let held = self.try_lock()?;
        Some(Sweep { threads: self, alone: std::process::id() != self.process, _held: held })
    }

    /// A block for an end of our part: prepared, in memory that stays, run on by nobody.
    fn end_block(&self, layout: &Layout, image: &Image) -> Result<usize, Unsupported> {
        let table = image.table_size().next_multiple_of(layout.align);
        let bytes = (layout.block_size() + table).next_multiple_of(4096);
        // SAFETY: a new mapping, large enough for a block and its table.
        unsafe {
            let memory = libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED {
                return Err(Unsupported::new("no memory"));
            }
            let top = memory.cast::<u8>().add(bytes - table);
            Ok(super::build(layout, image, top, top, table).wrapping_add_signed(self.node))
        }
    }

    /// Shows that the lock is where we think: while we hold it, a kernel thread that creates another one comes to wait
    /// for it.
    fn prove(&self, libc_so: &Libc) -> Result<(), Unsupported> {
        struct Request {
            create: super::image::Create,
            join: super::image::Join,
            go: AtomicBool,
            done: AtomicBool,
        }
        extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
            core::ptr::null_mut()
        }
        extern "C" fn creator(request: *mut c_void) -> *mut c_void {
            // SAFETY: the request outlives this kernel thread, which is joined; libc's own functions.
            unsafe {
                let request = &*request.cast::<Request>();
                // Ordering[proof]: Acquire. Pairs with the Release of `go`. Makes visible: that the lock is held.
                while !request.go.load(Ordering::Acquire) {
                    libc::sched_yield();
                }
                let mut thread = 0;
                if super::image::start_small(request.create, &mut thread, nothing, core::ptr::null_mut()) {
                    (request.join)(thread, core::ptr::null_mut());
                }
                // Ordering[proof]: Release. Pairs with the Acquire of `done`. Makes visible: that it did not wait.
                request.done.store(true, Ordering::Release);
            }
            core::ptr::null_mut()
        }
        // SAFETY: the types are libc's.
        let (create, join) = unsafe { (libc_so.function(c"pthread_create")?, libc_so.function(c"pthread_join")?) };
        let request = Request { create, join, go: AtomicBool::new(false), done: AtomicBool::new(false) };
        let argument = (&raw const request).cast_mut().cast::<c_void>();
        let mut thread = 0;
        // SAFETY: the request is shared by reference until the join.
        if !unsafe { super::image::start_small(request.create, &mut thread, creator, argument) } {
            return Err(Unsupported::new(super::NO_KERNEL_THREAD));
        }
        let held = (0..LOCK_TRIES).find_map(|_| self.try_lock());
        // Ordering[proof]: Release. Pairs with the Acquire in `creator`. Makes visible: that the lock is held.
        request.go.store(true, Ordering::Release);
        let mut proved = false;
        // Ordering[proof]: Acquire. Pairs with the Release in `creator`.
        while held.is_some() && !proved && !request.done.load(Ordering::Acquire) {
            proved = self.lock_word().load(Ordering::Relaxed) == CONTENDED;
            // SAFETY: lets the other one come to it.
            unsafe { libc::sched_yield() };
        }
        drop(held);
        // SAFETY: joined once.
        unsafe { (request.join)(thread, core::ptr::null_mut()) };
        if proved { Ok(()) } else { Err(Unsupported::new("the lock of the list of threads is elsewhere")) }
    }

    fn lock_word(&self) -> &AtomicU32 {
        // SAFETY: inside the loader's data, which lives as long as the process.
        unsafe { &*(self.lock as *const AtomicU32) }
    }

    fn try_lock(&self) -> Option<Held<'_>> {
        // Ordering[loader]: Acquire. Pairs with the Release of whoever held it: the loader, or `Held::drop`. Makes
        // visible: the lists.
        let taken = self.lock_word().compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            // SAFETY: nothing to pass.
            unsafe { libc::sched_yield() };
        }
        taken.ok().map(|_| {
            // Who else takes this lock is not instrumented: what it keeps in order would look like races.
            #[cfg(raddle_tsan)]
            crate::tsan::look_away();
            Held(self.lock_word())
        })
    }
}

/// How often the lock is tried, which others hold for moments only. So many vain tries take 64 µs, and a thread of the
/// C library's is created in 4, of which it holds the lock for a part (2026-11-28, `cas` of docs/constants.md).
pub(super) const LOCK_TRIES: u32 = 10_000;

/// The states of libc's simple lock.
const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// The loader's lock, while we have it.
struct Held<'a>(&'a AtomicU32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        #[cfg(raddle_tsan)]
        crate::tsan::look_again();
        // Ordering[loader]: Release. Pairs with the Acquire in `try_lock`, and the loader's. Makes visible: the lists.
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
            let arguments = [self.0.as_ptr().expose_provenance(), operation, 1, 0, 0, 0];
            // Not by libc's function: a drop-in library that takes its place knows only those who wait through it.
            // SAFETY: wakes one waiter of the lock, as libc does.
            unsafe { raddle_machine::raw::system_call(libc::SYS_futex as usize, arguments) };
        }
    }
}

/// Nodes are taken out when it is dropped.
pub struct Sweep<'a> {
    threads: &'a Threads,
    /// In a child of fork there is no list to keep whole.
    alone: bool,
    _held: Held<'a>,
}

impl Sweep<'_> {
    /// Has a block's node taken out.
    ///
    /// # Safety
    /// The block at `fs` was pushed; no thread runs on it.
    pub unsafe fn doom(&self, fs: usize) {
        // SAFETY: inside the block.
        unsafe { node(fs.wrapping_add_signed(self.threads.node)) }.prev.store(0, Ordering::Relaxed);
    }
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        if self.alone {
            return;
        }
        let threads = self.threads;
        // SAFETY: nodes in the list are in mapped memory (I1), and nobody else writes them (I2).
        unsafe {
            let first = node(threads.first);
            let mut before = threads.first;
            loop {
                // Ordering[threads]: Acquire. Pairs with the compare-exchange in `push`. Makes visible: the node.
                let here = node(before).next.load(Ordering::Acquire);
                if here == threads.last {
                    return;
                }
                if node(here).prev.load(Ordering::Relaxed) != 0 {
                    before = here;
                    continue;
                }
                let next = node(here).next.load(Ordering::Relaxed);
                if before != threads.first {
                    node(before).next.store(next, Ordering::Relaxed);
                } else {
                    // Relaxed: the node behind was visible to us. When somebody pushed meanwhile, it is `here` no
                    // longer, and we look again.
                    let _ = first.next.compare_exchange(here, next, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
    }
}

/// # Safety
/// The address is of a node in memory that stays mapped while the reference is used.
unsafe fn node<'a>(address: usize) -> &'a Node {
    // SAFETY: the caller's condition; a node's words are only reached by atomics here, and by libc inside its lock.
    unsafe { &*(address as *const Node) }
}

/// Whether a list of libc's is whole as far as `wanted` and has it.
///
/// # Safety
/// `list` is the head of a list, and nobody changes it.
unsafe fn reaches(list: usize, wanted: usize) -> bool {
    let mut here = list;
    loop {
        // SAFETY: as the caller says.
        let next = unsafe { node(here) }.next.load(Ordering::Relaxed);
        // SAFETY: a link that is not 0 leads to a node of the same list.
        if next == 0 || unsafe { node(next) }.prev.load(Ordering::Relaxed) != here || next == list {
            return false;
        }
        if next == wanted {
            return true;
        }
        here = next;
    }
}

/// Bytes of the object that a symbol names.
fn size_of_symbol(address: usize) -> Result<usize, Unsupported> {
    #[repr(C)]
    struct Symbol {
        name: u32,
        info: u8,
        other: u8,
        section: u16,
        value: u64,
        size: u64,
    }
    /// What `dladdr1` is asked for: the entry in the table of symbols.
    const SYMBOL: c_int = 1;
    let mut symbol: *mut Symbol = core::ptr::null_mut();
    // SAFETY: fills in what it is given room for; the entry is in a table that stays mapped.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = libc::dladdr1(address as *const c_void, &mut info, (&raw mut symbol).cast(), SYMBOL);
        if found == 0 || symbol.is_null() || info.dli_saddr.addr() != address {
            return Err(Unsupported::new("the loader's data has no size"));
        }
        Ok((*symbol).size as usize)
    }
}
