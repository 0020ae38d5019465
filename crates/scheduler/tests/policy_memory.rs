//! Policies that say that they take a thread whatever it is in the middle of: none asks for memory once it is made,
//! neither to take threads nor to hand them on, also when more come than its queues hold.

mod policy_common;

use policy_common::{Threads, make};
use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Policy, Ready};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's, as it is asked; the count has neither a destructor nor memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: what `alloc` answered for this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// More than any bounded queue of a processor's.
const MANY: usize = 5_000;

/// Takes all that comes, by selection and by search of the others' parts; answers how many.
fn take_all(locals: &mut [Box<dyn Local<Real>>], threads: Threads, seen: &mut [bool]) -> usize {
    let mut count = 0;
    loop {
        let mut took = false;
        for local in locals.iter_mut() {
            let ready: Option<Ready<Real>> = local.next(u8::MAX).or_else(|| local.search());
            if let Some(ready) = ready {
                let number = threads.number(ready);
                assert!(!std::mem::replace(&mut seen[number], true), "thread {number} twice");
                (count, took) = (count + 1, true);
            }
        }
        if !took {
            return count;
        }
    }
}

/// How often the policy asks for memory while so many threads pass through it.
fn asked(expression: &str) -> (usize, bool) {
    let (policy, _says) = make(expression, 2);
    let mut locals: Vec<Box<dyn Local<Real>>> = (0..2).map(|index| policy.local(index)).collect();
    let threads = Threads::new(MANY);
    let mut seen = vec![false; MANY];
    let before = ASKED.get();
    for number in 0..MANY {
        let _ = policy.submit(threads.ready_at(number, (number % 3) as u8));
    }
    assert_eq!(take_all(&mut locals, threads, &mut seen), MANY, "{expression}");
    for cause in [Cause::Spawned, Cause::Woken, Cause::Yielded, Cause::Submitted] {
        seen.fill(false);
        for number in 0..MANY {
            let ready = threads.ready_at(number, (number % 3) as u8);
            let _ = locals[number % 2].push(ready, cause);
        }
        locals.iter_mut().for_each(|local| _ = local.publish());
        assert_eq!(take_all(&mut locals, threads, &mut seen), MANY, "{expression}, {cause:?}");
    }
    (ASKED.get() - before, policy.takes_anywhere())
}

#[test]
fn who_takes_threads_anywhere_asks_for_no_memory() {
    let say = ["steal", "steal(fifo)", "steal(batch=one)", "lifo", "priority(3, steal)", "apart(steal, lifo)"];
    for expression in say {
        assert_eq!(asked(expression), (0, true), "{expression}");
    }
    // Of locks nothing is counted here: these take some.
    for expression in
        ["waiver", "stochastic(50)", "local(overflow=locked)", "priority(2, waiver)", "apart(steal, waiver)"]
    {
        assert!(!asked(expression).1, "{expression}");
    }
    for expression in ["rotator", "fifo", "local", "multiqueue(2)", "request(ticket)", "clustered(1, steal)"] {
        println!("{expression}: {:?}", asked(expression));
    }
}
