//! Thread-local storage: what a program expects of a thread holds for a context, wherever it runs.

mod common;

use common::{Fiber, Yielder, arena};
use raddle_context::stack::Slot;
use raddle_context::tls;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

thread_local! {
    static PLAIN: Cell<u64> = const { Cell::new(11) };
    static LAZY: RefCell<Vec<usize>> = RefCell::new(vec![1, 2, 3]);
    static WITH_DROP: RefCell<Option<CountDrop>> = const { RefCell::new(None) };
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn errno() -> c_int {
    // SAFETY: the caller's own errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: the caller's own errno.
    unsafe { *libc::__errno_location() = value }
}

/// What a thread has of its own, checked between pauses.
fn live_a_life(to: &Yielder, seed: u64, rounds: u64, drops: Arc<AtomicUsize>) {
    assert_eq!(PLAIN.get(), 11);
    LAZY.with_borrow(|lazy| assert_eq!(*lazy, [1, 2, 3]));
    assert_eq!(errno(), 0);
    WITH_DROP.set(Some(CountDrop(drops)));
    let id = std::thread::current().id();
    let shared = Rc::new(Cell::new(seed));
    let other = shared.clone();
    PLAIN.set(seed);
    LAZY.with(|lazy| {
        let address = core::ptr::from_ref(lazy);
        for round in 0..rounds {
            set_errno((seed * 1000 + round) as c_int);
            lazy.borrow_mut().push(round as usize);
            // A borrow of TLS and an Rc live across the change of kernel thread.
            let borrow = lazy.borrow();
            let noise: Vec<u8> = vec![seed as u8; 100 + (round as usize * 37) % 3000];
            to.pause(0);
            assert_eq!(errno(), (seed * 1000 + round) as c_int);
            assert_eq!(PLAIN.get(), seed + round);
            assert!(noise.iter().all(|&byte| byte == seed as u8));
            assert_eq!(borrow.len() as u64, 4 + round);
            assert_eq!(LAZY.with(core::ptr::from_ref), address);
            assert_eq!(std::thread::current().id(), id);
            PLAIN.set(seed + round + 1);
            other.set(other.get() + 1);
            if round % 16 == 0 {
                let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(round)));
                assert_eq!(caught.unwrap_err().downcast_ref(), Some(&round));
                assert!(!std::thread::panicking());
            }
        }
    });
    assert_eq!(shared.get(), seed + rounds);
}

#[test]
fn everything_follows_a_migrating_context() {
    // Two kernel threads hand each other all the contexts that each has just run a step of.
    let arena = arena(64);
    let drops = Arc::new(AtomicUsize::new(0));
    let (to_a, from_b) = mpsc::channel::<Fiber>();
    let (to_b, from_a) = mpsc::channel::<Fiber>();
    const FIBERS: u64 = 32;
    const ROUNDS: u64 = 3000;
    for seed in 0..FIBERS {
        let drops = drops.clone();
        to_a.send(Fiber::new(arena, move |to| live_a_life(to, 100 + seed, ROUNDS, drops))).unwrap();
    }
    let ended = AtomicUsize::new(0);
    let carry = |from: mpsc::Receiver<Fiber>, to: mpsc::Sender<Fiber>| {
        let mine = std::thread::current().id();
        PLAIN.set(1);
        while let Ok(mut fiber) = from.recv() {
            fiber.resume(0);
            assert_eq!((std::thread::current().id(), PLAIN.get()), (mine, 1));
            if fiber.done() {
                if let Some(panic) = fiber.take_panic() {
                    std::panic::resume_unwind(panic);
                }
                if ended.fetch_add(1, Ordering::Relaxed) + 1 == FIBERS as usize {
                    return;
                }
            } else if to.send(fiber).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| carry(from_b, to_b));
        scope.spawn(|| carry(from_a, to_a));
    });
    assert_eq!(ended.load(Ordering::Relaxed), FIBERS as usize);
    assert_eq!(drops.load(Ordering::Relaxed), FIBERS as usize, "each context's destructors ran once");
}

