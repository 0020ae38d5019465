//! The check at start: a throw-away context runs on a block built here and uses what threads will use.

use super::image::Image;
use super::layout::{Layout, Libc};
use super::threads::Threads;
use super::{MallocWords, Tls, Unsupported};
use crate::switch::{self, Context};
use core::cell::Cell;
use core::ffi::{c_int, c_void};

/// Finds the C library's parts, builds a block, and runs a context on it.
pub fn find() -> Result<Tls, Unsupported> {
    switch::disable_shadow_stack().map_err(Unsupported::new)?;
    switch::detect(false);
    let libc_so = Libc::open()?;
    let with_version = |why: Unsupported| Unsupported::new(format!("glibc {}: {}", libc_so.version(), why.reason));
    let layout = Layout::find(&libc_so).map_err(with_version)?;
    let image = Image::capture(&libc_so, &layout).map_err(with_version)?;
    let later = Err(Unsupported::new("not looked for yet"));
    let mut tls = Tls { layout, image, malloc: MallocWords::default(), threads: later };
    let malloc = probe(&tls).map_err(with_version)?;
    tls.image.forget_words(&malloc.offsets[..malloc.count]);
    tls.malloc = malloc;
    tls.threads = Threads::find(&libc_so, &tls.layout, &tls.image).map_err(with_version);
    Ok(tls)
}

/// What the throw-away context is told and what it reports.
struct Probe<'a> {
    tls: &'a Tls,
    caller: Context,
    context: Context,
    key: libc::pthread_key_t,
    malloc: MallocWords,
    failure: Option<&'static str>,
}

/// Bytes of the throw-away stack: the unwinder and std's thread handle need some.
const STACK: usize = 256 << 10;

