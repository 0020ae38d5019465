//! What a debugger's script needs to find all threads of a process, live or in a core dump: one table of numbers.
//!
//! A release build has no types for debuggers, so the script (`crates/posix/gdb/raddle.py`) reads this table and
//! nothing else. Its fields are words of eight bytes, in this order; a change of their order or meaning is a new
//! [`VERSION`].

use crate::carry::activation::Activation;
use crate::carry::descriptor::{Descriptor, FREE, Info};
use crate::carry::note::Note;
use raddle_context::switch::{Context, SAVED};
use raddle_machine::Real;
use raddle_queues::slab::Slab;
use raddle_scheduler::Thread;
use raddle_scheduler::join::EXITED;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};

const VERSION: usize = 1;
type Descriptors = Slab<Descriptor, Real>;

/// The table.
#[repr(C)]
pub struct DebugLayout {
    magic: [u8; 8],
    version: usize,
    bytes: usize,
    /// The directory of the descriptors; 0 before there is any.
    leaves: AtomicUsize,
    created: AtomicUsize,
    /// From a thread's pointer to the note of what it waits for.
    note: AtomicUsize,
    slab: [usize; 7],
    /// In a descriptor: the word of its wait, flags, tag, stack pointer, thread pointer, activation, slot, join word,
    /// info.
    descriptor: [usize; 9],
    /// Phases of the wait's word: mask, arming, parked; the flag of a kernel thread; the tag of a free descriptor; the
    /// join word's mask and exited.
    values: [usize; 7],
    /// In an activation: the kernel's ids of its kernel thread (while shared, while dedicated), and the word it waits
    /// for.
    activation: [usize; 3],
    /// In an info: the name's address and length.
    info: [usize; 2],
    /// In a note: the kind's address and length, the object, the holder.
    waits: [usize; 4],
    /// At the stack pointer of a suspended thread: where it goes on, the callee-saved register, the frame pointer,
    /// bytes in all.
    saved: [usize; 4],
}

/// The table, by the name under which debuggers find it.
#[allow(non_upper_case_globals)]
#[unsafe(no_mangle)]
pub static raddle_debug_layout: DebugLayout = DebugLayout {
    magic: *b"raddle\0\x01",
    version: VERSION,
    bytes: size_of::<DebugLayout>(),
    leaves: AtomicUsize::new(0),
    created: AtomicUsize::new(0),
    note: AtomicUsize::new(0),
    slab: {
        let slab = Descriptors::LAYOUT;
        [slab.group, slab.chunk, slab.fan_out, slab.chunks, slab.ready, slab.object, slab.value]
    },
    descriptor: [
        offset_of!(Descriptor, thread) + Thread::<Real>::WAIT,
        offset_of!(Descriptor, thread) + Thread::<Real>::FLAGS,
        offset_of!(Descriptor, thread) + offset_of!(Thread<Real>, tag),
        offset_of!(Descriptor, context) + Context::SP,
        offset_of!(Descriptor, context) + Context::FS,
        offset_of!(Descriptor, activation),
        offset_of!(Descriptor, slot),
        offset_of!(Descriptor, join),
        offset_of!(Descriptor, info),
    ],
    values: {
        let [mask, arming, parked, kernel_thread] = Thread::<Real>::MARKS;
        [mask, arming, parked, kernel_thread, FREE as usize, EXITED as usize, EXITED as usize]
    },
    activation: [offset_of!(Activation, tid), offset_of!(Activation, task), offset_of!(Activation, waits_for)],
    info: Info::NAME,
    waits: Note::FIELDS,
    saved: [SAVED.pc, SAVED.kept, SAVED.fp, SAVED.bytes],
};

/// Says where the descriptors are. Called once, when their slab is made.
pub(crate) fn publish(slab: &Descriptors) {
    let (leaves, created) = slab.roots();
    let table = &raddle_debug_layout;
    // Relaxed: read by debuggers only, while the process stands still; the directory's address comes last.
    table.created.store(created, Ordering::Relaxed);
    table.note.store(crate::carry::note::note_offset(), Ordering::Relaxed);
    table.leaves.store(leaves, Ordering::Relaxed);
}
