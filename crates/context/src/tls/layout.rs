//! Where things are in glibc's `struct pthread` and what the loader exports to build one.
//!
//! Offsets come from the `_thread_db_*` descriptors (three words: size in bits, number of elements, offset in bytes),
//! from public symbols (`__rseq_offset`) and from system calls (where the robust list head is), never from a table of
//! versions.

use super::Unsupported;
use crate::switch;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute_copy;

/// One entry of a dtv: the address of a module's TLS in this thread, and what to free.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DtvEntry {
    pub value: usize,
    pub to_free: usize,
}

/// The value of an entry whose memory was not asked for yet.
pub const DTV_UNALLOCATED: usize = usize::MAX;

/// One datum of POSIX thread-specific data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeyData {
    pub seq: usize,
    pub value: *mut c_void,
}

/// One key of POSIX thread-specific data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    pub seq: usize,
    pub destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Offsets are relative to the thread pointer.
#[derive(Debug)]
pub struct Layout {
    /// Alignment of a block's ends.
    pub align: usize,
    /// Bytes of static TLS, as the loader counts them.
    static_size: usize,
    /// `sizeof(struct pthread)`, rounded to the alignment.
    tcb_size: usize,
    /// The start of `struct pthread`.
    pthread: isize,
    /// The start of `struct pthread`.
    pub(super) tid: isize,
    list: isize,
    specific: isize,
    /// The mark of thread-specific data: the byte behind its table.
    specific_used: isize,
    pub key_blocks: usize,
    pub keys_per_block: usize,
    pub keys: *const Key,
    cancelhandling: Option<isize>,
    pub(super) robust_head: isize,
    robust_words: [usize; 2],
    dtv: isize,
    rseq: Option<isize>,
    pub allocate_tls: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pub deallocate_tls: unsafe extern "C" fn(*mut c_void, bool),
    pub call_tls_dtors: unsafe extern "C" fn(),
}

// SAFETY: `keys` points to a static of libc; the functions may be called from any thread.
unsafe impl Send for Layout {}
// SAFETY: shared, it gives an address that is only read, and functions that any thread may call.
unsafe impl Sync for Layout {}

/// glibc itself, whatever is preloaded in front of it. Before glibc 2.34 its threads were a library of their own.
pub struct Libc {
    libc: *mut c_void,
    pthread: *mut c_void,
}

impl Libc {
    pub fn open() -> Result<Self, Unsupported> {
        // SAFETY: looks up a library that is already loaded.
        let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        let (libc, pthread) = (open(c"libc.so.6"), open(c"libpthread.so.0"));
        if libc.is_null() {
            return Err(Unsupported::new("glibc is not loaded as libc.so.6, perhaps the program is linked statically"));
        }
        Ok(Libc { libc, pthread })
    }

    pub fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // A kernel thread that ThreadSanitizer has not seen begin must not run what is instrumented.
        #[cfg(raddle_tsan)]
        match name.to_bytes() {
            b"pthread_create" => return Some(libc::pthread_create as *mut c_void),
            b"pthread_join" => return Some(libc::pthread_join as *mut c_void),
            _ => {}
        }
        [self.libc, self.pthread].into_iter().filter(|handle| !handle.is_null()).find_map(|handle| {
            // SAFETY: a valid handle and a C string. Symbols of the loader are found through libc's dependency on it.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        })
    }

    pub fn need(&self, name: &CStr) -> Result<*mut c_void, Unsupported> {
        self.find(name).ok_or_else(|| {
            Unsupported::new(format!("no symbol {}; version 2.34 or later is needed", name.to_string_lossy()))
        })
    }

    /// A function by name.
    ///
    /// # Safety
    /// `F` is a function pointer type that fits the symbol.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, Unsupported> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.need(name)?;
        // SAFETY: function pointers and data pointers have one size here, and the caller vouches for the type.
        Ok(unsafe { transmute_copy::<*mut c_void, F>(&address) })
    }

    /// A `_thread_db_` descriptor: size in bits, number of elements, offset.
    fn field(&self, name: &CStr) -> Result<[u32; 3], Unsupported> {
        let address = self.need(name)?;
        // SAFETY: glibc's descriptors are three words.
        Ok(unsafe { address.cast::<[u32; 3]>().read() })
    }