fn probe(tls: &Tls) -> Result<MallocWords, Unsupported> {
    let mut key = 0;
    // SAFETY: a fresh mapping that only the throw-away context uses, unmapped after it is gone; the context stays on
    // this kernel thread.
    unsafe {
        let base = libc::mmap(
            core::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if base == libc::MAP_FAILED {
            return Err(Unsupported::new("no address space"));
        }
        if libc::pthread_key_create(&mut key, Some(count_key)) != 0 {
            libc::munmap(base, STACK);
            return Err(Unsupported::new("no thread-specific key is free"));
        }
        let table_size = tls.table_size().next_multiple_of(tls.align());
        let table = base.cast::<u8>().add(STACK - table_size);
        let top = table;
        let fs = super::build(&tls.layout, &tls.image, top, table, table_size);
        // The first thread may be made by the constructor of a library that is being loaded, by a kernel thread that
        // has the loader's recursive lock. The trial of destructors takes it, too.
        tls.layout.share_identity(fs as *mut u8, switch::current_fs() as *const u8);
        let mut probe = Probe {
            tls,
            caller: Context::empty(),
            context: Context::empty(),
            key,
            malloc: MallocWords::default(),
            failure: None,
        };
        let own_mark = MARK.get();
        MARK.set(own_mark + 1);
        probe.context.prepare(top.sub(tls.block_size()), fs, enter);
        let shared = &raw mut probe;
        switch::switch(&raw mut (*shared).caller, &raw const (*shared).context, shared.addr());
        MARK.set(own_mark);
        libc::pthread_key_delete(key);
        tls.renew(fs);
        libc::munmap(base, STACK);
        match probe.failure {
            Some(why) => Err(Unsupported::new(why)),
            None => Ok(probe.malloc),
        }
    }
}

/// The value that every thread's `MARK` begins with.
const FIRST_MARK: u64 = 0x5261_6464_6c65;

thread_local! {
    static MARK: Cell<u64> = const { Cell::new(FIRST_MARK) };
    static DROPS: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// Tells where its destructor ran.
struct Counted(*mut u32);

impl Drop for Counted {
    fn drop(&mut self) {
        // SAFETY: points to a local of `inspect`'s caller, which runs the destructors.
        unsafe { *self.0 += 1 };
    }
}

unsafe extern "C" fn count_key(value: *mut c_void) {
    // SAFETY: the value of this key is the address of a counter that outlives the thread.
    unsafe { *value.cast::<u32>() += 1 };
}

unsafe extern "C" fn enter(probe: usize) -> ! {
    let probe = probe as *mut Probe<'_>;
    // SAFETY: the creator keeps the probe until the switch back, and does not touch it meanwhile.
    unsafe {
        (*probe).failure = inspect(&mut *probe).err();
        switch::switch_away(&raw const (*probe).caller, 0)
    }
}

fn inspect(probe: &mut Probe<'_>) -> Result<(), &'static str> {
    let tls = probe.tls;
    let fs = probe.context.fs();
    let ensure = |right: bool, why: &'static str| if right { Ok(()) } else { Err(why) };
    ensure(switch::current_fs() == fs, "the thread pointer cannot be set")?;
    let (low, high) = tls.layout.extent();
    let inside = |address: usize| (low..high).contains(&(address.wrapping_sub(fs) as isize));

    // SAFETY: errno of this context.
    let errno: *mut c_int = unsafe { libc::__errno_location() };
    ensure(inside(errno.addr()), "errno does not follow the thread pointer")?;
    // SAFETY: errno of this context, which alone uses it.
    ensure(unsafe { *errno } == 0, "errno of a fresh block is not 0")?;

    probe.malloc = find_malloc_words(tls, fs);

    ensure(
        inside(MARK.with(|mark| core::ptr::from_ref(mark).addr())),
        "thread_local! does not follow the thread pointer",
    )?;
    ensure(MARK.get() == FIRST_MARK, "TLS of a fresh block is not initialised")?;
    let (mut drops, mut key_drops) = (0u32, 0u32);
    DROPS.set(Some(Counted(&raw mut drops)));

    // SAFETY: the key was created by the caller.
    unsafe {
        ensure(libc::pthread_getspecific(probe.key).is_null(), "thread-specific data of a fresh block is not empty")?;
        let block = fs as *mut u8;
        // An allocator in front of libc's may have set the mark already.
        tls.layout.set_specific_used(block, false);
        libc::pthread_setspecific(probe.key, (&raw mut key_drops).cast());
        ensure(tls.layout.specific_used(block), "the mark of thread-specific data is elsewhere")?;
        let first = tls.layout.specific(block, 0).read();
        let in_first = (probe.key as usize) < tls.layout.keys_per_block;
        ensure(
            !in_first || (*first.add(probe.key as usize)).value == (&raw mut key_drops).cast(),
            "thread-specific data lies elsewhere",
        )?;
    }

    // Where a panic aborts there is nothing to catch, and the trial would be the end of the program.
    if cfg!(panic = "unwind") {
        let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(7u8)));
        let same = caught.is_err_and(|payload| payload.downcast_ref() == Some(&7u8));
        ensure(same, "a panic is not caught in a context")?;
    }
    ensure(
        std::thread::current().id() == std::thread::current().id(),
        "std's handle of the current thread does not last",
    )?;

    // SAFETY: the last use of TLS in this context.
    unsafe { tls.run_destructors() };
    ensure(drops == 1, "destructors of thread-local variables do not run")?;
    ensure(key_drops == 1, "destructors of thread-specific data do not run")
}

/// Words of libc's part that the first allocation of a block changes are malloc's: no other function ran.
fn find_malloc_words(tls: &Tls, fs: usize) -> MallocWords {
    let (start, end) = tls.image.libc_range();
    let words = || (start..end).step_by(8).map(|at| load(fs, at)).collect::<ArrayOfWords>();
    let before = words();
    // SAFETY: allocated and freed at once. The volatile read keeps the pair from being removed.
    unsafe {
        let memory = libc::malloc(40).cast::<u8>();
        if !memory.is_null() {
            memory.write_volatile(1);
            libc::free(memory.cast());
        }
    }
    let after = words();
    let mut found = MallocWords::default();
    for (i, at) in (start..end).step_by(8).enumerate() {
        if before.0.get(i) != after.0.get(i) {
            if found.count == 2 {
                return MallocWords::default();
            }
            found.offsets[found.count] = at;
            found.count += 1;
        }
    }
    found
}

fn load(fs: usize, at: isize) -> usize {
    // SAFETY: inside libc's part of the current block.
    unsafe { (fs as *const u8).offset(at).cast::<usize>().read_volatile() }
}

/// Words kept without allocating, which would spoil what is measured.
struct ArrayOfWords([usize; 128]);

impl FromIterator<usize> for ArrayOfWords {
    fn from_iter<I: IntoIterator<Item = usize>>(words: I) -> Self {
        let mut array = ArrayOfWords([0; 128]);
        for (slot, word) in array.0.iter_mut().zip(words) {
            *slot = word;
        }
        array
    }
}
