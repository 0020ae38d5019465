//! Stops one kernel thread at whatever instruction it is, and lets it go on.
//!
//! The stopped kernel thread sits in a signal handler. The handler runs on the alternate stack, but with the thread
//! pointer of whatever thread was interrupted, perhaps in the middle of a switch: so it uses no thread-local storage
//! (not even `errno`: its system calls are raw), allocates nothing and takes no lock. All signals are blocked
//! meanwhile.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// One that nobody blocks: the monitor blocks all that can wait.
const SIGNAL: c_int = libc::SIGFPE;
const SHUT: u32 = 1;
const OPEN: u32 = 0;

/// The one who is to be stopped sleeps on this word while it is `SHUT`.
static GATE: AtomicU32 = AtomicU32::new(OPEN);
/// 1 while somebody sits in the handler.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The instruction at which it was stopped.
static STOPPED_AT: AtomicUsize = AtomicUsize::new(0);
/// One is stopped at a time.
static ONE: Mutex<()> = Mutex::new(());

#[cfg(target_arch = "x86_64")]
fn raw_futex(word: &AtomicU32, operation: c_int, value: u32) {
    // SAFETY: a futex call on a live, aligned word, without a time-out: it reads that word and writes no memory; the
    // two registers that the instruction destroys are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_futex => _,
            in("rdi") word.as_ptr(),
            in("rsi") operation as i64,
            in("rdx") u64::from(value),
            in("r10") 0,
            in("r8") 0,
            in("r9") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn raw_futex(word: &AtomicU32, operation: c_int, value: u32) {
    // SAFETY: as for x86-64; the instruction destroys no register but the result's.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") libc::SYS_futex,
            inlateout("x0") word.as_ptr() => _,
            in("x1") operation as i64,
            in("x2") u64::from(value),
            in("x3") 0,
            in("x4") 0,
            in("x5") 0,
            options(nostack),
        );
    }
}

fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        raw_futex(word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, value);
    }
}

fn set(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    raw_futex(word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX as u32);
}

extern "C" fn stop_here(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let at = context.uc_mcontext.pc as usize;
    STOPPED_AT.store(at, Ordering::Relaxed);
    set(&INSIDE, 1);
    wait_while(&GATE, SHUT);
    set(&INSIDE, 0);
}

fn install() {
    static DONE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the action is filled in; the handler is async-signal-safe (file header).
    DONE.call_once(|| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop_here as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(SIGNAL, &action, std::ptr::null_mut()), 0);
    });
}

/// The calling kernel thread's id.
pub fn own_task() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

fn tgkill(tid: i32, signal: c_int) -> bool {
    // SAFETY: takes three integers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) == 0 }
}

/// A kernel thread of this process.
#[derive(Clone, Debug)]
pub struct Task {
    pub tid: i32,
    pub name: String,
}

/// The kernel threads whose name starts with one of `prefixes`.
pub fn tasks(prefixes: &[&str]) -> Vec<Task> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").expect("the list of kernel threads").flatten() {
        let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) else { continue };
        let name = name.trim_end().to_string();
        if prefixes.iter().any(|prefix| name.starts_with(prefix))
            && let Some(tid) = entry.file_name().to_str().and_then(|tid| tid.parse().ok())
        {
            found.push(Task { tid, name });
        }
    }
    found.sort_by_key(|task| task.tid);
    found
}

/// A stopped kernel thread, which goes on when this is dropped.
pub struct Frozen {
    pub task: Task,
    /// The instruction at which it stands.
    pub at: usize,
    _one: std::sync::MutexGuard<'static, ()>,
}

/// Stops `task`. `None` when it has ended.
pub fn freeze(task: &Task) -> Option<Frozen> {
    install();
    let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Before it is stopped, perhaps within the allocator.
    let task = task.clone();
    GATE.store(SHUT, Ordering::Release);
    if !tgkill(task.tid, SIGNAL) {
        return None;
    }
    while INSIDE.load(Ordering::Acquire) == 0 {
        // It may end before the signal reaches it.
        if !tgkill(task.tid, 0) {
            return None;
        }
        std::thread::yield_now();
    }
    Some(Frozen { task, at: STOPPED_AT.load(Ordering::Relaxed), _one: one })
}

/// Whether somebody is stopped.
#[allow(dead_code)] // For those whom nobody watches over.
pub fn is_occupied() -> bool {
    INSIDE.load(Ordering::Acquire) != 0
}

/// Lets whoever is stopped go on. May be called by a signal handler.
#[allow(dead_code)] // For those who give the guard up.
pub fn open() {
    set(&GATE, OPEN);
}

impl Drop for Frozen {
    fn drop(&mut self) {
        open();
        wait_while(&INSIDE, 1);
    }
}

/// The mapping and offset of an address, as the tools that resolve symbols want them.
pub fn place_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let place = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let offset = usize::from_str_radix(fields.nth(1)?, 16).ok()?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        let file = fields.nth(2).unwrap_or("anonymous");
        (from <= address && address < to).then(|| {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!("{name} at file offset {:#x}", address - from + offset)
        })
    });
    place.unwrap_or_else(|| format!("{address:#x}, mapped nowhere"))
}
