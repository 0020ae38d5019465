//! The flattened image of all modules' TLS, as a fresh thread has it.
//!
//! The loader initialises a block module by module, under its lock. We let it do so once, on a scratch block, and from then
//! on copy the result. libc's own part lies inside that range and is treated apart: it holds pointers into caches that
//! must survive (or leak), and some words that libc's thread start function sets up. Those are captured from a real kernel thread
//! at its first instruction, and words that point into its own block are moved to the new one.
//!
//! Libraries loaded later can only add static TLS by taking a module number; the loader's table entry for the next free
//! number, and those of modules that came after start, are watched: a few loads for each renewed block.

use super::Unsupported;
use super::layout::{Layout, Libc};
use crate::switch;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// `LC_GLOBAL_LOCALE`, which the `libc` crate lacks.
const GLOBAL_LOCALE: libc::locale_t = core::ptr::without_provenance_mut(usize::MAX);

/// What a block consists of at some moment of the loader's life.
#[derive(Debug, Default)]
struct Snapshot {
    /// Start of `bytes` relative to the thread pointer.
    low: isize,
    bytes: Vec<u8>,
    /// Words of the loader's tables and what they held: when one differs, the snapshot is stale.
    watch: Vec<(usize, usize)>,
    /// Module numbers (index) with static TLS.
    statics: Vec<bool>,
    /// The range of module numbers that may have memory of their own in a dtv.
    first_dynamic: usize,
    last_dynamic: usize,
}

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
    errno: isize,
    h_errno: Option<isize>,
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
            errno,
            h_errno: own(c"__h_errno").filter(inside),
            dlerror: own(c"__libc_dlerror_result").filter(inside),
        };
        image.rebuild(layout)?;
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

    /// Copies all modules' images but libc's.
    ///
    /// # Safety
    /// `block` is a thread pointer into a block that the caller owns.
    #[inline]
    pub unsafe fn write(&self, block: *mut u8) {
        let snapshot = self.snapshot();
        let (libc_start, libc_end) = self.libc_range();
        let below = (libc_start - snapshot.low) as usize;
        let above = (libc_end - snapshot.low) as usize;
        // SAFETY: the snapshot spans libc's range (checked when it was made) and fits a block.
        unsafe {
            let bytes = snapshot.bytes.as_ptr();
            core::ptr::copy_nonoverlapping(bytes, block.offset(snapshot.low), below);
            core::ptr::copy_nonoverlapping(bytes.add(above), block.offset(libc_end), snapshot.bytes.len() - above);
        }
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
            if let Some(offset) = self.h_errno {
                block.offset(offset).cast::<c_int>().write(0);
            }
        }
    }

    /// On the thread itself, at its end: what libc would carry over and only libc can undo.
    ///
    /// # Safety
    /// `block` is the caller's own.
    pub unsafe fn tidy_libc_part(&self, block: *mut u8, _layout: &Layout) {
        // SAFETY: `uselocale(0)` only asks; a first `dlerror` returns the message, the second frees it.
        unsafe {
            if libc::uselocale(core::ptr::null_mut()) != GLOBAL_LOCALE {
                libc::uselocale(GLOBAL_LOCALE);
            }
            if let Some(offset) = self.dlerror
                && !block.offset(offset).cast::<*mut c_void>().read_volatile().is_null()
            {
                libc::dlerror();
                libc::dlerror();
            }
        }
    }

    /// Looks whether libraries with TLS were loaded or unloaded since the snapshot, and takes a new one then.
    #[inline]
    pub fn refresh_if_stale(&self, layout: &Layout) {
        // SAFETY: words of the loader's tables, which it never unmaps.
        let stale =
            self.snapshot().watch.iter().any(|&(at, value)| unsafe { (at as *const usize).read_volatile() } != value);
        if stale {
            self.refresh(layout);
        }
    }

    #[cold]
    #[inline(never)]
    fn refresh(&self, layout: &Layout) {
        if let Err(why) = self.rebuild(layout) {
            super::fatal(&why.reason);
        }
    }

    fn rebuild(&self, layout: &Layout) -> Result<(), Unsupported> {
        let modules = modules();
        let (watch, known) = self.tables.watch();
        let (block_low, block_high) = layout.extent();
        let (libc_start, libc_end) = self.libc_range();
        let (mut low, mut high) = (libc_start, libc_end);
        let mut snapshot = Snapshot { watch, first_dynamic: usize::MAX, ..Snapshot::default() };
        snapshot.statics.resize(known + 1, false);
        for (module, size) in modules {
            if module >= snapshot.statics.len() {
                snapshot.statics.resize(module + 1, false);
            }
            if let Some(start) = self.tables.static_offset(module) {
                snapshot.statics[module] = true;
                low = low.min(start);
                high = high.max(start + size as isize);
            } else {
                snapshot.first_dynamic = snapshot.first_dynamic.min(module);
                snapshot.last_dynamic = snapshot.last_dynamic.max(module);
            }
        }
        if low < block_low || high > block_high {
            return Err(Unsupported::new("a module's TLS lies outside the static block"));
        }
        // Ordering[image]: Acquire. Pairs with the Release below, of an earlier rebuild.
        let previous = self.current.load(Ordering::Acquire);
        if !previous.is_null() {
            // Blocks may still hold memory of modules that are gone by now.
            // SAFETY: never freed.
            let previous = unsafe { &*previous };
            snapshot.first_dynamic = snapshot.first_dynamic.min(previous.first_dynamic);
            snapshot.last_dynamic = snapshot.last_dynamic.max(previous.last_dynamic);
        }
        snapshot.low = low;
        snapshot.bytes = fresh_bytes(layout, low, high)?;
        let snapshot = Box::into_raw(Box::new(snapshot));
        // Ordering[image]: Release. Pairs with the Acquire in `snapshot`.
        self.current.store(snapshot, Ordering::Release);
        Ok(())
    }
}

