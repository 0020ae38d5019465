//! `select` and `pselect`: sets of numbers, which wait as the entries of a `poll` do.

use super::poll::{MASK, NOW, Nested, at_most, looks, sleep, wait_once, wanted};
use super::{Pause, after, at, done, in_handler, ours_or_handlers};
use crate::os::{c, now, reach};
use crate::process::{dump_signal, kernel_waits, masked_waits, watch};
use crate::thread::caller::Caller;
use raddle::io::Failure;
use raddle_macros::entry;
use std::ffi::c_int;

/// Numbers that a set of `select` has room for.
const SET: usize = c::FD_SETSIZE;
const WORDS: usize = SET / 64;

/// Whether each is null or memory for a set of so many numbers.
fn are_sets(count: usize, given: [*mut c::fd_set; 3]) -> bool {
    let words = count.div_ceil(64);
    let is_set = |set: *mut u64| words == 0 || reach::reads_all(set, words) && reach::writes(set);
    given.iter().all(|set| set.is_null() || is_set(set.cast()))
}

/// The three sets of a `select`, as the caller gave them.
struct Sets {
    given: [*mut u64; 3],
    before: [[u64; WORDS]; 3],
    count: usize,
}

impl Sets {
    /// # Safety
    /// Each is null or a set for `count` numbers.
    unsafe fn new(count: usize, given: [*mut c::fd_set; 3]) -> Self {
        let given = given.map(|set| set.cast::<u64>());
        let mut before = [[0; WORDS]; 3];
        for (set, copy) in given.iter().zip(&mut before).filter(|(set, _)| !set.is_null()) {
            // SAFETY: the caller's set, in words.
            unsafe { set.copy_to_nonoverlapping(copy.as_mut_ptr(), count.div_ceil(64)) };
        }
        Self { given, before, count }
    }

    /// One look at, or wait for, the numbers as they were given; the caller's sets hold the answer if there is one.
    /// `anywhere`: as [`kernel_waits::attempt_anywhere`].
    fn call(&self, time: Option<&c::timespec>, mask: usize, anywhere: bool) -> isize {
        let mut answer = self.before;
        let mut places = [0; 3];
        for (place, (copy, set)) in places.iter_mut().zip(answer.iter_mut().zip(&self.given)) {
            *place = if set.is_null() { 0 } else { at(copy.as_mut_ptr()) };
        }
        let mut time = time.copied();
        let time = time.as_mut().map_or(0, |time| at(std::ptr::from_mut(time)));
        let mask = [mask, MASK];
        let mask = if mask[0] == 0 { 0 } else { at(mask.as_ptr()) };
        let attempt = if anywhere { kernel_waits::attempt_anywhere } else { kernel_waits::attempt };
        // SAFETY: null or our copies, of so many words, that live during the call; so do time and mask.
        let result = unsafe { attempt(c::SYS_pselect6, [self.count, places[0], places[1], places[2], time, mask]) };
        if result >= 0 {
            for (set, copy) in self.given.iter().zip(&answer).filter(|(set, _)| !set.is_null()) {
                // SAFETY: not null, so the caller's set, with room for so many words, as `select` asks; the copy is our
                // own.
                unsafe { set.copy_from_nonoverlapping(copy.as_ptr(), self.count.div_ceil(64)) };
            }
        }
        result
    }