#[test]
fn a_recycled_block_is_fresh() {
    let arena = arena(2);
    let drops = Arc::new(AtomicUsize::new(0));
    let mut ids = HashSet::new();
    for seed in 0..1000u64 {
        let drops = drops.clone();
        let id = Rc::new(Cell::new(None));
        let body = {
            let id = id.clone();
            move |to: &Yielder| {
                live_a_life(to, seed, 3, drops);
                id.set(Some(std::thread::current().id()));
            }
        };
        Fiber::new(arena, body).finish();
        assert!(ids.insert(id.get().expect("the body ran")), "a thread id came twice");
    }
    assert_eq!(arena.stats().touched, 1);
    assert_eq!(drops.load(Ordering::Relaxed), 1000);
}

/// The TLS part of a slot's block, with words that point into the block made relative and malloc's left out.
fn normal_form(slot: &Slot) -> Vec<(isize, usize)> {
    let tls = tls::init().unwrap();
    let fs = slot.fs();
    let (start, end) = (slot.top().addr(), slot.top().addr() + tls.block_size());
    let (low, high) = if cfg!(target_arch = "x86_64") { (start, fs) } else { (fs + 16, end) };
    let malloc = tls.malloc_words();
    (low..high)
        .step_by(8)
        .filter_map(|at| {
            let offset = at.wrapping_sub(fs) as isize;
            if malloc.offsets[..malloc.count].contains(&offset) {
                return None;
            }
            // SAFETY: a word of the block of a slot of ours.
            let word = unsafe { (at as *const usize).read_volatile() };
            let word = if (start..end).contains(&word) { word.wrapping_sub(fs) } else { word };
            Some((offset, word))
        })
        .collect()
}

#[test]
fn no_byte_of_a_renewed_image_differs_from_a_fresh_one() {
    let arena = arena(2);
    let mut used = Fiber::new(arena, |to| {
        live_a_life(to, 5, 20, Arc::default());
        // SAFETY: plain calls into libc.
        unsafe {
            let french = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), core::ptr::null_mut());
            libc::uselocale(french);
            assert!(libc::dlopen(c"/no/such/library".as_ptr(), libc::RTLD_NOW).is_null());
            let mut host: *mut libc::addrinfo = core::ptr::null_mut();
            libc::getaddrinfo(c"127.0.0.1".as_ptr(), core::ptr::null(), core::ptr::null(), &mut host);
            libc::freeaddrinfo(host);
        }
        assert!("1.5".parse::<f64>().is_ok());
        set_errno(77);
    });
    while !used.done() {
        used.resume(0);
    }
    assert!(used.take_panic().is_none());
    // SAFETY: the context is done.
    unsafe { tls::init().unwrap().renew(used.fs()) };
    arena.reserve().unwrap();
    let fresh = arena.take();
    assert_ne!(fresh.index(), used.slot().index());
    // SAFETY: offsets of this kernel thread's errno hold in every block.
    let errno_of = |fs: usize| unsafe {
        let offset = libc::__errno_location().addr().wrapping_sub(raddle_context::switch::current_fs());
        (fs.wrapping_add(offset) as *const c_int).read()
    };
    assert_eq!(errno_of(used.fs()), 0);
    // libc keeps a few pointers of its own, null in a fresh block (the last library that registered a destructor).
    let (low, high) = tls::init().unwrap().libc_range();
    let kept = |offset: isize, fresh: usize| (low..high).contains(&offset) && fresh == 0;
    let differ: Vec<_> = normal_form(used.slot())
        .into_iter()
        .zip(normal_form(&fresh))
        .filter(|&(a, b)| a != b && !kept(b.0, b.1))
        .collect();
    assert!(differ.is_empty(), "{differ:x?}");
    arena.give(fresh);
    arena.unreserve();
}