fn word_at(bytes: &[u8], word: usize) -> usize {
    usize::from_ne_bytes(bytes[word * 8..word * 8 + 8].try_into().expect("eight bytes"))
}

/// What the loader writes into a fresh block between two offsets.
fn fresh_bytes(layout: &Layout, low: isize, high: isize) -> Result<Vec<u8>, Unsupported> {
    let size = layout.block_size() + layout.align;
    // SAFETY: calloc of a positive size; the block is released before it is freed.
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
        let bytes = core::slice::from_raw_parts(fs.offset(low), (high - low) as usize).to_vec();
        (layout.deallocate_tls)(fs.cast(), false);
        libc::free(memory.cast());
        Ok(bytes)
    }
}

/// Module numbers of all loaded modules that have TLS, and its size.
fn modules() -> Vec<(usize, usize)> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` is the vector below.
        unsafe {
            let info = &*info;
            if size >= core::mem::offset_of!(libc::dl_phdr_info, dlpi_tls_data) && info.dlpi_tls_modid != 0 {
                for i in 0..info.dlpi_phnum as usize {
                    let header = &*info.dlpi_phdr.add(i);
                    if header.p_type == libc::PT_TLS {
                        (*data.cast::<Vec<(usize, usize)>>()).push((info.dlpi_tls_modid, header.p_memsz as usize));
                    }
                }
            }
        }
        0
    }
    let mut found: Vec<(usize, usize)> = Vec::new();
    // SAFETY: the callback does not unwind and fits the vector.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
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
    type Create = unsafe extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    type Join = unsafe extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    let mut bytes = vec![0u8; size];
    let mut request = Request { start, fs: 0, bytes: bytes.as_mut_ptr(), size };
    // SAFETY: libc's own functions (not those of a library in front of it), joined before the request ends.
    unsafe {
        let create: Create = libc_so.function(c"pthread_create")?;
        let join: Join = libc_so.function(c"pthread_join")?;
        let mut thread = 0;
        if create(&mut thread, core::ptr::null(), first, (&raw mut request).cast()) != 0 {
            return Err(Unsupported::new("no kernel thread can be started"));
        }
        join(thread, core::ptr::null_mut());
    }
    Ok(Captured { fs: request.fs, bytes })
}

/// The loader's list of modules with TLS, as its debugger descriptors lay it out.
#[derive(Debug)]
struct Tables {
    /// The word that points to the first node.
    head: usize,
    length: usize,
    next: usize,
    slots: usize,
    slot_size: usize,
    slot_gen: usize,
    slot_map: usize,
    map_offset: usize,
}

impl Tables {
    fn find(libc_so: &Libc) -> Result<Tables, Unsupported> {
        let offset = |name: &CStr| -> Result<usize, Unsupported> {
            let address = libc_so.need(name)?;
            // SAFETY: a descriptor of three words.
            Ok(unsafe { address.cast::<[u32; 3]>().read() }[2] as usize)
        };
        let slot_size = libc_so.need(c"_thread_db_sizeof_dtv_slotinfo")?;
        Ok(Tables {
            head: libc_so.need(c"_rtld_global")?.addr() + offset(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?,
            length: offset(c"_thread_db_dtv_slotinfo_list_len")?,
            next: offset(c"_thread_db_dtv_slotinfo_list_next")?,
            slots: offset(c"_thread_db_dtv_slotinfo_list_slotinfo")?,
            // SAFETY: a size descriptor of one word.
            slot_size: unsafe { slot_size.cast::<u32>().read() } as usize,
            slot_gen: offset(c"_thread_db_dtv_slotinfo_gen")?,
            slot_map: offset(c"_thread_db_dtv_slotinfo_map")?,
            map_offset: offset(c"_thread_db_link_map_l_tls_offset")?,
        })
    }

    /// The address of a module's slot, or the word that will point to the node it will be in.
    fn slot(&self, module: usize) -> Result<usize, usize> {
        let (mut link, mut index) = (self.head, module);
        loop {
            let node = load(link);
            if node == 0 {
                return Err(link);
            }
            let length = load(node + self.length);
            if index < length {
                return Ok(node + self.slots + index * self.slot_size);
            }
            index -= length;
            link = node + self.next;
        }
    }

    /// Where a module's static TLS begins relative to the thread pointer; `None` when it is allocated on demand.
    fn static_offset(&self, module: usize) -> Option<isize> {
        let map = load(self.slot(module).ok()? + self.slot_map);
        let offset = if map == 0 { 0 } else { load(map + self.map_offset) };
        // 0, -1 and -2 mean: none, not decided, on demand.
        if offset == 0 || offset > 1 << 30 {
            return None;
        }
        Some(if cfg!(target_arch = "x86_64") { -(offset as isize) } else { offset as isize })
    }

    /// The words that change when a module with TLS comes or goes, and the highest module number in use.
    fn watch(&self) -> (Vec<(usize, usize)>, usize) {
        let mut words = Vec::new();
        for module in 1.. {
            match self.slot(module) {
                Ok(slot) => {
                    let (generation, map) = (slot + self.slot_gen, slot + self.slot_map);
                    let free = load(map) == 0;
                    // Modules of the start have generation 0 or 1 and never go: only their offset could be interesting.
                    if free || load(generation) > 1 {
                        words.push((generation, load(generation)));
                        words.push((map, load(map)));
                    }
                    if free {
                        return (words, module - 1);
                    }
                }
                Err(link) => {
                    words.push((link, 0));
                    return (words, module - 1);
                }
            }
        }
        unreachable!("the list of modules is finite")
    }
}

/// A word of the loader's tables.
fn load(address: usize) -> usize {
    // SAFETY: callers walk the loader's live tables by its own descriptors.
    unsafe { (address as *const usize).read_volatile() }
}
