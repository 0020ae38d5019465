//! The switch paths of the default policy and of the rotator contain no locked instruction and no fence.
//!
//! Instead of a list of symbols, which inlining changes, this looks at the instructions that are in fact executed from one
//! `yield_now` to the return of the same call: select, switch, finalize, the other threads' yields, indirect calls and the
//! work done every so many switches included. The kernel thread steps itself (trap flag), and a handler notes each
//! instruction's address; the instructions are then decoded as far as to tell what is forbidden.
//!
//! The monitor may take a processor for a moment while its thread is slow: that costs a locked instruction on the way back. Such
//! windows are told by the runtime's own counters and left out.
#![cfg(target_arch = "x86_64")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const ROOM: usize = 1 << 18;
static ADDRESSES: [AtomicUsize; ROOM] = [const { AtomicUsize::new(0) }; ROOM];
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// One step. On the alternate stack, with any thread's thread pointer: touches statics only.
extern "C" fn on_step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let index = NOTED.load(Ordering::Relaxed);
    if index < ROOM {
        ADDRESSES[index].store(context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize, Ordering::Relaxed);
        NOTED.store(index + 1, Ordering::Relaxed);
    }
}

fn install() {
    // SAFETY: the action is filled in; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// Runs `f` with the trap flag set. It is a flag of the kernel thread: a switch of stacks does not change it.
#[inline(never)]
fn stepped(f: impl FnOnce()) {
    // SAFETY: sets one flag; the handler for its signal is installed. The stack is used, as the default options allow.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    f();
    // SAFETY: clears it again.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq") };
}

/// What an instruction is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Locked,
    /// `xchg` with memory, which locks without the prefix.
    Exchange,
    Fence,
    SystemCall,
}

/// Decodes prefixes and opcode of the instruction that starts at `bytes`.
fn kind(bytes: &[u8]) -> Kind {
    const PREFIXES: [u8; 10] = [0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];
    let mut at = 0;
    while PREFIXES.contains(&bytes[at]) || bytes[at] == 0xf0 {
        if bytes[at] == 0xf0 {
            return Kind::Locked;
        }
        at += 1;
    }
    if bytes[at] & 0xf0 == 0x40 {
        at += 1;
    }
    let registers = |modrm: u8| modrm >> 6 == 3;
    match (bytes[at], bytes[at + 1], bytes[at + 2]) {
        (0x86 | 0x87, modrm, _) if !registers(modrm) => Kind::Exchange,
        (0x0f, 0x05, _) => Kind::SystemCall,
        // lfence, mfence, sfence; the same opcode with F3 and another register is `wrfsbase`.
        (0x0f, 0xae, modrm) if registers(modrm) && (modrm >> 3 & 7) >= 5 => Kind::Fence,
        _ => Kind::Plain,
    }
}

fn kind_at(address: usize) -> Kind {
    // SAFETY: an instruction was executed there; instructions have up to 15 bytes, but the mapping may end sooner only in the
    // last page of a library, whose code never ends in its last 16 bytes (tables follow it).
    kind(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), 16) })
}

/// How often the monitor has laid hands on a processor.
fn interventions() -> u64 {
    let stats = raddle::info::stats();
    stats.takeovers + stats.publications + stats.slices
}

