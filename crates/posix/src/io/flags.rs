//! Which descriptors are not to block, without asking each time.
//!
//! The kernel is asked when a call has found nothing (F_GETFL), and the answer is kept as long as it can be relied on:
//! for descriptors whose birth was seen ([`raddle::io::known_life`]) and until anybody in this process changes the
//! flags of a descriptor that may be another name of this one. A descriptor that was born with its file, and not
//! duplicated since (as far as both are known births), has no such name: what is set through it is its own business,
//! and known at once. (Its copies of unknown birth are asked about each time.) A fork ends what is known of all that
//! are open. What a program started by `posix_spawn` does to the flags of a descriptor that it was given is not
//! noticed, nor what is changed past the C library.
//!
//! The word of a descriptor: `life:24 | changes:24 | version:14 | state:2`. It is valid in its life, and while nobody
//! has changed flags of other names (`changes`). Who asks the kernel stores the answer only over the word that he found
//! before; who changes flags counts the version up before the call, and stores what he has set only over that. So an
//! answer from before a change, or from between two that met, never stays; where two changes meet, nothing is known. (A
//! word that came back after 2^14 changes, 2^24 lives or changes of others during one call is not noticed.)

use super::kind;
use crate::os::{self, c, system_call};
use raddle::io::{known_life, notes};
use raddle_macros::entry;
use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How often flags were changed of descriptors that may have other names.
static CHANGES: AtomicU32 = AtomicU32::new(0);

const BITS: u64 = (1 << 24) - 1;
const LIFE: u32 = 40;
const CHANGE: u32 = 16;
const VERSION: u64 = 4;
/// The last two bits: not known, or one of these.
const BLOCKS: u64 = 1;
const DOES_NOT: u64 = 2;
const STATE: u64 = 3;

/// What a valid word begins with now, and where it is. `None` for descriptors of which nothing is kept.
fn place(descriptor: c_int) -> Option<(u64, &'static AtomicU64)> {
    let life = known_life(descriptor)?;
    // Acquire: pairs with `changed`: who sees the count as it is now asks for the flags as they are now, or later.
    let changes = CHANGES.load(Ordering::Acquire);
    Some(((u64::from(life) & BITS) << LIFE | (u64::from(changes) & BITS) << CHANGE, notes(descriptor)?.large))
}

/// The state that `word` tells, if it is valid.
fn state(word: u64, valid: u64) -> u64 {
    if word >> CHANGE == valid >> CHANGE { word & STATE } else { 0 }
}

/// The version of `word`, in its place.
fn version(word: u64) -> u64 {
    word & ((1 << CHANGE) - 1) & !STATE
}

fn state_of(does_not_block: bool) -> u64 {
    if does_not_block { DOES_NOT } else { BLOCKS }
}

/// True for a descriptor whose calls are not to block.
pub(super) fn is_nonblocking(descriptor: c_int) -> bool {
    let place = place(descriptor);
    // Relaxed: one word says all.
    let told = place.map_or(0, |(_, word)| word.load(Ordering::Relaxed));
    match place.map_or(0, |(valid, _)| state(told, valid)) {
        0 => {}
        known => return known == DOES_NOT,
    }
    // SAFETY: asks for flags.
    let flags = unsafe { system_call(c::SYS_fcntl, [descriptor as usize, c::F_GETFL as usize, 0, 0, 0, 0]) };
    let answer = flags >= 0 && flags as c_int & c::O_NONBLOCK != 0;
    if let Some((valid, word)) = place.filter(|_| flags >= 0) {
        let new = valid | version(told) | state_of(answer);
        let _ = word.compare_exchange(told, new, Ordering::Relaxed, Ordering::Relaxed);
    }
    answer
}

/// True for a descriptor whose calls are to block, as far as is known without asking.
#[inline]
pub(super) fn blocks(descriptor: c_int) -> bool {
    place(descriptor).is_some_and(|(valid, word)| state(word.load(Ordering::Relaxed), valid) == BLOCKS)
}

/// Somebody has changed the flags of a descriptor that may have another name.
fn changed() {
    // Release: pairs with the load in `place`.
    CHANGES.fetch_add(1, Ordering::Release);
}

/// What is known of a descriptor is known no longer, whoever is about to store it. The word from now on.
fn begin(valid: u64, word: &AtomicU64) -> u64 {
    let mut before = word.load(Ordering::Relaxed);
    loop {
        let new = valid | version(before.wrapping_add(VERSION));
        match word.compare_exchange_weak(before, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return new,
            Err(now) => before = now,
        }
    }
}

/// Runs `call`, which sets the flags; `set`, after it has succeeded, says whether they ask not to block.
fn setting(descriptor: c_int, call: impl FnOnce() -> c_int, set: impl FnOnce() -> bool) -> c_int {
    // After the child of a `vfork` its parent knows nothing any more of what both share.
    if crate::process::vfork::is_child() {
        return call();
    }
    let place = place(descriptor);
    let begun = place.map(|(valid, word)| begin(valid, word));
    let result = call();
    // Events: S the flags are set, L the look for other names; M another name is noted (`kind::share`), G the flags are
    // asked for under it. Forbidden: L misses M and G misses S. A fence stands between each two.
    fence(Ordering::SeqCst);
    match (place, begun) {
        (Some((valid, word)), Some(begun)) if !kind::is_shared(descriptor) => {
            let new = begun | state_of(result >= 0 && set());
            if result < 0 || word.compare_exchange(begun, new, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                begin(valid, word);
            }
        }
        _ => changed(),
    }
    result
}

/// Names who is told of a descriptor's events, maybe a thread. (The `libc` crate lacks it.)
const F_SETOWN_EX: c_int = 15;

/// It takes a variable number of arguments; a third one comes in its register, whatever its type.
#[entry]
pub unsafe extern "C-unwind" fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    control(descriptor, command, argument, || unsafe {
        next!(fcntl: fn(c_int, c_int, usize) -> c_int)(descriptor, command, argument)
    })
}

/// `fcntl` for files of any size.
#[entry]
pub unsafe extern "C-unwind" fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int {
    control(descriptor, command, argument, || natively!())
}

fn control(descriptor: c_int, command: c_int, argument: usize, call: impl FnOnce() -> c_int) -> c_int {
    match command {
        c::F_SETFL => setting(descriptor, call, || argument as c_int & c::O_NONBLOCK != 0),
        c::F_DUPFD | c::F_DUPFD_CLOEXEC => {
            let made = call();
            super::birth::note_copy(descriptor, made);
            made
        }
        F_SETOWN_EX => match crate::process::own::translated_owner(argument) {
            // SAFETY: an owner on the stack.
            Ok(Some(owner)) => os::answer(unsafe {
                let place = (&raw const owner).expose_provenance();
                system_call(c::SYS_fcntl, [descriptor as usize, command as usize, place, 0, 0, 0])
            }) as c_int,
            Ok(None) => call(),
            Err(error) => os::answer(-(error as isize)) as c_int,
        },
        _ => call(),
    }
}

#[entry]
pub unsafe extern "C-unwind" fn ioctl(descriptor: c_int, request: c_ulong, argument: usize) -> c_int {
    let call = || natively!();
    if request != c::FIONBIO as c_ulong {
        return call();
    }
    let number = std::ptr::with_exposed_provenance::<c_int>(argument);
    // SAFETY: the kernel has just read it; it need not be aligned.
    setting(descriptor, call, || unsafe { number.read_unaligned() } != 0)
}

aliases! {
    __fcntl = fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int;
}
