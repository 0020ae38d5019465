//! What differs between implementations of MPI, and their functions by name.
//!
//! Handles and counts pass through as machine words: what a caller left in the upper half of a register or a stack slot
//! arrives as it came. Only requests and statuses are looked into: how large they are, where an error stands, and how a
//! status that nobody wants is written.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// A machine word of a call: a handle, a count, an address.
pub type Word = usize;

/// The calls succeed with this in every implementation.
pub const SUCCESS: c_int = 0;
/// `MPI_UNDEFINED` of both.
pub const UNDEFINED: c_int = -32766;

/// Bytes enough for a request, or a status, of either.
pub type RequestBytes = [u64; 1];
pub type StatusBytes = [u64; 4];

/// What is known of the implementation that the program has loaded.
pub struct Abi {
    /// Bytes of a request handle.
    pub request: usize,
    /// Bytes of a status.
    pub status: usize,
    /// Where in a status the error stands.
    pub error: usize,
    /// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
    pub ignore: Word,
    /// `MPI_ERR_IN_STATUS`.
    pub err_in_status: c_int,
    /// `MPI_PROC_NULL`.
    proc_null: c_int,
}

impl Abi {
    /// Whether a rank, as a call takes it, is nobody.
    pub fn is_nobody(&self, rank: Word) -> bool {
        // The upper half of an argument may hold anything.
        rank as u32 as c_int == self.proc_null
    }
}

const MPICH: Abi = Abi { request: 4, status: 20, error: 16, ignore: 1, err_in_status: 17, proc_null: -1 };
const OPEN_MPI: Abi = Abi { request: 8, status: 24, error: 8, ignore: 0, err_in_status: 18, proc_null: -2 };

/// The implementation.
pub fn abi() -> &'static Abi {
    if is_open_mpi() { &OPEN_MPI } else { &MPICH }
}

/// It is known by a symbol that only it has.
pub fn is_open_mpi() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| !look_up(c"ompi_mpi_comm_world").is_null())
}

/// The address of a function of the implementation.
///
/// Ends the process with a line when there is none: the program has called an `MPI_X` whose `PMPI_X` does not exist.
pub fn function(name: &CStr) -> *mut c_void {
    let found = look_up(name);
    if found.is_null() {
        eprintln!(
            "raddle: the program's MPI has no {}: it cannot be run with --mpi (MPICH, its relatives and Open MPI can)",
            name.to_string_lossy()
        );
        std::process::abort();
    }
    found
}

fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !found.is_null() {
        return found;
    }
    // Loaded by a module for itself alone, as Python's do, or named before this library.
    struct Search<'a>(&'a CStr, *mut c_void);
    unsafe extern "C" fn visit(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: what `dl_iterate_phdr` shows, and what it was given to hand on.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the loader's name of the object.
        let path = unsafe { CStr::from_ptr(object.dlpi_name) };
        let file = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if file.starts_with(b"libmpi") || file.starts_with(b"libpmpi") {
            // SAFETY: a C string; an object that is loaded is only named again.
            unsafe {
                let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                if !library.is_null() {
                    search.1 = libc::dlsym(library, search.0.as_ptr());
                    libc::dlclose(library);
                }
            }
        }
        c_int::from(!search.1.is_null())
    }
    let mut search = Search(name, std::ptr::null_mut());
    // SAFETY: the function above, and what it takes.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.1
}

/// The implementation's own function of that name: `pmpi!(Test: fn(Word, Word, Word))` answers with the function
/// pointer `PMPI_Test`. Looked up once.
macro_rules! pmpi {
    ($name:ident: fn($($argument:ty),*)) => {
        $crate::abi::real!(concat!("PMPI_", stringify!($name), "\0"), fn($($argument),*))
    };
}
pub(crate) use pmpi;

/// As [`pmpi`], for the whole name, with a null at its end.
macro_rules! real {
    ($name:expr, fn($($argument:ty),*)) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        // Relaxed: whoever looks it up finds the same.
        let mut found = FOUND.load(std::sync::atomic::Ordering::Relaxed);
        if found.is_null() {
            let name = std::ffi::CStr::from_bytes_with_nul($name.as_bytes());
            found = $crate::abi::function(name.expect("ends with a null"));
            FOUND.store(found, std::sync::atomic::Ordering::Relaxed);
        }
        #[allow(unused_unsafe)]
        // SAFETY: MPI's function of that name takes so many words, passed as C passes them, and returns an error code.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> std::ffi::c_int>(found) }
    }};
}
pub(crate) use real;

/// The error in a status.
///
/// # Safety
/// A status of the implementation.
pub unsafe fn error_in(status: *const u8) -> c_int {
    // SAFETY: within the status, and aligned as it is.
    unsafe { status.add(abi().error).cast::<c_int>().read() }
}

/// Writes an error into a status.
///
/// # Safety
/// A status of the implementation.
pub unsafe fn set_error(status: *mut u8, error: c_int) {
    // SAFETY: within the status, and aligned as it is.
    unsafe { status.add(abi().error).cast::<c_int>().write(error) };
}

/// `MPI_PACKED`.
pub fn packed() -> Word {
    const OF_MPICH: Word = 0x4c00_010f;
    let symbol = look_up(c"ompi_mpi_packed");
    if symbol.is_null() { OF_MPICH } else { symbol.expose_provenance() }
}

/// For addresses that calls take.
pub fn word<T>(place: *const T) -> Word {
    place.expose_provenance()
}

/// What a call takes as a place for a status, as a pointer; none for one that nobody wants.
pub fn wanted(status: Word) -> Option<*mut u8> {
    (status != abi().ignore).then(|| std::ptr::with_exposed_provenance_mut(status))
}

const _: () = assert!(size_of::<RequestBytes>() >= 8 && size_of::<StatusBytes>() >= 24 && size_of::<c_char>() == 1);