/// Yields among `threads` threads on `processors`; answers with each forbidden instruction that was executed, and how many
/// instructions a switch took.
fn forbidden(policy: &str, processors: usize, threads: usize) -> (Vec<(Kind, usize)>, usize) {
    const WINDOWS: usize = 200;
    let builder = raddle::Builder::new().processors(processors).policy(policy.parse().unwrap());
    let pool = builder.build().unwrap();
    let stop = AtomicBool::new(false);
    let mut found = Vec::new();
    let mut steps = Vec::new();
    pool.run(|| {
        raddle::scope(|s| {
            for _ in 1..threads {
                s.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        raddle::yield_now();
                    }
                });
            }
            // Past the beginning: queues have found their sizes, processors are awake.
            (0..1000).for_each(|_| raddle::yield_now());
            while steps.len() < WINDOWS {
                NOTED.store(0, Ordering::Relaxed);
                let (before, switches) = (interventions(), raddle::info::stats().switches);
                stepped(raddle::yield_now);
                let noted = NOTED.load(Ordering::Relaxed);
                let made = raddle::info::stats().switches - switches;
                if interventions() != before || noted == ROOM || made == 0 {
                    raddle::yield_now();
                    continue;
                }
                steps.push(noted / made as usize);
                for address in &ADDRESSES[..noted] {
                    let address = address.load(Ordering::Relaxed);
                    let kind = kind_at(address);
                    if kind != Kind::Plain && !found.contains(&(kind, address)) {
                        found.push((kind, address));
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    steps.sort_unstable();
    (found, steps[WINDOWS / 2])
}

#[test]
fn the_decoder_knows_what_is_forbidden() {
    let pad = |bytes: &[u8]| {
        let mut padded = [0x90; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        kind(&padded)
    };
    assert_eq!(pad(&[0xf0, 0x48, 0x0f, 0xb1, 0x0f]), Kind::Locked, "lock cmpxchg [rdi], rcx");
    assert_eq!(pad(&[0x66, 0xf0, 0xff, 0x07]), Kind::Locked, "lock inc word [rdi]");
    assert_eq!(pad(&[0x48, 0x87, 0x07]), Kind::Exchange, "xchg [rdi], rax");
    assert_eq!(pad(&[0x48, 0x87, 0xc7]), Kind::Plain, "xchg rdi, rax");
    assert_eq!(pad(&[0x0f, 0xae, 0xf0]), Kind::Fence, "mfence");
    assert_eq!(pad(&[0xf3, 0x48, 0x0f, 0xae, 0xd0]), Kind::Plain, "wrfsbase rax");
    assert_eq!(pad(&[0x0f, 0xae, 0x5c, 0x24, 0x04]), Kind::Plain, "stmxcsr");
    assert_eq!(pad(&[0x0f, 0x05]), Kind::SystemCall, "syscall");
}

/// One test, since the notes are the process's.
#[test]
fn switch_paths_execute_no_locked_instruction_and_no_fence() {
    install();
    // The tool must see what it looks for.
    let word = AtomicUsize::new(0);
    NOTED.store(0, Ordering::Relaxed);
    stepped(|| {
        word.fetch_add(std::hint::black_box(1), Ordering::SeqCst);
        word.store(2, Ordering::SeqCst);
    });
    let noted: Vec<Kind> =
        ADDRESSES[..NOTED.load(Ordering::Relaxed)].iter().map(|a| kind_at(a.load(Ordering::Relaxed))).collect();
    assert!(noted.contains(&Kind::Locked) && noted.contains(&Kind::Exchange), "{noted:?}");

    for (policy, processors, threads) in [
        ("steal(lifo)", 1, 2),
        ("steal(lifo)", 1, 64),
        ("steal(lifo)", 2, 2),
        ("steal(lifo)", 2, 64),
        ("rotator", 1, 2),
        ("rotator", 1, 64),
        ("rotator", 2, 64),
    ] {
        let (found, instructions) = forbidden(policy, processors, threads);
        println!("{policy}, {processors} processors, {threads} threads: {instructions} instructions a switch");
        let shown: Vec<String> =
            found.iter().map(|(kind, address)| format!("{kind:?} at {}", place_of(*address))).collect();
        assert!(found.is_empty(), "{policy} on {processors} processors, {threads} threads: {shown:?}");
    }
}

/// The file and offset of an address, for `addr2line`.
fn place_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let place = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        let offset = usize::from_str_radix(fields.nth(1)?, 16).ok()?;
        (from..to)
            .contains(&address)
            .then(|| format!("{:#x} in {}", address - from + offset, fields.nth(2).unwrap_or("?")))
    });
    place.unwrap_or_else(|| format!("{address:#x}"))
}
