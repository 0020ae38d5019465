//! The flattened image of all modules' TLS, as a fresh thread has it.
//!
//! The loader initialises a block module by module, under its lock, and allocates the block's table of modules (dtv).
//! We let it do so once, on a scratch block, and from then on copy the result, table included, into memory of our own:
//! making a block neither locks nor allocates. A new image is made only where a thread may block: when one begins or
//! ends ([`Image::catch_up`]). libc's own part lies inside that range and is treated apart: it holds pointers into
//! caches that must survive (or leak), and some words that libc's thread start function sets up. Those are captured
//! from a real kernel thread at its first instruction, and words that point into its own block are moved to the new
//! one.
//!
//! Libraries loaded later can only add static TLS by taking a module number; the loader's table entry for the next free
//! number, and those of modules that came after start, are watched: a few loads for each thread that begins.

use super::Unsupported;
use super::layout::{DTV_UNALLOCATED, DtvEntry, Layout, Libc};
use super::tables::{Tables, modules};
use crate::switch;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// `LC_GLOBAL_LOCALE`, which the `libc` crate lacks.
const GLOBAL_LOCALE: libc::locale_t = core::ptr::without_provenance_mut(usize::MAX);

/// What a block consists of at some moment of the loader's life.
#[derive(Debug, Default)]
struct Snapshot {
    /// Start of `bytes` relative to the thread pointer.
    low: isize,
    bytes: Vec<u8>,
    /// Words of the loader's tables and what they held: when one differs, the snapshot is stale. The first two, which
    /// are all where no library with TLS came after the start, lie here, so that looking at them is no loop.
    watch: [(usize, usize); 2],
    watch_rest: Vec<(usize, usize)>,
    /// Module numbers (index) with static TLS.
    statics: Vec<bool>,
    /// Where the static TLS of modules lies that came after start: its first byte, relative to the thread pointer, and
    /// its length.
    later: Vec<(isize, usize)>,
    /// The state of the loader's tables that `table` is for.
    generation: usize,
    /// The table of modules, from number 1.
    table: Vec<Entry>,
    /// The range of module numbers that may have memory of their own in a dtv.
    first_dynamic: usize,
    last_dynamic: usize,
    /// No library with TLS has come since the start, so far as this knows: nothing but `watch` is to be looked at.
    is_fixed: bool,
    /// Besides, no module's TLS lies below libc's: a renewal copies one range.
    is_plain: bool,
    /// The bytes above libc's: where in `bytes`, and how many.
    above: usize,
    above_length: usize,
}

/// What a fresh block's table of modules says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// There is none.
    None,
    /// Its memory is allocated when it is first used.
    Dynamic,
    /// It lies in the block, so far from the thread pointer.
    Static(isize),
}

/// Entries of a table of modules that are not modules': the snapshot's address, the length, the generation.
const TABLE_HEAD: usize = 3;
/// Room beside the modules of the start that is near at hand, for libraries loaded later.
const TABLE_SPARE: usize = 6;

/// See the module's description.
#[derive(Debug)]
pub struct Image {
    /// Replaced when stale, never freed: others may be copying it. As many are lost as libraries with TLS are loaded.
    current: AtomicPtr<Snapshot>,
    tables: Tables,
    libc_start: isize,
    libc_bytes: Vec<u8>,
    /// Words of `libc_bytes` that are relative to the thread pointer.
    relative: Vec<usize>,
    /// Modules at start.
    modules: usize,
    errno: isize,
    /// As `errno` where libc has none of its own.
    h_errno: isize,
    dlerror: Option<isize>,
}