#[test]
fn malloc_keeps_its_caches_with_the_kernel_thread() {
    let words = tls::init().unwrap().malloc_words();
    if words.count == 0 {
        return;
    }
    let arena = arena(64);
    let read = move |fs: usize| {
        // SAFETY: offsets found by `init`.
        words.offsets.map(|at| unsafe { (fs as *const u8).offset(at).cast::<usize>().read_volatile() })
    };
    let native = read(raddle_context::switch::current_fs());
    let mut fibers: Vec<Fiber> = (0..32)
        .map(|_| {
            Fiber::new(arena, move |to| {
                let kept: Vec<Vec<u8>> = (1..200).map(|size| vec![7u8; size * 5]).collect();
                assert_eq!(
                    read(raddle_context::switch::current_fs()),
                    native,
                    "one cache for all contexts of a kernel thread"
                );
                to.pause(0);
                drop(kept);
                to.pause(0);
            })
        })
        .collect();
    for _ in 0..2 {
        for fiber in &mut fibers {
            fiber.resume(0);
        }
    }
    assert_eq!(read(raddle_context::switch::current_fs()), native);
    for fiber in fibers {
        fiber.finish();
    }
}

/// Destructor calls of the keys below.
static KEY_CALLS: AtomicUsize = AtomicUsize::new(0);
static STUBBORN: AtomicUsize = AtomicUsize::new(0);
static STUBBORN_KEY: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn key_dropped(value: *mut c_void) {
    KEY_CALLS.fetch_add(value.addr(), Ordering::Relaxed);
}

unsafe extern "C" fn key_stubborn(value: *mut c_void) {
    STUBBORN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(STUBBORN_KEY.load(Ordering::Relaxed) as _, value) };
}

#[test]
fn thread_specific_data_is_destroyed_and_forgotten() {
    let mut keys = Vec::new();
    // More than one block of 32 keys, so that the second level is used too.
    for _ in 0..40 {
        let mut key = 0;
        // SAFETY: creates a key.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(key_dropped)) }, 0);
        keys.push(key);
    }
    let mut stubborn = 0;
    // SAFETY: creates a key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut stubborn, Some(key_stubborn)) }, 0);
    STUBBORN_KEY.store(stubborn as usize, Ordering::Relaxed);
    let arena = arena(1);
    for round in 0..10usize {
        let set = keys.clone();
        let body = move |to: &Yielder| {
            for &key in &set {
                // SAFETY: valid keys.
                unsafe {
                    assert!(libc::pthread_getspecific(key).is_null(), "round {round}");
                    libc::pthread_setspecific(key, core::ptr::without_provenance(key as usize + 1));
                }
            }
            // SAFETY: a valid key.
            unsafe {
                assert!(libc::pthread_getspecific(stubborn).is_null());
                libc::pthread_setspecific(stubborn, core::ptr::without_provenance(1));
            }
            to.pause(0);
            for &key in &set {
                // SAFETY: valid keys.
                assert_eq!(unsafe { libc::pthread_getspecific(key) }.addr(), key as usize + 1);
            }
        };
        Fiber::new(arena, body).finish();
        let expected: usize = keys.iter().map(|&key| key as usize + 1).sum();
        assert_eq!(KEY_CALLS.swap(0, Ordering::Relaxed), expected);
        assert_eq!(STUBBORN.swap(0, Ordering::Relaxed), 4, "as many rounds as POSIX says");
    }
}

#[test]
fn a_child_of_fork_lives() {
    let fiber = Fiber::new(arena(2), |to| {
        to.pause(0);
        // SAFETY: the child only calls what is allowed there, and _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let right = PLAIN.get() == 11 && errno() == 0;
                libc::free(libc::malloc(100));
                libc::_exit(if right { 42 } else { 1 });
            }
            assert!(child > 0);
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "status {status:x}");
        }
    });
    fiber.finish();
}

/// For libraries: it goes with the process.
fn folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("raddle-context-{}", std::process::id()))
}

extern "C" fn remove_folder() {
    let _ = std::fs::remove_dir_all(folder());
}

/// Builds a shared library from C; `None` where there is no C compiler.
fn build_library(name: &str, flags: &[&str], source: &str) -> Option<CString> {
    static REMOVED: std::sync::Once = std::sync::Once::new();
    // SAFETY: a function of ours, which stays.
    REMOVED.call_once(|| assert_eq!(unsafe { libc::atexit(remove_folder) }, 0));
    let folder = folder();
    std::fs::create_dir_all(&folder).unwrap();
    let (c, so) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    std::fs::write(&c, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = std::process::Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1"])
        .args(flags)
        .arg("-o")
        .arg(&so)
        .arg(&c)
        .status();
    match status {
        Ok(status) if status.success() => Some(CString::new(so.into_os_string().into_encoded_bytes()).unwrap()),
        _ => {
            eprintln!("no C compiler: skipped");
            None
        }
    }
}

type Bump = unsafe extern "C" fn() -> c_int;

/// Loads a library and finds its `bump`.
fn load(library: &CStr) -> (*mut c_void, Bump) {
    // SAFETY: a library of ours, whose `bump` has this type.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror() as *const c_char));
        let bump = libc::dlsym(handle, c"bump".as_ptr());
        assert!(!bump.is_null());
        (handle, core::mem::transmute::<*mut c_void, Bump>(bump))
    }
}

