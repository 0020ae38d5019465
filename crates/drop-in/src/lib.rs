//! The drop-in library as it is shipped.
//!
//! `raddle-posix` builds the same functions, for its tests and for Rust programs that link them, but a package that
//! makes a Rust library and a C library at once gets no link-time optimisation. This one makes only the latter.
//!
//! And it has an allocator of its own: the C library's, by its inner names. A program may bring another `malloc` whose
//! locks are pthread mutexes or futexes; a thread that waits for one is in the middle of that allocator, so the runtime
//! must not ask it for the memory that the wait takes. What the C library does not have comes from a [`reserve`].

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

mod own_storage;
mod reserve;

pub use raddle_posix::link;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks a library up that is loaded already; the same on all architectures of Linux.
const RTLD_NOLOAD: c_int = 4;
const RTLD_LAZY: c_int = 1;

/// What every block is aligned to.
const ALIGNMENT: usize = 16;

/// One function of the C library itself, also where somebody puts his own in the place of its inner names.
struct Function(AtomicPtr<c_void>, &'static CStr);

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Function(AtomicPtr::new(std::ptr::null_mut()), name)
    }

    fn address(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: C strings; the C library is loaded, whatever is looked up. What the loader allocates for it comes
        // from the program's allocator.
        let found = unsafe { dlsym(dlopen(c"libc.so.6".as_ptr(), RTLD_LAZY | RTLD_NOLOAD), self.1.as_ptr()) };
        if found.is_null() {
            std::process::abort();
        }
        // Relaxed: each looks it up alike.
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

static MALLOC: Function = Function::new(c"__libc_malloc");
static CALLOC: Function = Function::new(c"__libc_calloc");
static REALLOC: Function = Function::new(c"__libc_realloc");
static MEMALIGN: Function = Function::new(c"__libc_memalign");
static FREE: Function = Function::new(c"__libc_free");

/// By this name `raddle run` knows a library whose memory is not the program's allocator's.
#[unsafe(export_name = "raddle_allocator_is_own")]
pub static ALLOCATOR_IS_OWN: u8 = 1;

struct OfTheCLibrary;

#[global_allocator]
static ALLOCATOR: OfTheCLibrary = OfTheCLibrary;

// SAFETY: the C library's functions keep the contract of `malloc`, which is that of the trait; blocks of any alignment
// are freed by the same function; alignments are powers of two. A block of the reserve is the caller's alone, as large
// and aligned as asked for, and goes back there.
unsafe impl GlobalAlloc for OfTheCLibrary {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the types are those of the functions; they take numbers.
        let block = unsafe {
            if layout.align() <= ALIGNMENT {
                let malloc: unsafe extern "C" fn(usize) -> *mut u8 = std::mem::transmute(MALLOC.address());
                malloc(layout.size())
            } else {
                let memalign: unsafe extern "C" fn(usize, usize) -> *mut u8 = std::mem::transmute(MEMALIGN.address());
                memalign(layout.align(), layout.size())
            }
        };
        if block.is_null() { reserve::take(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`; the block that is written has that size.
        unsafe {
            if layout.align() <= ALIGNMENT {
                let calloc: unsafe extern "C" fn(usize, usize) -> *mut u8 = std::mem::transmute(CALLOC.address());
                let block = calloc(1, layout.size());
                if !block.is_null() {
                    return block;
                }
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: a block of `alloc`; both blocks are as large as what is copied; the size was checked by the caller.
        unsafe {
            if layout.align() <= ALIGNMENT && !reserve::owns(old) {
                let realloc: unsafe extern "C" fn(*mut u8, usize) -> *mut u8 = std::mem::transmute(REALLOC.address());
                let new = realloc(old, size);
                if !new.is_null() {
                    return new;
                }
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(old, layout.size().min(size));
                self.dealloc(old, layout);
            }
            new
        }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: a block of `alloc` for this layout, by the contract; the type is that of the function.
        unsafe {
            if reserve::owns(old) {
                return reserve::give(old, layout);
            }
            let free: unsafe extern "C" fn(*mut u8) = std::mem::transmute(FREE.address());
            free(old);
        }
    }
}
