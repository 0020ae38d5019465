//! A stack overflow names the thread; other faults go where they went before. Each in a child process.

mod common;

use common::{Fiber, arena, rerun};
use core::fmt::Write;
use raddle_context::{overflow, stack};
use std::os::unix::process::ExitStatusExt;

fn name_of(address: usize, out: &mut dyn Write) {
    let place = stack::find(address).expect("called for addresses of slots");
    let _ = write!(out, "worker {}", place.index);
}

/// Uses a page for each call.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let mut room = [depth; 512];
    std::hint::black_box(&mut room);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + room[7] }
}

fn child(test: &str) -> Option<std::process::Output> {
    if std::env::var_os("OVERFLOW_CHILD").is_some() {
        return None;
    }
    Some(rerun(test, "OVERFLOW_CHILD", "1"))
}

#[test]
fn an_overflow_is_reported_with_the_name() {
    let Some(output) = child("an_overflow_is_reported_with_the_name") else {
        overflow::install(name_of).unwrap();
        let _alternate_stack = overflow::activation_altstack().unwrap();
        let arena = arena(4);
        arena.reserve().unwrap();
        let _first = arena.take();
        Fiber::new(arena, |_| {
            std::hint::black_box(recurse(0));
        })
        .finish();
        unreachable!("the stack is finite");
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(text.contains("thread 'worker 1' has overflowed its stack (size "), "{text}");
    assert!(text.contains("Builder::stack_size"), "{text}");
}

#[test]
fn an_overflow_on_another_kernel_thread() {
    let Some(output) = child("an_overflow_on_another_kernel_thread") else {
        overflow::install(name_of).unwrap();
        let mut fiber = Fiber::new(arena(4), |to| {
            to.pause(0);
            std::hint::black_box(recurse(0));
        });
        fiber.resume(0);
        let carrier = std::thread::spawn(move || {
            let _alternate_stack = overflow::activation_altstack().unwrap();
            fiber.finish();
        });
        let _ = carrier.join();
        unreachable!("the stack is finite");
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(text.contains("thread 'worker 0' has overflowed its stack (size "), "{text}");
}

#[test]
fn a_kernel_threads_overflow_is_still_stds() {
    let Some(output) = child("a_kernel_threads_overflow_is_still_stds") else {
        overflow::install(name_of).unwrap();
        let thread = std::thread::Builder::new().name("plain".into()).stack_size(128 << 10);
        let _ = thread.spawn(|| std::hint::black_box(recurse(0))).unwrap().join();
        unreachable!("the stack is finite");
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(text.contains("has overflowed its stack") && !text.contains("worker"), "{text}");
}

#[test]
fn any_other_fault_is_what_it_was() {
    let Some(output) = child("any_other_fault_is_what_it_was") else {
        overflow::install(name_of).unwrap();
        let _alternate_stack = overflow::activation_altstack().unwrap();
        Fiber::new(arena(4), |_| {
            // SAFETY: none: the process ends here.
            unsafe { core::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
        })
        .finish();
        unreachable!("the write faults");
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("overflowed"), "{output:?}");
}