impl Image {
    pub fn capture(libc_so: &Libc, layout: &Layout) -> Result<Image, Unsupported> {
        let tables = Tables::find(libc_so)?;
        let fs = switch::current_fs();
        // SAFETY: the caller's own errno.
        let errno = (unsafe { libc::__errno_location() }.addr()).wrapping_sub(fs) as isize;
        let modules = modules();
        let offset_of = |module| tables.static_offset(module);
        let libc_module = modules
            .iter()
            .find_map(|&(module, size)| {
                let start = offset_of(module)?;
                (start..start + size as isize).contains(&errno).then_some((start, size))
            })
            .ok_or_else(|| Unsupported::new("errno is not in the TLS of any loaded module"))?;
        let (libc_start, libc_size) = (libc_module.0, libc_module.1.next_multiple_of(8));
        let (low, high) = layout.extent();
        if libc_start < low || libc_start + libc_size as isize > high || libc_start % 8 != 0 {
            return Err(Unsupported::new("libc's TLS lies outside the static block"));
        }
        let captured = capture_libc(libc_so, libc_start, libc_size)?;
        let relative = (0..libc_size / 8)
            .filter(|&word| {
                let distance = word_at(&captured.bytes, word).wrapping_sub(captured.fs) as isize;
                (low..high + 16384).contains(&distance)
            })
            .collect::<Vec<_>>();
        let mut libc_bytes = captured.bytes;
        for &word in &relative {
            let value = word_at(&libc_bytes, word).wrapping_sub(captured.fs);
            libc_bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let own = |name| libc_so.find(name).map(|address| address.addr().wrapping_sub(fs) as isize);
        let inside = |offset: &isize| (libc_start..libc_start + libc_size as isize).contains(offset);
        let image = Image {
            current: AtomicPtr::new(core::ptr::null_mut()),
            tables,
            libc_start,
            libc_bytes,
            relative,
            modules: modules.iter().map(|&(module, _)| module).max().unwrap_or(0),
            errno,
            h_errno: own(c"__h_errno").filter(inside).unwrap_or(errno),
            dlerror: own(c"__libc_dlerror_result").filter(inside),
        };
        image.rebuild(layout)?;
        for (module, _) in modules {
            let expected = image.tables.static_offset(module).map_or(Entry::Dynamic, Entry::Static);
            if image.snapshot().table.get(module - 1) != Some(&expected) {
                return Err(Unsupported::new("the table of modules (dtv) is not as expected"));
            }
        }
        Ok(image)
    }

    #[inline]
    fn snapshot(&self) -> &Snapshot {
        // Ordering[image]: Acquire. Pairs with the Release in `rebuild`. Makes visible: the snapshot's contents.
        // SAFETY: set before the image is handed out, never freed.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// libc's range relative to the thread pointer.
    pub fn libc_range(&self) -> (isize, isize) {
        (self.libc_start, self.libc_start + self.libc_bytes.len() as isize)
    }

    /// From where to where a renewal writes, relative to the thread pointer; libc's range lies within.
    #[inline]
    pub fn written(&self) -> (isize, isize) {
        let snapshot = self.snapshot();
        (snapshot.low, snapshot.low + snapshot.bytes.len() as isize)
    }

    /// Zeroes words of the captured libc part: those that belong to malloc.
    pub fn forget_words(&mut self, offsets: &[isize]) {
        for offset in offsets {
            let at = (offset - self.libc_start) as usize;
            self.libc_bytes[at..at + 8].fill(0);
        }
    }

    /// First and last module number that may have memory of its own in a dtv; first > last when there are none.
    #[inline]
    pub fn dynamic_modules(&self) -> (usize, usize) {
        let snapshot = self.snapshot();
        (snapshot.first_dynamic, snapshot.last_dynamic)
    }

    pub fn is_static(&self, module: usize) -> bool {
        self.snapshot().statics.get(module).copied().unwrap_or(false)
    }

    /// Copies the images of the modules above libc's into a block that was built before. True if those were all, and no
    /// library with TLS has come since the start: otherwise [`Image::write_below`] is to follow, and the table of
    /// modules to be looked at.
    ///
    /// # Safety
    /// `block` is a thread pointer into a block that the caller owns.
    #[inline]
    pub unsafe fn write(&self, layout: &Layout, block: *mut u8) -> bool {
        let snapshot = self.snapshot();
        // SAFETY: the caller's conditions.
        unsafe {
            Self::origin(layout, block).write(core::ptr::from_ref(snapshot).expose_provenance());
            self.write_above(snapshot, block);
        }
        snapshot.is_plain
    }

    /// As [`Image::write`], of the modules below libc's. Often there are none: libc's part is the lowest where the
    /// program needs no other library with such variables.
    ///
    /// # Safety
    /// As for [`Image::write`], which has been called.
    pub unsafe fn write_below(&self, layout: &Layout, block: *mut u8) {
        // SAFETY: `write` named a snapshot there, and they are never freed; the caller's conditions.
        unsafe {
            let snapshot = Self::origin(layout, block).read();
            self.write_below_from(&*core::ptr::with_exposed_provenance(snapshot), block);
        }
    }

    /// # Safety
    /// As for [`Image::write`].
    #[inline]
    unsafe fn write_above(&self, snapshot: &Snapshot, block: *mut u8) {
        let Snapshot { above, above_length, .. } = *snapshot;
        // SAFETY: the snapshot spans libc's range (checked when it was made) and fits a block.
        unsafe { copy(snapshot.bytes.as_ptr().add(above), block, snapshot.low + above as isize, above_length) };
    }

    /// # Safety
    /// As for [`Image::write`].
    unsafe fn write_below_from(&self, snapshot: &Snapshot, block: *mut u8) {
        let below = (self.libc_start - snapshot.low) as usize;
        // SAFETY: as in `write_above`.
        unsafe { copy(snapshot.bytes.as_ptr(), block, snapshot.low, below) };
    }

    /// libc's part as its thread start function would leave it.
    ///
    /// # Safety
    /// As for [`Image::write`].
    pub unsafe fn write_libc_part(&self, block: *mut u8) {
        // SAFETY: inside the block.
        unsafe {
            let start = block.offset(self.libc_start);
            core::ptr::copy_nonoverlapping(self.libc_bytes.as_ptr(), start, self.libc_bytes.len());
            for &word in &self.relative {
                let at = start.cast::<usize>().add(word);
                at.write(at.read().wrapping_add(block.addr()));
            }
        }
    }

    /// What a program can see of libc's part.
    ///
    /// # Safety
    /// As for [`Image::write`].
    #[inline]
    pub unsafe fn reset_libc_part(&self, block: *mut u8) {
        // SAFETY: offsets inside libc's part.
        unsafe {
            block.offset(self.errno).cast::<c_int>().write(0);
            block.offset(self.h_errno).cast::<c_int>().write(0);
        }
    }

    /// On the thread itself, at its end: what libc would carry over and only libc can undo.
    ///
    /// # Safety
    /// `block` is the caller's own.
    #[inline]
    pub unsafe fn tidy_libc_part(&self, block: *mut u8) {
        // SAFETY: `uselocale(0)` only asks; the word of an error's message is libc's.
        unsafe {
            let has_locale = libc::uselocale(core::ptr::null_mut()) != GLOBAL_LOCALE;
            let has_error = |offset| !block.offset(offset).cast::<*mut c_void>().read_volatile().is_null();
            if has_locale || self.dlerror.is_some_and(has_error) {
                Self::forget_locale_and_error();
            }
        }
    }

    /// Of the calling thread.
    #[cold]
    #[inline(never)]
    fn forget_locale_and_error() {
        // SAFETY: the locale of the process; a first `dlerror` returns the message, the second frees it.
        unsafe {
            libc::uselocale(GLOBAL_LOCALE);
            libc::dlerror();
            libc::dlerror();
        }
    }

    /// Bytes of a table of modules that are used from the start.
    pub fn table_size(&self) -> usize {
        (TABLE_HEAD + self.modules + TABLE_SPARE) * size_of::<DtvEntry>()
    }

    /// Writes all that comes from the snapshot into a new block: the modules' images but for libc's, and the table of
    /// modules.
    ///
    /// # Safety
    /// As for [`Image::write`]; `table` are `bytes` bytes that the caller owns, for as long as the block is used.
    pub unsafe fn build(&self, layout: &Layout, block: *mut u8, table: *mut u8, bytes: usize) {
        let snapshot = self.snapshot();
        let (entries, capacity) = (table.cast::<DtvEntry>(), bytes / size_of::<DtvEntry>() - TABLE_HEAD);
        if snapshot.table.len() > capacity {
            super::fatal(&format!(
                "{} libraries with thread-local storage are loaded at once; a thread has room for {capacity}",
                snapshot.table.len()
            ));
        }
        // SAFETY: the caller owns both; the entries written were counted. The loader compares the length before it uses
        // an entry, and neither grows nor frees a table that is long enough.
        unsafe {
            entries.write(DtvEntry { value: core::ptr::from_ref(snapshot).expose_provenance(), to_free: 0 });
            entries.add(1).write(DtvEntry { value: capacity, to_free: 0 });
            let dtv = entries.add(2);
            dtv.write(DtvEntry { value: snapshot.generation, to_free: 0 });
            for (index, entry) in snapshot.table.iter().enumerate() {
                let value = match *entry {
                    Entry::None => 0,
                    Entry::Dynamic => DTV_UNALLOCATED,
                    Entry::Static(offset) => block.addr().wrapping_add_signed(offset),
                };
                dtv.add(1 + index).write(DtvEntry { value, to_free: 0 });
            }
            layout.set_dtv(block, dtv);
            self.write_above(snapshot, block);
            self.write_below_from(snapshot, block);
        }
    }

    /// The word of a block that names the snapshot it was last written from: in front of its table of modules.
    ///
    /// # Safety
    /// `block` is a thread pointer into a block built here.
    #[inline]
    unsafe fn origin(layout: &Layout, block: *mut u8) -> *mut usize {
        // SAFETY: `build` stored the table, and the word two entries in front of its number 0.
        unsafe { layout.dtv(block).sub(2).cast() }
    }

    /// Whether a block was written from an image that is older than the libraries loaded now.
    ///
    /// # Safety
    /// `block` is a thread pointer into a block built here, which the caller owns.
    #[inline]
    pub unsafe fn is_behind(&self, layout: &Layout, block: *mut u8) -> bool {
        let snapshot = self.snapshot();
        // SAFETY: the caller vouches for the block.
        unsafe { Self::origin(layout, block).read() != core::ptr::from_ref(snapshot).addr() || snapshot.is_stale() }
    }

    /// Makes the image fit the libraries loaded now, and gives the block what those have in static TLS that came after
    /// the start. Asks the loader, so it may block and allocate.
    ///
    /// # Safety
    /// As for [`Image::is_behind`]; the thread of the block has used no variable of those libraries.
    #[cold]
    #[inline(never)]
    pub unsafe fn catch_up(&self, layout: &Layout, block: *mut u8) {
        self.refresh_if_stale(layout);
        let snapshot = self.snapshot();
        // SAFETY: the ranges lie in the snapshot's, which fits a block.
        unsafe {
            for &(start, length) in &snapshot.later {
                let bytes = snapshot.bytes.as_ptr().offset(start - snapshot.low);
                core::ptr::copy_nonoverlapping(bytes, block.offset(start), length);
            }
            Self::origin(layout, block).write(core::ptr::from_ref(snapshot).expose_provenance());
        }
    }

    /// True if a table of modules is as it was made, whatever its thread has used: no library with TLS has come since
    /// the start.
    #[inline]
    pub fn is_as_started(&self) -> bool {
        let snapshot = self.snapshot();
        let [a, b] = snapshot.watch;
        snapshot.is_fixed && !Snapshot::has_changed(a) && !Snapshot::has_changed(b)
    }

    /// Looks whether libraries with TLS were loaded or unloaded since the snapshot, and takes a new one then: asks the
    /// loader, so it may block and allocate.
    #[inline(never)]
    pub fn refresh_if_stale(&self, layout: &Layout) {
        while self.snapshot().is_stale() {
            if let Err(why) = self.rebuild(layout) {
                super::fatal(&why.reason);
            }
        }
    }

    fn rebuild(&self, layout: &Layout) -> Result<(), Unsupported> {
        // Ordering[image]: Acquire. Pairs with the Release below, of an earlier rebuild.
        let previous = self.current.load(Ordering::Acquire);
        // First: what changes from here on makes the new snapshot stale.
        let (watch, known) = self.tables.watch();
        let modules = modules();
        let (block_low, block_high) = layout.extent();
        let (libc_start, libc_end) = self.libc_range();
        let (mut low, mut high) = (libc_start, libc_end);
        // There is always one: the free entry behind the last, or the link to where that will be.
        let first = [watch[0], *watch.get(1).unwrap_or(&watch[0])];
        let rest = watch.into_iter().skip(first.len()).collect();
        let mut snapshot =
            Snapshot { watch: first, watch_rest: rest, first_dynamic: usize::MAX, ..Snapshot::default() };
        snapshot.statics.resize(known + 1, false);
        for (module, size) in modules {
            if module >= snapshot.statics.len() {
                snapshot.statics.resize(module + 1, false);
            }
            if let Some(start) = self.tables.static_offset(module) {
                snapshot.statics[module] = true;
                low = low.min(start);
                high = high.max(start + size as isize);
                if self.tables.came_later(module) {
                    snapshot.later.push((start, size));
                }
            } else {
                snapshot.first_dynamic = snapshot.first_dynamic.min(module);
                snapshot.last_dynamic = snapshot.last_dynamic.max(module);
            }
        }
        if low < block_low || high > block_high {
            return Err(Unsupported::new("a module's TLS lies outside the static block"));
        }
        if !previous.is_null() {
            // Blocks may still hold memory of modules that are gone by now.
            // SAFETY: never freed.
            let previous = unsafe { &*previous };
            snapshot.first_dynamic = snapshot.first_dynamic.min(previous.first_dynamic);
            snapshot.last_dynamic = snapshot.last_dynamic.max(previous.last_dynamic);
        }
        snapshot.low = low;
        snapshot.take_bytes(layout, low, high)?;
        snapshot.is_fixed = snapshot.watch_rest.is_empty() && snapshot.first_dynamic > snapshot.last_dynamic;
        snapshot.is_plain = snapshot.is_fixed && low == libc_start;
        snapshot.above = (libc_end - low) as usize;
        snapshot.above_length = snapshot.bytes.len() - snapshot.above;
        let snapshot = Box::into_raw(Box::new(snapshot));
        // Ordering[image]: Release. Pairs with the Acquire in `snapshot`.
        if self.current.compare_exchange(previous, snapshot, Ordering::Release, Ordering::Relaxed).is_err() {
            // Somebody else has made one meanwhile; the caller looks whether it is good.
            // SAFETY: made above, not published.
            drop(unsafe { Box::from_raw(snapshot) });
        }
        Ok(())
    }
}

impl Snapshot {
    #[inline]
    fn is_stale(&self) -> bool {
        let [a, b] = self.watch;
        Self::has_changed(a) || Self::has_changed(b) || !self.watch_rest.is_empty() && self.is_stale_beyond()
    }

    #[cold]
    #[inline(never)]
    fn is_stale_beyond(&self) -> bool {
        self.watch_rest.iter().any(|&word| Self::has_changed(word))
    }

    #[inline(always)]
    fn has_changed((at, value): (usize, usize)) -> bool {
        // SAFETY: a word of the loader's tables, which it never unmaps.
        (unsafe { (at as *const usize).read_volatile() }) != value
    }

    /// What the loader writes into a fresh block between two offsets, and into its table of modules.
    fn take_bytes(&mut self, layout: &Layout, low: isize, high: isize) -> Result<(), Unsupported> {
        let size = layout.block_size() + layout.align;
        // SAFETY: calloc of a positive size; the block's table is given back to the loader before it is freed. The
        // loader keeps a table's length in front of it, and its generation in its number 0.
        unsafe {
            let memory = libc::calloc(1, size).cast::<u8>();
            if memory.is_null() {
                return Err(Unsupported::new("no memory"));
            }
            let top = memory.add(memory.addr().next_multiple_of(layout.align) - memory.addr() + layout.block_size());
            let fs = top.sub(layout.fs_below_top());
            layout.write_header(fs);
            if (layout.allocate_tls)(fs.cast()).is_null() {
                libc::free(memory.cast());
                return Err(Unsupported::new("no memory"));
            }
            self.bytes = core::slice::from_raw_parts(fs.offset(low), (high - low) as usize).to_vec();
            let dtv = layout.dtv(fs);
            self.generation = dtv.read().value;
            let (block_low, block_high) = layout.extent();
            for module in 1..=dtv.sub(1).read().value {
                let value = dtv.add(module).read().value;
                let offset = value.wrapping_sub(fs.addr()) as isize;
                self.table.push(match value {
                    DTV_UNALLOCATED => Entry::Dynamic,
                    _ if (block_low..block_high).contains(&offset) => Entry::Static(offset),
                    _ => Entry::None,
                });
            }
            let used = self.table.iter().rposition(|&entry| entry != Entry::None).map_or(0, |last| last + 1);
            self.table.truncate(used);
            (layout.deallocate_tls)(fs.cast(), false);
            libc::free(memory.cast());
            Ok(())
        }
    }
}

/// Copies part of an image to where it belongs in a block, `at` bytes from the thread pointer.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[cfg(not(raddle_tsan))]
#[inline(always)]
unsafe fn copy(bytes: *const u8, block: *mut u8, at: isize, length: usize) {
    // SAFETY: the image has so many bytes, the block as many from there on, and they do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(bytes, block.offset(at), length) };
}

/// As above, but for the word that names the block's fiber.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[cfg(raddle_tsan)]
unsafe fn copy(bytes: *const u8, block: *mut u8, at: isize, length: usize) {
    let kept = (crate::tsan::word() - at) as usize;
    let (head, tail) = if kept < length { (kept, kept + 8) } else { (length, length) };
    // SAFETY: the image has so many bytes, the block as many from there on, and they do not overlap.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes, block.offset(at), head);
        core::ptr::copy_nonoverlapping(bytes.add(tail), block.offset(at).add(tail), length - tail);
    }
}

fn word_at(bytes: &[u8], word: usize) -> usize {
    usize::from_ne_bytes(bytes[word * 8..word * 8 + 8].try_into().expect("eight bytes"))
}

/// `pthread_create`.
pub type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;
/// `pthread_join`.
pub type Join = unsafe extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int;

/// Attributes for a kernel thread that does next to nothing. The C library keeps its stack: not one as large as the
/// program's are by default.
///
/// The largest of these sizes has room for much thread-local storage; 0 is the default.
fn small_stack(try_no: usize) -> libc::pthread_attr_t {
    // SAFETY: initialises the attributes, and sets a size that is allowed.
    unsafe {
        let mut attributes = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        if let Some(&size) = [128 << 10, 1 << 20].get(try_no) {
            libc::pthread_attr_setstacksize(&mut attributes, size);
        }
        attributes
    }
}

/// Starts a kernel thread that does next to nothing; false if none can be had.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe fn start_small(
    create: Create,
    thread: &mut libc::pthread_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
    // SAFETY: `thread` is a place for the id; the function may be called with the argument on another thread.
    (0..3).any(|try_no| unsafe { create(thread, &small_stack(try_no), start, argument) } == 0)
}