    /// The same as entries of a `poll`.
    fn entries<'a>(&self, room: &'a mut [c::pollfd; SET]) -> &'a [c::pollfd] {
        let mut used = 0;
        for number in 0..self.count {
            let is_in = |set: usize| self.before[set][number / 64] >> (number % 64) & 1 != 0;
            let events = [(0, c::POLLIN), (1, c::POLLOUT), (2, c::POLLPRI)];
            let events = events.into_iter().filter(|(set, _)| is_in(*set)).fold(0, |all, (_, event)| all | event);
            if events != 0 {
                room[used] = c::pollfd { fd: number as c_int, events, revents: 0 };
                used += 1;
            }
        }
        &room[..used]
    }

    #[inline(never)]
    fn wait(&self, nested: &mut Option<Nested>, deadline: Option<u64>) -> Result<(), Failure> {
        let mut room = [c::pollfd { fd: -1, events: 0, revents: 0 }; SET];
        match self.entries(&mut room) {
            [] => sleep(deadline),
            entries => wait_once(entries, nested, deadline),
        }
    }

    fn until(&self, caller: Caller, deadline: Option<u64>, mask: usize) -> isize {
        let mut nested = None;
        let pause = Pause::begin();
        let wait = |deadline| self.wait(&mut nested, deadline);
        let is_one = |number: c_int| {
            self.before
                .iter()
                .any(|set| set.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0))
        };
        let look = || self.call(Some(&NOW), 0, false);
        let as_thread = || looks(&pause, deadline, look, wait, is_one, |left| self.call(left, 0, true));
        watch::wait(caller, mask, as_thread, |mask| in_handler(deadline, |left| self.call(left, mask, false)))
    }
}

#[entry]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    readers: *mut c::fd_set,
    writers: *mut c::fd_set,
    others: *mut c::fd_set,
    time: *mut c::timeval,
) -> c_int {
    let Some(caller) = ours_or_handlers() else {
        // What is left is in the caller's time by then.
        return dump_signal::uncut(None, || natively!(), |_| natively!());
    };
    let sets = [readers, writers, others];
    let numbers = usize::try_from(count).ok().filter(|count| *count <= SET && are_sets(*count, sets));
    if !reach::writes_or_null(time) {
        return natively!();
    }
    // SAFETY: the caller's time, or none.
    let limit = unsafe { time.as_mut() };
    let valid = limit.as_ref().is_none_or(|time| time.tv_sec >= 0 && (0..1_000_000).contains(&time.tv_usec));
    let (Some(numbers), true) = (numbers, valid) else { return natively!() };
    let deadline = limit.as_ref().map(|time| {
        after((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000))
    });
    // SAFETY: the caller's sets.
    let result = unsafe { Sets::new(numbers, sets) }.until(caller, deadline, 0);
    if let (Some(time), Some(deadline)) = (limit, deadline) {
        // Linux tells what is left.
        let left = deadline.saturating_sub(now(c::CLOCK_MONOTONIC)) / 1000;
        time.tv_sec = (left / 1_000_000) as c::time_t;
        time.tv_usec = (left % 1_000_000) as c::suseconds_t;
    }
    done(result) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    readers: *mut c::fd_set,
    writers: *mut c::fd_set,
    others: *mut c::fd_set,
    time: *const c::timespec,
    mask: *const c::sigset_t,
) -> c_int {
    let numbers = usize::try_from(count).ok().filter(|count| *count <= SET);
    let sets = [readers, writers, others];
    let known = || Some((numbers.filter(|&count| are_sets(count, sets))?, wanted(time, mask)?));
    let Some((caller, (numbers, deadline))) = ours_or_handlers().and_then(|caller| Some((caller, known()?))) else {
        type Set = *mut c::fd_set;
        let next = next!(pselect: fn(c_int, Set, Set, Set, *const c::timespec, *const c::sigset_t) -> c_int);
        // SAFETY: the caller's arguments, or of the time what is left of it.
        let call = |time| unsafe { next(count, readers, writers, others, time, mask) };
        let wait = |time| masked_waits::waiting_in_kernel(mask, || call(time));
        return dump_signal::uncut(dump_signal::limit(time), || wait(time), |left| wait(at_most(left)));
    };
    // SAFETY: the caller's sets and mask.
    done(unsafe { Sets::new(numbers, sets) }.until(caller, deadline, at(mask))) as c_int
}

aliases! {
    __select = select(
        count: c_int, readers: *mut c::fd_set, writers: *mut c::fd_set, others: *mut c::fd_set, time: *mut c::timeval
    ) -> c_int;
}