    fn size(&self, name: &CStr) -> Result<usize, Unsupported> {
        let address = self.need(name)?;
        // SAFETY: glibc's size descriptors are one word.
        Ok(unsafe { address.cast::<u32>().read() } as usize)
    }

    /// `major.minor`, for messages.
    pub fn version(&self) -> String {
        let Ok(address) = self.need(c"gnu_get_libc_version") else { return "unknown".into() };
        // SAFETY: a public function that returns a static string.
        unsafe {
            let function = transmute_copy::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(&address);
            CStr::from_ptr(function()).to_string_lossy().into_owned()
        }
    }
}

impl Layout {
    pub fn find(libc_so: &Libc) -> Result<Layout, Unsupported> {
        let (mut static_size, mut align) = (0usize, 0usize);
        // SAFETY: the types are glibc's.
        let (info, allocate_tls, deallocate_tls, call_tls_dtors) = unsafe {
            (
                libc_so.function::<unsafe extern "C" fn(*mut usize, *mut usize)>(c"_dl_get_tls_static_info")?,
                libc_so.function(c"_dl_allocate_tls")?,
                libc_so.function(c"_dl_deallocate_tls")?,
                libc_so.function(c"__call_tls_dtors")?,
            )
        };
        // SAFETY: writes the two words.
        unsafe { info(&mut static_size, &mut align) };
        if static_size == 0 || static_size > 1 << 20 || !align.is_power_of_two() || align > 4096 {
            return Err(Unsupported::new(format!(
                "{static_size} bytes of static TLS aligned to {align} do not fit a stack slot"
            )));
        }
        let align = align.max(64);
        let pthread_size = libc_so.size(c"_thread_db_sizeof_pthread")?;
        if !(512..16384).contains(&pthread_size) {
            return Err(Unsupported::new(format!("struct pthread of {pthread_size} bytes")));
        }
        let tcb_size = pthread_size.next_multiple_of(align);
        // On x86-64 the thread pointer is the start of struct pthread, on aarch64 its end.
        let pthread = if cfg!(target_arch = "x86_64") { 0 } else { -(pthread_size as isize) };
        let at = |name| libc_so.field(name).map(|f| pthread + f[2] as isize);

        let specific = libc_so.field(c"_thread_db_pthread_specific")?;
        let key_table = libc_so.field(c"_thread_db___pthread_keys")?;
        let key_data = libc_so.size(c"_thread_db_sizeof_pthread_key_data")?;
        let key_struct = libc_so.size(c"_thread_db_sizeof_pthread_key_struct")?;
        let level2 = libc_so.size(c"_thread_db_sizeof_pthread_key_data_level2")?;
        if key_data != size_of::<KeyData>() || key_struct != size_of::<Key>() || level2 == 0 {
            return Err(Unsupported::new("thread-specific data has another layout"));
        }
        let keys_per_block = level2 / key_data;
        let key_blocks = specific[0] as usize / 64;
        if key_blocks * keys_per_block != key_table[1] as usize {
            return Err(Unsupported::new("thread-specific data has another number of keys"));
        }
        let dtv = at(c"_thread_db_pthread_dtvp")?;
        let dtv = if cfg!(target_arch = "x86_64") { dtv } else { 0 };

        let tid = at(c"_thread_db_pthread_tid")?;
        // The thread id and an unused word, a pointer to the last list entry, the head.
        let (robust_head, robust_words) = robust_head(tid + 16)?;
        Ok(Layout {
            align,
            static_size,
            tcb_size,
            pthread,
            tid,
            list: at(c"_thread_db_pthread_list")?,
            specific: pthread + specific[2] as isize,
            specific_used: pthread + specific[2] as isize + 8 * key_blocks as isize,
            key_blocks,
            keys_per_block,
            keys: libc_so.need(c"__pthread_keys")?.cast(),
            cancelhandling: at(c"_thread_db_pthread_cancelhandling").ok(),
            robust_head,
            robust_words,
            dtv,
            rseq: rseq_offset(libc_so),
            allocate_tls,
            deallocate_tls,
            call_tls_dtors,
        })
    }