struct Captured {
    fs: usize,
    bytes: Vec<u8>,
}

/// libc's part of a kernel thread that has just begun, before it allocates anything.
fn capture_libc(libc_so: &Libc, start: isize, size: usize) -> Result<Captured, Unsupported> {
    struct Request {
        start: isize,
        fs: usize,
        bytes: *mut u8,
        size: usize,
    }
    extern "C" fn first(request: *mut c_void) -> *mut c_void {
        // SAFETY: the creator waits for us and owns the request.
        unsafe {
            let request = &mut *request.cast::<Request>();
            request.fs = switch::current_fs();
            core::ptr::copy_nonoverlapping(
                (request.fs as *const u8).offset(request.start),
                request.bytes,
                request.size,
            );
        }
        core::ptr::null_mut()
    }
    let mut bytes = vec![0u8; size];
    let mut request = Request { start, fs: 0, bytes: bytes.as_mut_ptr(), size };
    // SAFETY: libc's own functions (not those of a library in front of it), joined before the request ends.
    unsafe {
        let create: Create = libc_so.function(c"pthread_create")?;
        let join: Join = libc_so.function(c"pthread_join")?;
        let mut thread = 0;
        if !start_small(create, &mut thread, first, (&raw mut request).cast()) {
            return Err(Unsupported::new(super::NO_KERNEL_THREAD));
        }
        join(thread, core::ptr::null_mut());
    }
    Ok(Captured { fs: request.fs, bytes })
}
