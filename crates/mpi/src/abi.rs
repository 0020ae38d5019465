//! What differs between implementations of MPI, and their functions by name.
//!
//! Handles and counts pass through as machine words: what a caller left in the upper half of a register or a stack slot
//! arrives as it came. Only requests and statuses are looked into: how large they are, where an error stands, and how a
//! status that nobody wants is written.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::RangeInclusive;
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
    /// `MPI_ERR_PENDING`.
    pub err_pending: c_int,
    /// `MPI_PROC_NULL`.
    proc_null: c_int,
    /// Handles are words, not halves of words.
    wide: bool,
    /// `MPI_COMM_WORLD`, `MPI_BYTE`, `MPI_PACKED`, `MPI_ERRORS_ARE_FATAL` and its like; Open MPI's are addresses.
    pub comm_world: Word,
    /// `MPI_COMM_NULL`; of Open MPI it is not asked.
    comm_null: Word,
    /// `MPI_GROUP_NULL`.
    group_null: Word,
    pub byte: Word,
    packed: Word,
    pub errors_are_fatal: Word,
    /// Handlers of errors that call no function of the program's, that one included.
    pub no_functions: RangeInclusive<Word>,
    /// `MPI_ERR_TRUNCATE`.
    pub err_truncate: c_int,
    /// `MPI_ANY_SOURCE` and `MPI_ANY_TAG`, where they have been seen.
    pub any: Option<[c_int; 2]>,
    /// Bits of a request's handle and their value where it is the one that is given to all that ended at once.
    ended: Option<(u32, u32)>,
    /// Which operations are MPI's own.
    pub operations: Operations,
    /// `MPI_DATATYPE_NULL`.
    datatype_null: Word,
    /// What `MPI_Win_fence` may be told.
    pub asserts: c_int,
}

/// How MPI's own operations are told from those that the program has made, by their handles.
pub enum Operations {
    /// These bits have this value.
    Bits(Word, Word),
    /// They are smaller numbers.
    Below(Word),
    /// They are addresses of variables.
    Variables,
}

impl Abi {
    /// Whether a rank, as a call takes it, is nobody.
    pub fn is_nobody(&self, rank: Word) -> bool {
        // The upper half of an argument may hold anything.
        rank as u32 as c_int == self.proc_null
    }

    /// Nobody, as a call takes it.
    pub fn nobody(&self) -> Word {
        self.proc_null as Word
    }

    /// Whether a request had ended when it was begun, as its handle tells: a wait for it does not wait, and takes less
    /// than a test, which first looks at all that moves: 281 instructions and 579 (MPICH 4.0.2).
    ///
    /// # Safety
    /// A request's handle.
    pub unsafe fn has_ended(&self, request: *const u8) -> bool {
        self.ended.is_some_and(|(bits, value)| {
            // SAFETY: the caller's handle, which is as large there.
            unsafe { request.cast::<u32>().read() & bits == value }
        })
    }

    /// A handle, as a call takes it, without what the upper half of a word may hold.
    pub fn handle(&self, argument: Word) -> Word {
        if self.wide { argument } else { argument as u32 as Word }
    }
}

static MPICH: Abi = Abi {
    request: 4,
    status: 20,
    error: 16,
    ignore: 1,
    err_in_status: 17,
    err_pending: 18,
    proc_null: -1,
    wide: false,
    comm_world: 0x4400_0000,
    comm_null: 0x0400_0000,
    group_null: 0x0800_0000,
    byte: 0x4c00_010d,
    packed: 0x4c00_010f,
    errors_are_fatal: 0x5400_0000,
    no_functions: 0x5400_0000..=0x5400_0003,
    err_truncate: 14,
    any: Some([-2, -1]),
    ended: Some((0xfc00_0000, 0x6c00_0000)),
    // The two upper bits say of which kind a handle is: none, MPI's own, or one of two that were made.
    operations: Operations::Bits(0x8000_0000, 0),
    datatype_null: 0x0c00_0000,
    asserts: 0x7800,
};
static OPEN_MPI: Abi = Abi {
    request: 8,
    status: 24,
    error: 8,
    ignore: 0,
    err_in_status: 18,
    err_pending: 19,
    proc_null: -2,
    wide: true,
    comm_world: 0,
    comm_null: 0,
    group_null: 0,
    byte: 0,
    packed: 0,
    errors_are_fatal: 0,
    no_functions: 0..=0,
    err_truncate: 15,
    any: Some([-1, -1]),
    ended: None,
    operations: Operations::Variables,
    datatype_null: 0,
    asserts: 0x1e,
};
/// Of MPI 5.0, chapter 20: the same of every implementation.
static STANDARD: Abi = Abi {
    request: 8,
    status: 32,
    error: 8,
    ignore: 0,
    err_in_status: 19,
    err_pending: 18,
    proc_null: -3,
    wide: true,
    comm_world: 0x101,
    comm_null: 0x100,
    group_null: 0x108,
    byte: 0x247,
    packed: 0x207,
    errors_are_fatal: 0x141,
    no_functions: 0x141..=0x143,
    err_truncate: 15,
    any: None,
    ended: None,
    // Constants fit into ten bits, and nothing else lies there.
    operations: Operations::Below(1024),
    datatype_null: 0x200,
    asserts: 0x7800,
};