#[test]
fn libraries_loaded_later_have_fresh_tls_in_each_context() {
    const SOURCE: &str = "static __thread int n = 5; static __thread char big[3000]; int bump(void) { big[n] += 1; return ++n + (big[n - 1] - 1) * 1000; }";
    let dynamic = build_library("dynamic", &[], SOURCE);
    let fixed = build_library(
        "fixed",
        &["-ftls-model=initial-exec"],
        "static __thread int n = 9; static __thread char pad[20]; int bump(void) { pad[n - 9] = 1; return ++n; }",
    );
    let (Some(dynamic), Some(fixed)) = (dynamic, fixed) else { return };
    let arena = arena(4);
    // Used before either is loaded.
    for _ in 0..3 {
        Fiber::new(arena, |to| live_a_life(to, 1, 2, Arc::default())).finish();
    }
    let mut before = Fiber::new(arena, |to| {
        to.pause(0);
        let bump = to.pause(0);
        // SAFETY: the test passes the function.
        let bump = unsafe { core::mem::transmute::<usize, Bump>(bump) };
        for i in 1..50 {
            // SAFETY: a function of the library.
            assert_eq!(unsafe { bump() }, 5 + i);
            to.pause(0);
        }
    });
    before.resume(0);
    let (handle, bump) = load(&dynamic);
    before.resume(0);
    before.resume(bump as usize);
    let check = move |first: c_int, bump: Bump| {
        // Three generations on recycled blocks.
        for _ in 0..3 {
            let fibers: Vec<Fiber> = (0..3)
                .map(|_| {
                    Fiber::new(arena, move |to| {
                        for i in 1..20 {
                            // SAFETY: a function of the library.
                            assert_eq!(unsafe { bump() }, first + i);
                            to.pause(0);
                        }
                    })
                })
                .collect();
            for fiber in fibers {
                fiber.finish();
            }
        }
    };
    check(5, bump);
    before.finish();
    check(5, bump);
    let (fixed_handle, fixed_bump) = load(&fixed);
    check(9, fixed_bump);
    check(5, bump);
    // Unloaded and loaded again: a number used twice.
    // SAFETY: nothing of the library runs.
    unsafe { libc::dlclose(handle) };
    Fiber::new(arena, |to| live_a_life(to, 1, 2, Arc::default())).finish();
    let (handle, bump) = load(&dynamic);
    check(5, bump);
    check(9, fixed_bump);
    // SAFETY: nothing of the libraries runs.
    unsafe {
        libc::dlclose(fixed_handle);
        libc::dlclose(handle);
    }
    check_again(arena);
}

fn check_again(arena: &'static raddle_context::stack::Arena) {
    for seed in 0..4 {
        Fiber::new(arena, move |to| live_a_life(to, seed, 2, Arc::default())).finish();
    }
}

/// Bytes that libc's allocator has given out, over all its arenas.
fn allocated() -> usize {
    // SAFETY: asks for numbers. By name, since C libraries before 2.33 lack it, where no test comes so far.
    let info = unsafe {
        let mallinfo2 = libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr());
        assert!(!mallinfo2.is_null());
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> libc::mallinfo2>(mallinfo2)()
    };
    info.uordblks + info.hblkhd
}

/// True in a process of its own, in which nobody else allocates; runs the test again in one otherwise.
fn alone(test: &str) -> bool {
    const ALONE: &str = "RADDLE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        common::until_the_harness_sleeps();
        return true;
    }
    let output = common::rerun(test, ALONE, "1");
    assert!(output.status.success(), "{output:?}");
    false
}

