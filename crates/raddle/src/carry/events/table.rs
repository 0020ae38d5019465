//! Who waits for which descriptor: an entry for each descriptor number.
//!
//! The entries lie in zero pages that are touched as numbers come into use: a cache line each, 64 MiB of address space
//! together, or less where that is limited. A number beyond the table is not waited for here
//! ([`Failure::Unsupported`](super::Failure)); without a limit the kernel gives out as many only where `fs.nr_open` was
//! raised.
//!
//! Each direction has a wait list of its own. Waiters publish `(thread, epoch)`, then arm the poller, then sleep; who
//! learns of an event counts it ([`Readiness`]) and pops until a claim succeeds.
//!
//! A number has *lives*. Where the program's own call has just made the descriptor ([`born`]), what the poller was told
//! in this life stays true until the program closes it, and the next wait tells it nothing. Of any other number nothing
//! is known, and each wait arms. A number that is closed behind our back and given out again behind our back is the one
//! case in which that is wrong; [`audit`] arms for those who have waited for a second or two, so that they are late
//! rather than lost.

use super::{Glance, Interest};
use raddle_machine::{Machine, Real};
use raddle_queues::wait_list::{NodePool, Spare, WaitList};
use raddle_scheduler::lives::{Lives, Registration};
use raddle_scheduler::readiness::Readiness;
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Descriptor numbers that can be waited for: the kernel's default bound.
const NUMBERS: usize = 1 << 20;

struct Direction {
    waiters: WaitList<Real>,
    readiness: Readiness<Real>,
    /// In which life the poller was told of it.
    registered: Registration<Real>,
    /// A node for the next wait, which the last one has left; 0: none.
    spare: AtomicU32,
}

#[repr(align(64))]
struct Entry {
    readers: Direction,
    writers: Direction,
    /// How often the number was given out or taken back, as far as we know.
    lives: Lives<Real>,
    /// The life in which something was reported that no reading takes away, such as the end.
    ended: AtomicU32,
    /// For each direction: [`FRESH`] from when somebody began to wait who armed nothing, [`AGED`] after one audit, 0
    /// after the next one unless an event came in between.
    unarmed: [AtomicU8; 2],
    small: AtomicU8,
    large: AtomicU64,
}

const FRESH: u8 = 1;
const AGED: u8 = 2;

/// Room beside what is known of a descriptor for whoever calls: it is near when the caller's thread has been woken.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    /// Anything.
    pub small: &'static AtomicU8,
    /// Anything.
    pub large: &'static AtomicU64,
}

impl Direction {
    const fn new() -> Self {
        Self {
            waiters: WaitList::new(),
            readiness: Readiness::constant(),
            registered: Registration::constant(),
            spare: AtomicU32::new(0),
        }
    }
}

impl Entry {
    const fn new() -> Self {
        Self {
            readers: Direction::new(),
            writers: Direction::new(),
            lives: Lives::constant(),
            ended: AtomicU32::new(0),
            unarmed: [const { AtomicU8::new(0) }; 2],
            small: AtomicU8::new(0),
            large: AtomicU64::new(0),
        }
    }

    fn direction(&self, interest: Interest) -> &Direction {
        match interest {
            Interest::Read => &self.readers,
            Interest::Write => &self.writers,
        }
    }

    /// Somebody has waited here, or relies on what was told of it.
    fn is_used(&self) -> bool {
        let waited = |direction: &Direction| !direction.waiters.queue().is_none();
        self.lives.was_born() || waited(&self.readers) || waited(&self.writers)
    }

    /// What was seen of the last life says nothing of the one that has begun.
    fn life_began(&self) {
        self.readers.readiness.happened();
        self.writers.readiness.happened();
    }

    fn begin_life(&self) {
        self.lives.begin(|| self.life_began());
    }

    /// The poller that was told of it is gone: the next wait arms.
    fn forget_registrations(&self) {
        self.readers.registered.forget();
        self.writers.registered.forget();
    }

