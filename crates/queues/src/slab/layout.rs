//! Where a debugger finds a slab's objects: offsets, and the addresses that iteration starts from.

use super::{FAN_OUT, Leaf, Object, Slab};
use raddle_machine::Machine;
use std::mem::offset_of;

/// What [`Slab::get`] computes with, for a reader outside of the process.
///
/// Object `i` is in chunk `i / chunk`; that is number `i / chunk % fan_out` of leaf `i / chunk / fan_out`.
///
/// # Example
/// ```
/// use raddle_machine::Real;
/// use raddle_queues::slab::Slab;
/// let layout = Slab::<u64, Real>::LAYOUT;
/// assert!(layout.value + size_of::<u64>() <= layout.object);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SlabLayout {
    /// Objects of a group: they are made together.
    pub group: usize,
    /// Objects of a chunk.
    pub chunk: usize,
    /// Entries of the directory, and of each of its leaves.
    pub fan_out: usize,
    /// Where a leaf's addresses of chunks begin.
    pub chunks: usize,
    /// Where a leaf's words begin that have a bit for each group that exists.
    pub ready: usize,
    /// Bytes from one object to the next.
    pub object: usize,
    /// Where the value is in its object.
    pub value: usize,
}

impl<T: Send + Sync + 'static, M: Machine, const GROUP: usize, const CHUNK: usize> Slab<T, M, GROUP, CHUNK> {
    /// The offsets of this kind of slab.
    pub const LAYOUT: SlabLayout = SlabLayout {
        group: GROUP,
        chunk: CHUNK,
        fan_out: FAN_OUT,
        chunks: offset_of!(Leaf<T, M>, chunks),
        ready: offset_of!(Leaf<T, M>, ready),
        object: size_of::<Object<T, M>>(),
        value: offset_of!(Object<T, M>, value),
    };

    /// The addresses of the directory and of the 32-bit number of objects that exist; they stay while the slab lives.
    pub fn roots(&self) -> (usize, usize) {
        (self.leaves.as_ptr().addr(), (&raw const self.created.0).addr())
    }
}
