//! Figure 4 of Hurricane's paper: the instructions of a lock/unlock pair that nobody waits for, by kind, in our
//! assembly.
//!
//! Each function is executed step by step (trap flag), so that what counts is what runs; `objdump` tells what the
//! instructions are. Atomic operations, accesses to memory and branches (returns included) must be as many as in the
//! paper. Register instructions are not: the MC88100 branches on a register's value, for which x86-64 needs a `test` or
//! `cmp` first, and it has a register that is always 0, where here one is set.
#![cfg(target_arch = "x86_64")]

use raddle::lock::Algorithm;
use raddle_machine::Real;
use raddle_scheduler::lock::{Spin, SwapH1Mcs, SwapH2Mcs, SwapMcs};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROOM: usize = 4096;
static ADDRESSES: [AtomicUsize; ROOM] = [const { AtomicUsize::new(0) }; ROOM];
static NOTED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let index = NOTED.fetch_add(1, Ordering::Relaxed);
    if index < ROOM {
        ADDRESSES[index].store(context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize, Ordering::Relaxed);
    }
}

/// The addresses of the instructions that `f` executes, and a few of this function's own.
#[inline(never)]
fn stepped(f: impl FnOnce()) -> Vec<usize> {
    NOTED.store(0, Ordering::Relaxed);
    // SAFETY: sets one flag; the handler for its signal is installed. The stack is used, as the default options allow.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    f();
    // SAFETY: clears it again.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq") };
    let noted = NOTED.load(Ordering::Relaxed);
    assert!(noted < ROOM, "{noted} instructions for a pair");
    ADDRESSES[..noted].iter().map(|address| address.load(Ordering::Relaxed)).collect()
}

/// What an instruction is, as the paper counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    atomic: usize,
    memory: usize,
    register: usize,
    branch: usize,
}

impl Counts {
    fn add(&mut self, text: &str) {
        let name = text.split_whitespace().next().unwrap_or_default();
        let memory = text.contains('(') && !name.starts_with("lea") && !name.starts_with("nop");
        if name == "lock" || name.starts_with("xchg") && memory {
            self.atomic += 1;
        } else if name.starts_with('j') || name.starts_with("call") || name.starts_with("ret") {
            self.branch += 1;
        } else if memory || name.starts_with("push") || name.starts_with("pop") {
            self.memory += 1;
        } else {
            self.register += 1;
        }
    }
}

/// The text of each instruction of this program, by its address in the file.
fn disassembly() -> HashMap<usize, String> {
    let me = std::env::current_exe().unwrap();
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(me).output().expect("objdump runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let (address, text) = line.trim_start().split_once(":\t")?;
        Some((usize::from_str_radix(address, 16).ok()?, text.trim().to_string()))
    };
    text.lines().filter_map(line).collect()
}

/// Where this program's first byte lies.
fn base() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let me = std::env::current_exe().unwrap();
    let first = maps.lines().find(|line| line.ends_with(&*me.to_string_lossy())).expect("the program is mapped");
    usize::from_str_radix(first.split('-').next().unwrap(), 16).unwrap()
}

#[inline(never)]
fn lock<A: Algorithm<Real>>(algorithm: &A, node: &A::Node) {
    // SAFETY: the node is in no queue, and stays; the test unlocks.
    unsafe { algorithm.lock(node) }
}

#[inline(never)]
fn unlock<A: Algorithm<Real>>(algorithm: &A, node: &A::Node) {
    // SAFETY: the test has locked with it.
    unsafe { algorithm.unlock(node) }
}

fn count<A: Algorithm<Real>>(text: &HashMap<usize, String>, base: usize) -> Counts {
    let (algorithm, node) = (A::new(), A::node());
    let pair = || {
        black_box(lock::<A> as fn(&A, &A::Node))(black_box(&algorithm), black_box(&node));
        black_box(unlock::<A> as fn(&A, &A::Node))(black_box(&algorithm), black_box(&node));
    };
    pair();
    let addresses = stepped(pair);
    let mut counts = Counts::default();
    // From the first instruction of each function to its return.
    let starts = [lock::<A> as *const () as usize, unlock::<A> as *const () as usize];
    let mut inside = false;
    for address in addresses {
        inside |= starts.contains(&address);
        if inside {
            let text = text.get(&(address - base)).unwrap_or_else(|| panic!("objdump has nothing at {address:x}"));
            counts.add(text);
            inside = !text.starts_with("ret");
        }
    }
    counts
}

#[test]
fn a_pair_has_the_paper_s_instructions() {
    // SAFETY: the action is filled in; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
    let (text, base) = (disassembly(), base());
    let ours = [
        ("MCS", count::<SwapMcs<Real>>(&text, base), Counts { atomic: 2, memory: 2, register: 3, branch: 5 }),
        ("H1-MCS", count::<SwapH1Mcs<Real>>(&text, base), Counts { atomic: 2, memory: 1, register: 3, branch: 5 }),
        ("H2-MCS", count::<SwapH2Mcs<Real>>(&text, base), Counts { atomic: 2, memory: 0, register: 3, branch: 4 }),
        (
            "Spin",
            count::<Spin<Real, false, true>>(&text, base),
            Counts { atomic: 2, memory: 0, register: 1, branch: 3 },
        ),
    ];
    for (name, ours, paper) in ours {
        println!("{name:<7} ours {ours:?}, the paper's {paper:?}");
        let without = |counts: Counts| (counts.atomic, counts.memory, counts.branch);
        assert_eq!(without(ours), without(paper), "{name}");
        // A test for each conditional branch at most, a zero for each swap of null or 0, an argument that is moved.
        assert!((paper.register..=paper.register + 4).contains(&ours.register), "{name}: {ours:?}");
    }
}