    /// In the child of a fork: nobody waits, and the poller of the parent was told, not the child's.
    fn forget_parent(&self) {
        for direction in [&self.readers, &self.writers] {
            while direction.waiters.queue().pop(&NODES).is_some() {}
        }
        self.forget_registrations();
    }
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is a cache line");
// The pages that the entries lie in begin as zeroes.
const _: () = {
    // SAFETY: an entry is made of integers; its last byte is padding, which is not read.
    let bytes = unsafe { std::mem::transmute::<Entry, [std::mem::MaybeUninit<u8>; 64]>(Entry::new()) };
    let mut at = 0;
    while at < 63 {
        // SAFETY: integers lie in all bytes but the last, which is not read.
        assert!(unsafe { bytes[at].assume_init() } == 0, "an entry of which nothing is known is zeroes");
        at += 1;
    }
};

/// The nodes of all lists of waiters.
pub(crate) static NODES: NodePool<Real> = NodePool::constant();

/// Where the entries are; null until the first number is looked up. They are no variable of the library's, since a
/// conservative collector looks through all of those at each collection.
static TABLE: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
/// How many there are: 0, or [`numbers`].
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// The entries, as far as there are any.
#[inline]
fn table() -> &'static [Entry] {
    // Acquire: pairs with the release in `make`; the pages are there, and zeroes are entries.
    let length = LENGTH.load(Ordering::Acquire);
    if length == 0 {
        return &[];
    }
    // SAFETY: so many entries, made by `make` and never given back.
    unsafe { std::slice::from_raw_parts(TABLE.load(Ordering::Relaxed), length) }
}

/// As many numbers as have entries, [`NUMBERS`] unless address space is limited: the table is to take little of it.
fn numbers() -> usize {
    /// The table is at most this part of the limit.
    const LIMIT_PART: usize = 64;
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT
        .get_or_init(|| (raddle_context::stack::address_space() / LIMIT_PART / size_of::<Entry>()).clamp(1024, NUMBERS))
}

/// Makes the entries, if that was not done yet. `None`: the number is beyond them, or there is no address space.
#[cold]
#[inline(never)]
fn make(number: usize) -> Option<&'static Entry> {
    if LENGTH.load(Ordering::Relaxed) == 0 {
        let numbers = numbers();
        let size = size_of::<Entry>() * numbers;
        let pages = crate::os::reserve(size)?;
        let made = TABLE.compare_exchange(std::ptr::null_mut(), pages.cast(), Ordering::AcqRel, Ordering::Relaxed);
        if made.is_err() {
            // SAFETY: nobody has seen them.
            unsafe { crate::os::unreserve(pages, size) };
        }
        LENGTH.store(numbers, Ordering::Release);
    }
    table().get(number)
}

/// Somebody waits who armed nothing.
static UNARMED: AtomicBool = AtomicBool::new(false);
/// One more than the highest number that was waited for.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

fn entry(descriptor: i32) -> Option<&'static Entry> {
    let number = usize::try_from(descriptor).ok()?;
    match table().get(number) {
        None => make(number),
        entry => entry,
    }
}

fn direction(descriptor: i32, interest: Interest) -> Option<&'static Direction> {
    Some(entry(descriptor)?.direction(interest))
}

fn list(descriptor: i32, interest: Interest) -> Option<&'static WaitList<Real>> {
    Some(&direction(descriptor, interest)?.waiters)
}

/// # Safety
/// `word` is a thread's word out of a list of the table.
unsafe fn thread_of(word: usize) -> &'static Thread<Real> {
    // SAFETY: only `publish` pushes, the address of a type-stable record.
    unsafe { &*std::ptr::with_exposed_provenance(word) }
}

fn note_number(descriptor: i32) {
    if descriptor as u32 >= HIGHEST.load(Ordering::Relaxed) {
        HIGHEST.fetch_max(descriptor as u32 + 1, Ordering::Relaxed);
    }
}

/// Publishes a wait. False where there is no room for it: then the caller must not sleep.
#[must_use = "a wait that was not published will not be woken"]
pub(crate) fn publish(descriptor: i32, interest: Interest, thread: &'static Thread<Real>, epoch: Epoch) -> bool {
    let word = std::ptr::from_ref(thread).expose_provenance();
    let Some(direction) = direction(descriptor, interest) else { return false };
    note_number(descriptor);
    let mut spare = take_spare(direction);
    let pushed = direction.waiters.push_with_spare(&NODES, word, epoch.to_bits(), &mut spare);
    if let Some(left) = spare {
        keep_spare(direction, left);
    }
    pushed
}

/// The node that the last wait has left.
fn take_spare(direction: &Direction) -> Option<Spare> {
    if direction.spare.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // Acquire: pairs with `keep_spare`, whose caller had the node.
    // SAFETY: put there by `keep_spare`, and taken out by this exchange alone.
    unsafe { Spare::from_index(direction.spare.swap(0, Ordering::Acquire)) }
}

fn keep_spare(direction: &Direction, spare: Spare) {
    let before = direction.spare.swap(spare.into_index(), Ordering::AcqRel);
    // SAFETY: as in `take_spare`.
    if let Some(before) = unsafe { Spare::from_index(before) } {
        before.give(&NODES);
    }
}