    /// Bytes of a whole block.
    pub fn block_size(&self) -> usize {
        let bytes = if cfg!(target_arch = "x86_64") {
            // The loader's size includes struct pthread.
            self.static_size.max(self.tcb_size)
        } else {
            self.static_size.next_multiple_of(self.align) + self.tcb_size
        };
        bytes.next_multiple_of(self.align)
    }

    /// How far the thread pointer lies below the end of a block.
    pub fn fs_below_top(&self) -> usize {
        if cfg!(target_arch = "x86_64") { self.tcb_size } else { self.static_size.next_multiple_of(self.align) }
    }

    /// Where a block's node of the list of threads lies.
    pub fn list_node(&self) -> isize {
        self.list
    }

    /// The range of a block relative to its thread pointer.
    pub fn extent(&self) -> (isize, isize) {
        let above = self.fs_below_top() as isize;
        (above - self.block_size() as isize, above)
    }

    /// # Safety
    /// `fs` is in a zeroed block that the caller owns.
    pub unsafe fn write_header(&self, fs: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the first eight words of the TCB are part of the platform's ABI.
        unsafe {
            let own = switch::current_fs() as *const usize;
            let head = fs.offset(self.pthread).cast::<usize>();
            head.write(fs.addr()); // tcb
            head.add(2).write(fs.addr()); // self
            head.add(3).write(1); // multiple_threads
            head.add(5).write(own.add(5).read()); // stack guard
            head.add(6).write(own.add(6).read()); // pointer guard
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: struct pthread begins with `multiple_threads` here.
        unsafe {
            fs.offset(self.pthread).cast::<u32>().write(1);
        }
    }

    /// Gives a block the kernel thread id of another one: the C library's locks then take a context on it for the other
    /// one's kernel thread.
    ///
    /// # Safety
    /// `fs` is in a block that the caller owns, and `of` the thread pointer of a live one.
    pub unsafe fn share_identity(&self, fs: *mut u8, of: *const u8) {
        // SAFETY: offsets inside struct pthread.
        unsafe { fs.offset(self.tid).cast::<u32>().write(of.offset(self.tid).cast::<u32>().read()) };
    }

    /// # Safety
    /// `fs` is in a block that the caller owns.
    pub unsafe fn write_identity(&self, fs: *mut u8, tid: u32) {
        // SAFETY: offsets inside struct pthread.
        unsafe {
            fs.offset(self.tid).cast::<u32>().write(tid);
            let (size, first_block) = (self.keys_per_block * size_of::<KeyData>(), self.specific);
            self.specific(fs, 0).write(fs.offset(first_block - size as isize).cast());
            if let Some(rseq) = self.rseq {
                fs.offset(rseq).cast::<u32>().write(0);
                // RSEQ_CPU_ID_REGISTRATION_FAILED: sched_getcpu asks the kernel instead.
                fs.offset(rseq + 4).cast::<i32>().write(-2);
            }
            // A list of one, unless it is put into libc's: a child of fork takes this block out and puts it into its
            // own. So not at each renewal.
            let list = fs.offset(self.list).cast::<usize>();
            list.write(list.addr());
            list.add(1).write(list.addr());
            let robust = fs.offset(self.robust_head).cast::<usize>();
            robust.write(robust.addr());
            robust.add(1).write(self.robust_words[0]);
            robust.add(2).write(self.robust_words[1]);
            robust.sub(1).write(robust.addr());
            self.reset_cancellation(fs);
        }
    }

    /// What must be as new in struct pthread for the next thread, beside thread-specific data. Not the list of robust
    /// mutexes: a thread's end leaves it empty ([`Layout::leave_robust`]), and nobody changes its other words.
    ///
    /// # Safety
    /// `fs` is in a block that the caller owns.
    #[inline]
    pub unsafe fn reset_cancellation(&self, fs: *mut u8) {
        // SAFETY: offsets inside struct pthread.
        unsafe {
            if let Some(offset) = self.cancelhandling {
                fs.offset(offset).cast::<c_int>().write(0);
            }
        }
    }

    /// Where a renewal touches struct pthread, relative to the thread pointer.
    #[inline]
    pub fn renewed(&self) -> [isize; 2] {
        [self.pthread, self.specific_used]
    }

    /// # Safety
    /// `fs` is in a prepared block.
    pub unsafe fn dtv(&self, fs: *mut u8) -> *mut DtvEntry {
        // SAFETY: the loader stored it there.
        unsafe { fs.offset(self.dtv).cast::<*mut DtvEntry>().read() }
    }

    /// # Safety
    /// `fs` is in a block that the caller owns; `dtv` points to the entry of number 0, behind that which holds the
    /// length.
    pub unsafe fn set_dtv(&self, fs: *mut u8, dtv: *mut DtvEntry) {
        // SAFETY: where the loader would store it.
        unsafe { fs.offset(self.dtv).cast::<*mut DtvEntry>().write(dtv) }
    }

    /// The pointer to the given block of thread-specific data.
    ///
    /// # Safety
    /// `fs` is in a block, `level1` is below `key_blocks`.
    pub unsafe fn specific(&self, fs: *mut u8, level1: usize) -> *mut *mut KeyData {
        // SAFETY: an array of `key_blocks` pointers.
        unsafe { fs.offset(self.specific).cast::<*mut KeyData>().add(level1) }
    }

    /// Whether `pthread_setspecific` was called.
    ///
    /// # Safety
    /// `fs` is in a prepared block.
    #[inline]
    pub unsafe fn specific_used(&self, fs: *mut u8) -> bool {
        // SAFETY: inside struct pthread.
        unsafe { fs.offset(self.specific_used).read_volatile() != 0 }
    }

    /// # Safety
    /// As for [`Layout::specific_used`]; the block is the caller's.
    pub unsafe fn set_specific_used(&self, fs: *mut u8, used: bool) {
        // SAFETY: inside struct pthread.
        unsafe { fs.offset(self.specific_used).write_volatile(u8::from(used)) };
    }

    /// Drops all thread-specific data without calling anything.
    ///
    /// # Safety
    /// As for [`Layout::set_specific_used`].
    #[cold]
    #[inline(never)]
    pub unsafe fn clear_specific(&self, fs: *mut u8) {
        // SAFETY: the first block is inside struct pthread, the others came from calloc.
        unsafe {
            let first = self.specific(fs, 0).read();
            core::ptr::write_bytes(first, 0, self.keys_per_block);
            for level1 in 1..self.key_blocks {
                let block = self.specific(fs, level1);
                libc::free(block.read().cast());
                block.write(core::ptr::null_mut());
            }
            self.set_specific_used(fs, false);
        }
    }
}

/// Where the caller's robust list head is relative to its thread pointer, and the two words that follow the list.
/// `guess` is where glibc has had it so far, for systems that do not tell (emulators).
fn robust_head(guess: isize) -> Result<(isize, [usize; 2]), Unsupported> {
    let own = switch::current_fs();
    let mut head: *mut usize = core::ptr::null_mut();
    let mut length = 0usize;
    // SAFETY: asks the kernel where this kernel thread's list is.
    let told = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) } == 0;
    if !told {
        head = (own as *mut u8).wrapping_offset(guess).cast();
    }
    let offset = (head as isize).wrapping_sub(own as isize);
    let wrong = Err(Unsupported::new("the robust mutex list is not in struct pthread"));
    if told && length != 24 || offset.unsigned_abs() > 16384 || offset % 8 != 0 {
        return wrong;
    }
    // SAFETY: inside the caller's own struct pthread. An empty list points to itself.
    let (list, futex_offset) = unsafe { (head.read(), head.add(1).read()) };
    if !told && list != head.addr() {
        return wrong;
    }
    Ok((offset, [futex_offset, 0]))
}

/// Where glibc keeps the rseq area, when it registers one.
fn rseq_offset(libc_so: &Libc) -> Option<isize> {
    let offset = libc_so.find(c"__rseq_offset")?;
    let size = libc_so.find(c"__rseq_size")?;
    // SAFETY: public symbols of these types.
    unsafe { (size.cast::<u32>().read() != 0).then(|| offset.cast::<isize>().read()) }
}