#[test]
fn a_fresh_block_allocates_nothing() {
    if !alone("a_fresh_block_allocates_nothing") {
        return;
    }
    const SLOTS: usize = 200;
    let arena = arena(SLOTS);
    let mut slots = Vec::with_capacity(SLOTS);
    let before = allocated();
    for _ in 0..SLOTS {
        arena.reserve().unwrap();
        slots.push(arena.take());
    }
    assert_eq!(allocated(), before);
    slots.into_iter().for_each(|slot| arena.give(slot));
}

#[test]
fn more_libraries_than_a_table_has_room_near_at_hand() {
    if !alone("more_libraries_than_a_table_has_room_near_at_hand") {
        return;
    }
    const SOURCE: &str =
        "static __thread int n = 5; static __thread char big[300]; int bump(void) { big[n] = 1; return ++n; }";
    // Enough to reach beyond the page where the table begins.
    const LIBRARIES: usize = 300;
    let Some(first) = build_library("many", &[], SOURCE) else { return };
    let path = std::path::PathBuf::from(first.to_str().unwrap());
    let arena = arena(4);
    // Its table is older than all of them, and its thread lives on.
    let bumps: Rc<RefCell<Vec<Bump>>> = Rc::default();
    let all = bumps.clone();
    let mut before = Fiber::new(arena, move |to| {
        for i in 1..20 {
            to.pause(0);
            // SAFETY: functions of the libraries.
            all.borrow().iter().for_each(|bump| assert_eq!(unsafe { bump() }, 5 + i));
        }
    });
    before.resume(0);
    for i in 0..LIBRARIES {
        let copy = path.with_file_name(format!("libmany{i}.so"));
        std::fs::copy(&path, &copy).unwrap();
        let (_, bump) = load(&CString::new(copy.clone().into_os_string().into_encoded_bytes()).unwrap());
        std::fs::remove_file(copy).unwrap();
        bumps.borrow_mut().push(bump);
    }
    let generation = || {
        let fibers: Vec<Fiber> = (0..3)
            .map(|_| {
                let all = bumps.clone();
                Fiber::new(arena, move |to| {
                    for i in 1..4 {
                        // SAFETY: functions of the libraries.
                        all.borrow().iter().for_each(|bump| assert_eq!(unsafe { bump() }, 5 + i));
                        to.pause(0);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(Fiber::finish);
    };
    generation();
    before.resume(0);
    generation();
    let used = allocated();
    for _ in 0..50 {
        generation();
    }
    let grown = allocated() as isize - used as isize;
    assert!(grown.unsigned_abs() < LIBRARIES * 300, "{grown} bytes of ended threads are left");
    before.finish();
    // Slots whose memory went back get tables that know all libraries.
    arena.shrink(0);
    generation();
}

/// A C library that keeps `first` and counts from there, in static TLS.
fn counting_from(first: c_int) -> String {
    format!(
        "static __thread int n = {first}; static __thread char pad[20]; int bump(void) {{ pad[3] = 1; return ++n; }}"
    )
}

#[test]
fn a_library_with_static_tls_reaches_threads_that_live() {
    let tls = tls::init().unwrap();
    tls.reaches_live_threads().unwrap();
    let build = |name, first| build_library(name, &["-ftls-model=initial-exec"], &counting_from(first));
    let (Some(outside), Some(inside)) = (build("outside", 100), build("inside", 200)) else { return };
    let arena = arena(64);
    let bumps = |to: &Yielder, first: c_int| {
        let bump = to.pause(0);
        // SAFETY: the test passes the function.
        let bump = unsafe { core::mem::transmute::<usize, Bump>(bump) };
        for i in 1..20 {
            // SAFETY: a function of the library.
            assert_eq!(unsafe { bump() }, first + i);
            to.pause(0);
        }
    };
    // Blocks used before, given back, and used for the first time.
    (0..8).for_each(|seed| Fiber::new(arena, move |to| live_a_life(to, seed, 2, Arc::default())).finish());
    arena.shrink(0);
    let mut lives: Vec<Fiber> = (0..32)
        .map(|_| {
            Fiber::new(arena, move |to| {
                to.pause(0);
                bumps(to, 100);
                bumps(to, 200);
            })
        })
        .collect();
    let all = |fibers: &mut [Fiber], value| fibers.iter_mut().for_each(|fiber| _ = fiber.resume(value));
    all(&mut lives, 0);
    // Loaded by a kernel thread.
    let (_, bump) = load(&outside);
    all(&mut lives, 0);
    all(&mut lives, bump as usize);
    (1..20).for_each(|_| all(&mut lives, 0));
    // Loaded by one of them, which uses it at once.
    let found = Rc::new(Cell::new(0));
    let tell = found.clone();
    Fiber::new(arena, move |_| {
        let (_, bump) = load(&inside);
        // SAFETY: a function of the library.
        assert_eq!(unsafe { bump() }, 201);
        tell.set(bump as usize);
    })
    .finish();
    all(&mut lives, found.get());
    lives.into_iter().for_each(Fiber::finish);
}

#[test]
fn the_list_of_threads_stays_whole() {
    // Kernel threads begin and end, libraries come and go, children are forked, while blocks are linked and taken back.
    if !alone("the_list_of_threads_stays_whole") {
        return;
    }
    let Some(library) = build_library("comes", &["-ftls-model=initial-exec"], &counting_from(7)) else { return };
    let arena = arena(256);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..300 {
                    let count = 1 + round % 40;
                    let mut fibers: Vec<Fiber> =
                        (0..count).map(|_| Fiber::new(arena, |to| assert_eq!(to.pause(1), 2))).collect();
                    fibers.iter_mut().for_each(|fiber| assert_eq!(fiber.resume(0), 1));
                    fibers.iter_mut().for_each(|fiber| _ = fiber.resume(2));
                    fibers.into_iter().for_each(Fiber::finish);
                    arena.shrink(round % 7);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 600 {
                std::thread::spawn(|| ()).join().unwrap();
                let (handle, bump) = load(&library);
                // SAFETY: a function of the library, which nobody else uses.
                unsafe {
                    assert_eq!(bump(), 8);
                    libc::dlclose(handle);
                }
            }
        });
        scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 600 {
                Fiber::new(arena, |_| {
                    // SAFETY: the child does nothing but end.
                    unsafe {
                        let child = libc::fork();
                        if child == 0 {
                            libc::_exit(42);
                        }
                        let mut status = 0;
                        assert_eq!(libc::waitpid(child, &mut status, 0), child);
                        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "status {status:x}");
                    }
                })
                .finish();
            }
        });
    });
    arena.shrink(0);
    assert_eq!(arena.stats().reserved, 0);
}

