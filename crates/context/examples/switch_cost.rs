//! Prints what a switch between contexts with their own TLS costs (malloc's words moved), for several numbers of
//! contexts in a ring, and what renewing a block costs. Run it with `--release`; figures are for looking at, not for
//! tests.

use raddle_context::stack::{Arena, Slot};
use raddle_context::switch::{Context, current_fs, fs_method, switch};
use raddle_context::tls::{self, move_malloc_words};
use std::hint::black_box;
use std::time::Instant;

/// One context of the ring. The contexts lie in one vector, as descriptors in a slab would.
struct Node {
    context: Context,
    fs: usize,
    next: *mut Node,
    left: *mut u64,
    home: *mut Node,
}

unsafe extern "C" fn turn(node: usize) -> ! {
    let node = node as *mut Node;
    loop {
        // SAFETY: the ring lives until the creator is resumed; all on one kernel thread.
        unsafe {
            let left = (*node).left;
            let target = if *left == 0 { (*node).home } else { (*node).next };
            *left = (*left).saturating_sub(1);
            move_malloc_words((*node).fs, (*target).fs);
            switch(&raw mut (*node).context, &raw const (*target).context, target.addr());
        }
    }
}

fn ring(arena: &'static Arena, contexts: usize, rounds: u64) -> f64 {
    let mut left = 0u64;
    let left = &raw mut left;
    let mut home = Node {
        context: Context::empty(),
        fs: current_fs(),
        next: core::ptr::null_mut(),
        left: core::ptr::null_mut(),
        home: core::ptr::null_mut(),
    };
    let home = &raw mut home;
    let mut slots: Vec<Slot> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..contexts {
        arena.reserve().expect("a slot");
        let slot = arena.take();
        nodes.push(Node { context: Context::empty(), fs: slot.fs(), next: core::ptr::null_mut(), left, home });
        slots.push(slot);
    }
    let first = nodes.as_mut_ptr();
    let go = |steps: u64| {
        // SAFETY: as in `turn`; `left` is only touched by the ring while we are suspended.
        unsafe {
            left.write(steps);
            move_malloc_words((*home).fs, (*first).fs);
            switch(&raw mut (*home).context, &raw const (*first).context, first.addr());
        }
    };
    // SAFETY: the vector does not move any more; the slots are ours.
    unsafe {
        for (i, slot) in slots.iter().enumerate() {
            (*first.add(i)).next = first.add((i + 1) % contexts);
            (*first.add(i)).context.prepare(slot.top(), slot.fs(), turn);
        }
    }
    go(2 * contexts as u64);
    let mut best = f64::MAX;
    for _ in 0..5 {
        // All contexts are suspended between two runs, wherever the last one stopped.
        let start = Instant::now();
        go(rounds);
        best = best.min(start.elapsed().as_nanos() as f64 / rounds as f64);
    }
    for slot in slots {
        arena.give(slot);
        arena.unreserve();
    }
    best
}

/// Bytes of the process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    text.split(' ').nth(1).expect("a second field").parse::<usize>().expect("a number") * 4096
}

fn main() {
    let tls = tls::init().expect("a supported C library");
    println!(
        "thread pointer: {}; block {} bytes; malloc words {:?}",
        fs_method(),
        tls.block_size(),
        tls.malloc_words()
    );
    let arena = Arena::new(64 << 10, 1 << 17).expect("address space");
    let (before, contexts_last) = (resident(), 100_000);
    for contexts in [2usize, 64, 1000, 10_000, contexts_last] {
        println!("switch, ring of {contexts:>6}: {:6.2} ns", ring(arena, contexts, 4_000_000));
    }
    println!("memory of a context: {} bytes", (resident() - before) / contexts_last);

    arena.reserve().expect("a slot");
    let slot = arena.take();
    let rounds = 5_000_000u32;
    let start = Instant::now();
    for _ in 0..rounds {
        // SAFETY: nobody runs on the slot.
        unsafe { tls.renew(black_box(slot.fs())) };
    }
    println!("renew: {:6.2} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
    arena.give(slot);
    let start = Instant::now();
    for _ in 0..rounds {
        let slot = arena.take();
        arena.give(slot);
    }
    println!("take + give: {:6.2} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
    arena.unreserve();
    println!("{:?}", arena.stats());
}