/// A wait that was published here has ended otherwise.
pub(crate) fn abandon(descriptor: i32, interest: Interest) {
    if let Some(list) = list(descriptor, interest) {
        list.abandon(&NODES, goes_on);
    }
}

/// Whether a wait that a list shows has not ended.
fn goes_on(thread: usize, epoch: u64) -> bool {
    // SAFETY: lists show words of their own nodes only, which are of this table.
    unsafe { thread_of(thread) }.current_wait() == Some(Epoch::from_bits(epoch))
}

/// True while somebody may be waiting.
pub(crate) fn is_awaited(descriptor: i32, interest: Interest) -> bool {
    list(descriptor, interest).is_some_and(|list| !list.queue().is_empty(&NODES))
}

/// Brings closer what the delivery of these events will touch: `step` from 0 to [`STEPS`], each for all.
pub(crate) fn approach(descriptor: i32, step: u32) {
    let Some(entry) = entry(descriptor) else { return };
    if step == 0 {
        return Real::prefetch(std::ptr::from_ref(entry).addr());
    }
    let Some(word) = entry.readers.waiters.queue().approach(&NODES, step.min(4) - 1) else { return };
    // SAFETY: a word out of a list of the table.
    crate::carry::switching::approach(unsafe { thread_of(word) }, step == STEPS);
}

/// The last step of [`approach`].
pub(crate) const STEPS: u32 = 5;

/// Room for the caller's notes on a descriptor.
pub(crate) fn notes(descriptor: i32) -> Option<Notes> {
    entry(descriptor).map(|entry| Notes { small: &entry.small, large: &entry.large })
}

