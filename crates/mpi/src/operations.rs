//! Operations of the program's own, for collective calls that reduce.
//!
//! A test of any request may run what another thread's non-blocking reduction still has to do: an operation of the
//! program's would run on the stack, with the thread-local variables and under the locks of whoever tests. So a
//! blocking call with such an operation has no non-blocking form here: the ranks gather, and then the implementation's
//! own call runs it in the thread that called.
//!
//! Which they are the handle says. (Who makes them is not taken over: there are calls for it that not each
//! implementation has, and a program looks whether they are there.)

use crate::abi::{Operations, Word, abi};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether the operation is one that the program has made.
pub fn is_of_the_program(operation: Word) -> bool {
    let operation = abi().handle(operation);
    match abi().operations {
        Operations::Bits(mask, own) => operation & mask != own,
        Operations::Below(end) => operation >= end,
        Operations::Variables => !is_a_variable(operation),
    }
}

/// Whether it is the address of something in a library, or in the program, and not of a block of memory.
pub fn is_a_variable(address: Word) -> bool {
    /// More than MPI has operations.
    static KNOWN: [AtomicUsize; 32] = [const { AtomicUsize::new(0) }; 32];
    for known in &KNOWN {
        // Relaxed: numbers, which stay true.
        match known.load(Ordering::Relaxed) {
            0 => break,
            one if one == address => return true,
            _ => {}
        }
    }
    // SAFETY: an answer of words that are written, for any address.
    let found = unsafe {
        let mut found = std::mem::zeroed();
        libc::dladdr(std::ptr::without_provenance(address), &mut found)
    };
    if found != 0 {
        let free =
            |known: &&AtomicUsize| known.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let _ = KNOWN.iter().find(free);
    }
    found != 0
}