/// The implementation's. The standard's is that of a library of its own, `libmpi_abi`; Open MPI is known by a symbol
/// that only it has.
pub fn abi() -> &'static Abi {
    static FOUND: OnceLock<&Abi> = OnceLock::new();
    FOUND.get_or_init(|| {
        if first_object(|file, _| file.starts_with(b"libmpi_abi.").then_some(())).is_some() {
            &STANDARD
        } else if look_up(c"ompi_mpi_comm_world").is_null() {
            &MPICH
        } else {
            &OPEN_MPI
        }
    })
}

/// Whether it is Open MPI's own.
pub fn is_open_mpi() -> bool {
    std::ptr::eq(abi(), &OPEN_MPI)
}

/// Whether it has the calls with large counts, whose names end with `_c`.
pub fn has_large_counts() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| !look_up(c"PMPI_Send_c").is_null())
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
    let found = first_object(|file, path| {
        if !file.starts_with(b"libmpi") && !file.starts_with(b"libpmpi") {
            return None;
        }
        // SAFETY: C strings; an object that is loaded is only named again.
        let found = unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if library.is_null() {
                return None;
            }
            let found = libc::dlsym(library, name.as_ptr());
            libc::dlclose(library);
            found
        };
        (!found.is_null()).then_some(found)
    });
    found.unwrap_or(std::ptr::null_mut())
}

/// What `f` tells of the first loaded object of which it tells anything, by its file's name and path.
fn first_object<T>(mut f: impl FnMut(&[u8], &CStr) -> Option<T>) -> Option<T> {
    struct Search<'a, T>(&'a mut dyn FnMut(&[u8], &CStr) -> Option<T>, Option<T>);
    unsafe extern "C" fn visit<T>(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: what `dl_iterate_phdr` shows, and what it was given to hand on.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search<T>>()) };
        if object.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the loader's name of the object.
        let path = unsafe { CStr::from_ptr(object.dlpi_name) };
        let file = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        search.1 = (search.0)(file, path);
        c_int::from(search.1.is_some())
    }
    let mut search = Search(&mut f, None);
    // SAFETY: the function above, and what it takes.
    unsafe { libc::dl_iterate_phdr(Some(visit::<T>), (&raw mut search).cast()) };
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

/// Whether a status is that of a request that was cancelled.
///
/// # Safety
/// A status of the implementation.
pub unsafe fn is_cancelled(status: *const u8) -> bool {
    let mut flag: c_int = 0;
    // SAFETY: the caller's status, and a place for the flag.
    let code = unsafe { pmpi!(Test_cancelled: fn(Word, Word))(word(status), word(&raw mut flag)) };
    code == SUCCESS && flag != 0
}

/// Whether a message waits on a communicator, or that cannot be asked.
pub fn may_have_message(comm: Word) -> bool {
    let Some([source, tag]) = abi().any else { return true };
    let mut flag: c_int = 0;
    let mut status: StatusBytes = [0; 4];
    let probe = pmpi!(Iprobe: fn(Word, Word, Word, Word, Word));
    // SAFETY: a communicator of the program's, and places for the answers.
    let code = unsafe { probe(source as Word, tag as Word, comm, word(&raw mut flag), word(status.as_mut_ptr())) };
    flag != 0 || code != SUCCESS
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
    constant(c"ompi_mpi_packed", abi().packed)
}

/// `MPI_BYTE`.
pub fn byte() -> Word {
    constant(c"ompi_mpi_byte", abi().byte)
}

/// `MPI_COMM_WORLD`.
pub fn comm_world() -> Word {
    constant(c"ompi_mpi_comm_world", abi().comm_world)
}

/// Open MPI's `MPI_ERRORS_RETURN`.
pub fn errors_return() -> Word {
    constant(c"ompi_mpi_errors_return", 0)
}

/// Open MPI's `MPI_ERRHANDLER_NULL`.
pub fn errhandler_null() -> Word {
    constant(c"ompi_mpi_errhandler_null", 0)
}

/// `MPI_COMM_NULL`.
pub fn comm_null() -> Word {
    constant(c"ompi_mpi_comm_null", abi().comm_null)
}

/// `MPI_DATATYPE_NULL`.
pub fn datatype_null() -> Word {
    constant(c"ompi_mpi_datatype_null", abi().datatype_null)
}

/// `MPI_GROUP_NULL`.
pub fn group_null() -> Word {
    constant(c"ompi_mpi_group_null", abi().group_null)
}

/// Open MPI's is the address of that variable: of the program's copy, where it has one that all use.
fn constant(variable: &CStr, others: Word) -> Word {
    if !is_open_mpi() {
        return others;
    }
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, variable.as_ptr()) };
    if found.is_null() { look_up(variable) } else { found }.expose_provenance()
}

/// For addresses that calls take.
pub fn word<T>(place: *const T) -> Word {
    place.expose_provenance()
}

/// What a call takes as a place for a status, as a pointer; none for one that nobody wants.
pub fn wanted(status: Word) -> Option<*mut u8> {
    (status != abi().ignore).then(|| std::ptr::with_exposed_provenance_mut(status))
}

const _: () = assert!(size_of::<RequestBytes>() >= 8 && size_of::<StatusBytes>() >= 32 && size_of::<c_char>() == 1);
