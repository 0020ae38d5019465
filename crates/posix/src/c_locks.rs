//! The locks of `raddle::lock` for C, in `include/raddle.h`: a lock by its algorithm's name, and a place that the
//! caller lends while it waits and holds.
//!
//! The place is 256 bytes of the caller's, with any alignment that C gives: the node lies at the first multiple of
//! 128 in it.

mod deferred;
mod tries;

use raddle::lock::{
    Algorithm, Clusters, Cna, Fair, H1Mcs, H2Mcs, Hemlock, Machine, Mcs, Reciprocating, Spin, Topology, TryMcs,
};
use std::ffi::{CStr, c_char, c_int};

/// `sizeof(raddle_place)`.
const PLACE: usize = 256;
const ALIGNMENT: usize = 128;

/// A waiter's room, the caller's.
#[repr(C)]
pub struct Place([u64; PLACE / 8]);

/// One algorithm, by a pointer.
trait AnyLock: Send + Sync {
    /// # Safety
    /// As [`Algorithm::lock`], of the node that lies at `node` from then on.
    unsafe fn acquire(&self, node: *mut u8);
    /// # Safety
    /// As [`Algorithm::unlock`]; nothing lies at `node` from then on.
    unsafe fn release(&self, node: *mut u8);
    /// The lock as one that can be tried.
    fn tried(&self) -> Option<&TryMcs>;
}

struct Of<A>(A);

impl<A: Algorithm<Machine> + 'static> AnyLock for Of<A> {
    fn tried(&self) -> Option<&TryMcs> {
        (&self.0 as &dyn std::any::Any).downcast_ref()
    }

    unsafe fn acquire(&self, node: *mut u8) {
        const {
            assert!(size_of::<A::Node>() <= PLACE - ALIGNMENT && align_of::<A::Node>() <= ALIGNMENT, "it has room");
        }
        let node = node.cast::<A::Node>();
        // SAFETY: room for a node, aligned for it, which the caller lends until `release` has returned; new, so in no
        // queue.
        unsafe {
            node.write(A::node());
            self.0.lock(&*node);
        }
    }

    unsafe fn release(&self, node: *mut u8) {
        let node = node.cast::<A::Node>();
        // SAFETY: the caller has acquired with this place, so a node lies there; it is out of every queue after the
        // unlock.
        unsafe {
            self.0.unlock(&*node);
            node.drop_in_place();
        }
    }
}

/// What `raddle_lock *` points to.
pub struct Lock(Box<dyn AnyLock>);

/// The machine's clusters. What is wrong with RADDLE_CLUSTERS is for `raddle_error`.
fn clusters() -> Option<std::sync::Arc<Topology>> {
    Topology::try_machine().map_err(|wrong| crate::c_interface::set_error(&wrong)).ok()
}

fn of_name(name: &str) -> Option<Box<dyn AnyLock>> {
    fn made<A: Algorithm<Machine> + 'static>() -> Box<dyn AnyLock> {
        Box::new(Of(A::new()))
    }
    Some(match name {
        "fair" => made::<Fair>(),
        "spin" => made::<Spin>(),
        "mcs" => made::<Mcs>(),
        "h1" => made::<H1Mcs>(),
        "h2" => made::<H2Mcs>(),
        "hemlock" => made::<Hemlock>(),
        "cna" => made::<Cna>(),
        "reciprocating" => made::<Reciprocating>(),
        "try" => made::<TryMcs>(),
        _ => return None,
    })
}

/// The first aligned byte of a place.
fn node(place: *mut Place) -> *mut u8 {
    let first = place.cast::<u8>();
    first.wrapping_add(first.align_offset(ALIGNMENT))
}

/// # Safety
/// As `include/raddle.h` says: null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_create(algorithm: *const c_char) -> *mut Lock {
    // SAFETY: not null, so a C string.
    let name = if algorithm.is_null() { c"fair" } else { unsafe { CStr::from_ptr(algorithm) } };
    let name = name.to_string_lossy();
    if name == "cna" && clusters().is_none() {
        return std::ptr::null_mut();
    }
    match of_name(&name) {
        Some(lock) => Box::into_raw(Box::new(Lock(lock))),
        None => {
            crate::c_interface::set_error(&format!(
                "there is no lock `{name}`; there are fair, spin, mcs, h1, h2, hemlock, cna, reciprocating and try"
            ));
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// A lock of `raddle_lock_create` that nobody holds or waits for, and that is not used any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_destroy(lock: *mut Lock) {
    if !lock.is_null() {
        // SAFETY: made by `Box::into_raw`; the caller destroys it once.
        drop(unsafe { Box::from_raw(lock) });
    }
}

/// # Safety
/// A live lock; a place that is not in use, and stays where it is until `raddle_lock_release` with it has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_acquire(lock: *const Lock, place: *mut Place) {
    // SAFETY: as promised by the caller; the aligned part of a place has room for a node.
    unsafe { (*lock).0.acquire(node(place)) };
}

/// # Safety
/// The caller has acquired this lock with this place, and not released it since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_release(lock: *const Lock, place: *mut Place) {
    // SAFETY: it was acquired with this place, by the caller, and not released since.
    unsafe { (*lock).0.release(node(place)) };
}

/// The cluster of the caller's core, counted from 0, as [`Topology::machine`] groups cores; -1 if RADDLE_CLUSTERS asks
/// for what there is not.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_cluster() -> c_int {
    clusters().map_or(-1, |machine| c_int::try_from(machine.here().cluster).unwrap_or(0))
}

/// How many clusters there are; -1 as [`raddle_cluster`].
#[unsafe(no_mangle)]
pub extern "C" fn raddle_clusters() -> c_int {
    clusters().map_or(-1, |machine| c_int::try_from(machine.count()).unwrap_or(1))
}