#[test]
fn error_checking_mutexes_know_their_owner() {
    // glibc compares thread ids, which are ours.
    let arena = arena(2);
    // SAFETY: an ordinary mutex, initialised before and destroyed after its use.
    unsafe {
        let mutex: &'static mut libc::pthread_mutex_t = Box::leak(Box::new(core::mem::zeroed()));
        let mutex: *mut libc::pthread_mutex_t = mutex;
        let mut attribute: libc::pthread_mutexattr_t = core::mem::zeroed();
        libc::pthread_mutexattr_init(&mut attribute);
        libc::pthread_mutexattr_settype(&mut attribute, libc::PTHREAD_MUTEX_ERRORCHECK);
        libc::pthread_mutex_init(mutex, &attribute);
        let mut first = Fiber::new(arena, move |to| {
            assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            assert_eq!(libc::pthread_mutex_lock(mutex), libc::EDEADLK);
            to.pause(0);
            assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
        });
        first.resume(0);
        Fiber::new(arena, move |_| {
            assert_eq!(libc::pthread_mutex_unlock(mutex), libc::EPERM);
            assert_eq!(libc::pthread_mutex_trylock(mutex), libc::EBUSY);
        })
        .finish();
        first.finish();
        assert_eq!(libc::pthread_mutex_destroy(mutex), 0);
    }
}

#[test]
fn what_is_missing_is_one_clear_line() {
    let why =
        tls::Unsupported { reason: "glibc 2.0: no symbol _dl_allocate_tls; version 2.34 or later is needed".into() };
    let text = why.to_string();
    assert!(
        !text.contains('\n') && text.contains("2.34") && text.contains("one kernel thread per thread is used"),
        "{text}"
    );
}