/// An event was fetched; `ended` if it told of something that no reading takes away.
pub(crate) fn happened(descriptor: i32, interest: Interest, ended: bool, ready: &mut dyn FnMut(&'static Thread<Real>)) {
    let Some(entry) = entry(descriptor) else { return };
    if ended {
        // Before the count, which a reader looks at first.
        entry.ended.store(entry.lives.now(), Ordering::Relaxed);
    }
    // The poller tells of it, so those who wait have time again. (Never to 0: a waiter may have relied on what it found
    // here.)
    let unarmed = &entry.unarmed[interest as usize];
    if unarmed.load(Ordering::Relaxed) == AGED {
        unarmed.store(FRESH, Ordering::Relaxed);
    }
    entry.direction(interest).readiness.deliver(|| wake_one(descriptor, interest, ready));
}

/// Wakes the first one that waits; if it is parked, it goes to `ready`. False if nobody waits.
pub(crate) fn wake_one(descriptor: i32, interest: Interest, ready: &mut dyn FnMut(&'static Thread<Real>)) -> bool {
    let Some(direction) = direction(descriptor, interest) else { return false };
    let queue = direction.waiters.queue();
    while let Some((thread, epoch, spare)) = queue.pop_with_spare(&NODES) {
        keep_spare(direction, spare);
        // SAFETY: popped from a list of the table.
        let thread = unsafe { thread_of(thread) };
        match thread.claim(Epoch::from_bits(epoch), Wake::Signalled) {
            Claim::Lost => {}
            Claim::WonArming => return true,
            Claim::WonParked => {
                ready(thread);
                return true;
            }
        }
    }
    false
}

/// Wakes all that wait for a direction: how many.
pub(crate) fn wake_all(descriptor: i32, interest: Interest) -> usize {
    let mut woken = 0;
    // SAFETY: the claim of each was won by `wake_one`, which shows it once.
    while wake_one(descriptor, interest, &mut |thread| unsafe { crate::carry::ready::make_ready(thread) }) {
        woken += 1;
    }
    woken
}

/// Wakes all that wait for either direction: how many.
fn wake_both(descriptor: i32) -> usize {
    wake_all(descriptor, Interest::Read) + wake_all(descriptor, Interest::Write)
}

/// Wakes all that wait to write, whatever descriptor, to look again.
pub(crate) fn wake_writers() {
    (0..used().len()).for_each(|number| {
        wake_all(number as i32, Interest::Write);
    });
}

/// False for what nobody has ever waited for.
#[inline]
pub(crate) fn was_awaited(descriptor: i32) -> bool {
    let waited = |direction: &Direction| !direction.waiters.queue().is_none();
    let entry = usize::try_from(descriptor).ok().and_then(|number| table().get(number));
    entry.is_some_and(|entry| waited(&entry.readers) || waited(&entry.writers))
}

/// The lowest number from `first` to `last` for which somebody may be waiting.
pub(crate) fn first_awaited(first: u32, last: u32) -> Option<i32> {
    let end = used().len().min((last as usize).saturating_add(1));
    let entries = used().get(first as usize..end)?.iter();
    let waits = |direction: &Direction| !direction.waiters.queue().is_empty(&NODES);
    let mut found = entries.zip(first..).filter(|(entry, _)| waits(&entry.readers) || waits(&entry.writers));
    found.next().map(|(_, number)| number as i32)
}

/// Entries that were ever used.
fn used() -> &'static [Entry] {
    let all = table();
    &all[..all.len().min(HIGHEST.load(Ordering::Relaxed) as usize)]
}

/// True while somebody may be waiting for some descriptor. Waits that have ended by their time limit, or by another
/// descriptor, do not count: they are taken out.
pub(crate) fn is_any_awaited() -> bool {
    let waits = |direction: &Direction| {
        let queue = direction.waiters.queue();
        queue.drop_ended(&NODES, goes_on);
        !queue.is_empty(&NODES)
    };
    used().iter().any(|entry| waits(&entry.readers) || waits(&entry.writers))
}

/// As [`end_life`], for all descriptors from `first` to `last`.
pub(crate) fn end_lives<T>(first: u32, last: u32, close: impl FnOnce() -> T) -> T {
    let end = used().len().min((last as usize).saturating_add(1));
    let ending = first as usize..end.max(first as usize);
    for entry in used().get(ending.clone()).unwrap_or_default().iter().filter(|entry| entry.is_used()) {
        entry.begin_life();
    }
    let result = close();
    ending.for_each(|number| {
        wake_both(number as i32);
    });
    result
}

/// There are new sets, which know of no descriptor: wakes all that wait for any, to arm.
pub(crate) fn wake_everybody() {
    used().iter().for_each(Entry::forget_registrations);
    // Who has published before is woken; who publishes later finds that it must arm.
    fence(Ordering::SeqCst);
    for number in 0..used().len() {
        wake_both(number as i32);
    }
}

/// Forgets all waiters: in the child of a fork, where there are none.
pub(crate) fn forget() {
    used().iter().for_each(Entry::forget_parent);
}

/// Which of its lives a descriptor number is in. It changes when the program closes the descriptor.
pub(crate) fn life(descriptor: i32) -> u32 {
    entry(descriptor).map_or(0, |entry| entry.lives.now())
}

/// Runs `close`, by which the program closes the descriptor: whoever waits wakes up afterwards, and finds the life
/// changed. Who begins to wait after it, for what has got the number next, finds the new life only.
pub(crate) fn end_life<T>(descriptor: i32, close: impl FnOnce() -> T) -> T {
    let Some(entry) = entry(descriptor) else { return close() };
    // A descriptor that nobody ever waited for keeps its page untouched.
    let was_used = entry.is_used();
    if was_used {
        entry.begin_life();
    }
    let result = close();
    // Events: C close, P the pops here; W a waiter publishes, A it arms the poller. Forbidden: P misses W, and A meets
    // a descriptor that is open and of the old life. If A came before C in the kernel, whose lock orders them, W came
    // before P.
    if entry.is_used() {
        if !was_used {
            entry.begin_life();
        }
        wake_both(descriptor);
    }
    result
}

/// The program's own call has just made that descriptor.
pub(crate) fn born(descriptor: i32) {
    if let Some(entry) = entry(descriptor) {
        note_number(descriptor);
        entry.lives.born(|| entry.life_began());
    }
}

/// Runs `remove`, which takes the descriptor's registrations out of the poller. It stands for the same as before;
/// whoever waits finds its life changed, and looks again. How many these are.
pub(crate) fn unregister(descriptor: i32, remove: impl FnOnce()) -> usize {
    let Some(entry) = entry(descriptor).filter(|entry| entry.is_used()) else { return 0 };
    entry.lives.unregister(|| entry.life_began(), remove);
    wake_both(descriptor)
}

/// The number may stand for something else from now on. Wakes nobody, so it may be called anywhere.
pub(crate) fn doubt(descriptor: i32) {
    if let Some(entry) = entry(descriptor).filter(|entry| entry.is_used()) {
        entry.begin_life();
    }
}

/// What was known of descriptors is known no longer: another process may change them.
pub(crate) fn doubt_all() {
    for entry in used() {
        entry.lives.forget_birth();
    }
}

/// The life of a descriptor whose birth was seen.
pub(crate) fn known_life(descriptor: i32) -> Option<u32> {
    entry(descriptor)?.lives.known()
}

/// What is known before an attempt.
pub(crate) fn glance(descriptor: i32, interest: Interest) -> Glance {
    let Some(entry) = entry(descriptor) else { return Glance::default() };
    let life = entry.lives.now();
    let direction = entry.direction(interest);
    Glance { life, count: direction.readiness.glance() }
}

/// True if an attempt would find nothing, and the poller tells of what comes.
pub(crate) fn is_empty(descriptor: i32, interest: Interest, glance: Glance) -> bool {
    entry(descriptor).is_some_and(|entry| {
        let direction = entry.direction(interest);
        direction.readiness.is_empty(glance.count)
            && entry.ended.load(Ordering::Relaxed) != glance.life
            && direction.registered.holds(&entry.lives)
    })
}

/// The attempt after `glance` has left nothing.
pub(crate) fn emptied(descriptor: i32, interest: Interest, glance: Glance) {
    if let Some(direction) = direction(descriptor, interest) {
        direction.readiness.emptied(glance.count);
    }
}

/// An event was delivered since `glance`.
pub(crate) fn has_changed(descriptor: i32, interest: Interest, glance: Glance) -> bool {
    direction(descriptor, interest).is_some_and(|direction| direction.readiness.has_changed(glance.count))
}

/// True if a wait need not arm. It is then looked after by [`audit`]. Called after the fence that follows the
/// publication.
pub(crate) fn need_not_arm(descriptor: i32, interest: Interest) -> bool {
    let Some(entry) = entry(descriptor) else { return false };
    let direction = entry.direction(interest);
    if !direction.registered.holds(&entry.lives) {
        return false;
    }
    // An audit that has set it to 0 looks at the list afterwards: either it finds this waiter, or this finds the 0.
    let unarmed = &entry.unarmed[interest as usize];
    if unarmed.load(Ordering::Relaxed) == 0 {
        unarmed.store(FRESH, Ordering::Relaxed);
        if !UNARMED.load(Ordering::Relaxed) {
            UNARMED.store(true, Ordering::Relaxed);
        }
    }
    true
}

/// The poller was told of the descriptor, whose life was `life` before.
pub(crate) fn registered(descriptor: i32, interest: Interest, life: u32) {
    if let Some(direction) = direction(descriptor, interest) {
        direction.registered.note(life);
    }
}

/// Arms for those who have waited long without having armed. Called about once a second, by whoever.
pub(crate) fn audit(arm: impl Fn(i32, Interest) -> bool) {
    if !UNARMED.swap(false, Ordering::Relaxed) {
        return;
    }
    for (number, entry) in used().iter().enumerate() {
        for interest in [Interest::Read, Interest::Write] {
            let unarmed = &entry.unarmed[interest as usize];
            match unarmed.load(Ordering::Relaxed) {
                0 => {}
                AGED => {
                    unarmed.store(0, Ordering::Relaxed);
                    // Pairs with the fence between the publication and `need_not_arm`.
                    fence(Ordering::SeqCst);
                    if is_awaited(number as i32, interest) && !arm(number as i32, interest) {
                        wake_all(number as i32, interest);
                    }
                }
                _ => {
                    unarmed.store(AGED, Ordering::Relaxed);
                    UNARMED.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no reading takes away is there whatever was read; who takes it for nothing waits until the next audit.
    #[test]
    fn what_has_ended_is_not_taken_for_empty() {
        // A number that nothing else in this process has.
        const NUMBER: i32 = 1000;
        let read = Interest::Read;
        born(NUMBER);
        registered(NUMBER, read, life(NUMBER));
        for ended in [false, true] {
            happened(NUMBER, read, ended, &mut |_| unreachable!("nobody waits"));
            let glance = glance(NUMBER, read);
            emptied(NUMBER, read, glance);
            assert_eq!(is_empty(NUMBER, read, glance), !ended);
        }
        // Its next life has not ended.
        end_life(NUMBER, || ());
        born(NUMBER);
        registered(NUMBER, read, life(NUMBER));
        let glance = glance(NUMBER, read);
        emptied(NUMBER, read, glance);
        assert!(is_empty(NUMBER, read, glance));
    }

    #[test]
    fn the_child_of_a_fork_arms_again_what_its_parent_had_armed() {
        let entry = Entry::new();
        entry.lives.born(|| entry.life_began());
        let directions = [&entry.readers, &entry.writers];
        for direction in directions {
            direction.registered.note(entry.lives.now());
            assert!(direction.registered.holds(&entry.lives), "its birth was seen, and the poller was told");
        }
        entry.forget_parent();
        for direction in directions {
            assert!(!direction.registered.holds(&entry.lives), "a wait would not arm, and be a second late");
            assert!(direction.waiters.queue().is_empty(&NODES));
        }
    }
}
