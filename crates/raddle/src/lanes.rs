//! Where a trace is noted while it goes on ([`crate::trace`]): a lane of events for each processor, in a file in
//! memory.
//!
//! Events are kept in turns: the last so many of each lane. Writers: a processor's lane has one, its owner, inside
//! its mark; the first lane is for all others, who each take a place by an addition. An event of the first lane that
//! two have written at once, after a whole turn of the lane, may have a time or a thread that is wrong: nothing but
//! the picture depends on it.

pub(crate) mod layout;

pub(crate) use layout::Kind;
use layout::{EVENT, LINE, Layout, MAGIC, NAMES, PAGE, REASONS, VERSION, head};
use raddle_machine::{Machine, Real};
use raddle_scheduler::one_at_a_time::{self, OneAtATime};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The trace that goes on. Its file is never unmapped: a writer may be on its way.
static TRACE: OneAtATime<Open, Real> = OneAtATime::constant();
/// The next lane for a processor. The first is for everybody.
static NEXT_LANE: AtomicU32 = AtomicU32::new(1);

/// All that belongs to one trace, so that whoever has come by it, and is late, writes nowhere else.
struct Open {
    file: *mut u8,
    layout: Layout,
    /// Addresses of the texts that have a number: their place.
    reasons: [AtomicUsize; REASONS],
}

// SAFETY: the file's words are only used as atomics, and it stays in memory.
unsafe impl Send for Open {}
// SAFETY: its words are atomics, and so are its reasons; the layout does not change.
unsafe impl Sync for Open {}

/// The right to begin a trace, of which one goes on at a time.
pub(crate) struct Claim(one_at_a_time::Claim<'static, Open, Real>);

impl Claim {
    /// `None` while somebody has it, or a trace goes on.
    pub fn take() -> Option<Self> {
        TRACE.claim().map(Self)
    }
}

/// A processor's place in the trace.
#[derive(Default)]
pub(crate) struct Lane(AtomicU32);

/// An event, but for its time.
pub(crate) struct Event {
    pub kind: Kind,
    /// Pool and processor.
    pub place: (u32, usize),
    /// Addresses of threads' records; 0: none.
    pub thread: usize,
    pub other: usize,
    pub reason: &'static str,
}

/// Whether anything is traced.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    TRACE.is_on()
}

/// By the owner of the processor whose lane it is, inside its mark.
pub(crate) fn note(lane: &Lane, event: &Event) {
    let mut number = lane.0.load(Ordering::Relaxed);
    if number == 0 {
        number = NEXT_LANE.fetch_add(1, Ordering::Relaxed);
        lane.0.store(number, Ordering::Relaxed);
    }
    put(number as usize, event);
}

/// By anybody.
pub(crate) fn note_outside(event: &Event) {
    put(0, event);
}

fn put(lane: usize, event: &Event) {
    let Some(open) = TRACE.get() else { return };
    let layout = open.layout;
    let (now, reason) = (Real::now(), open.number_of(event.reason));
    // More processors than lanes: they share the first.
    let lane = if lane < layout.lanes { lane } else { 0 };
    let cursor = open.word(Layout::CURSORS + lane * LINE);
    let at = if lane == 0 {
        cursor.fetch_add(1, Ordering::Relaxed)
    } else {
        let at = cursor.load(Ordering::Relaxed);
        cursor.store(at + 1, Ordering::Relaxed);
        at
    };
    let start = layout.lane(lane) + (at as usize & (layout.events - 1)) * EVENT;
    let (pool, processor) = event.place;
    let what = event.kind as u64 | reason << 8 | u64::from(pool & 0xffff) << 16 | (processor as u64 & 0xffff) << 32;
    open.word(start).store(0, Ordering::Relaxed);
    open.word(start + 8).store(what, Ordering::Relaxed);
    open.word(start + 16).store(event.thread as u64, Ordering::Relaxed);
    open.word(start + 24).store(event.other as u64, Ordering::Relaxed);
    // Release: a reader that finds the time finds the rest.
    open.word(start).store(now, Ordering::Release);
}

impl Open {
    /// A word of the file.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at < self.layout.size());
        // SAFETY: inside of the file, whose size this layout, its own, says, and aligned as its pages are; it stays in
        // memory, and its words are only used as atomics.
        unsafe { AtomicU64::from_ptr(self.file.add(at).cast()) }
    }

    /// Puts a text into the file, its length first: at most so many bytes, which are a multiple of eight.
    fn put_text(&self, at: usize, room: usize, text: &str) {
        let end = (0..=text.len().min(room - 8)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        for (index, chunk) in text.as_bytes()[..end].chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.word(at + 8 + 8 * index).store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.word(at).store(end as u64, Ordering::Relaxed);
    }

    /// Notes a thread's name, as long as there is room for names.
    fn put_name(&self, thread: usize, name: &str) {
        let names = self.layout.names();
        let number = self.word(names).fetch_add(1, Ordering::Relaxed) as usize;
        if number < NAMES {
            let at = names + PAGE + number * LINE;
            self.word(at + 8).store(Real::now(), Ordering::Relaxed);
            self.put_text(at + 16, LINE - 16, name);
            self.word(at).store(thread as u64, Ordering::Release);
        }
    }

    /// The number of a reason, which is in the file from then on; 0 for none, and where there are too many.
    fn number_of(&self, reason: &'static str) -> u64 {
        let address = reason.as_ptr().addr();
        if reason.is_empty() {
            return 0;
        }
        let start = (address >> 3 ^ address >> 9) % REASONS;
        for place in (start..REASONS).chain(0..start).filter(|&place| place != 0) {
            let there = self.reasons[place].load(Ordering::Relaxed);
            if there == address {
                return place as u64;
            }
            let free = there == 0;
            if free && self.reasons[place].compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                self.put_text(self.layout.texts() + place * LINE, LINE, reason);
                return place as u64;
            }
            if free && self.reasons[place].load(Ordering::Relaxed) == address {
                return place as u64;
            }
        }
        0
    }
}

/// The thread is called so from now on.
pub(crate) fn name(thread: usize, name: &str) {
    if let Some(open) = TRACE.get() {
        open.put_name(thread, name);
    }
}

/// What the head of a file says.
pub(crate) struct Head<'a> {
    pub process: u64,
    pub begun: u64,
    pub layout: Layout,
    pub program: &'a str,
}

/// From now on events go into `file`.
///
/// # Safety
/// It has as many zero bytes as the layout says, a power of two of events, begins at a page and stays for ever.
pub(crate) unsafe fn begin(claim: Claim, file: *mut u8, head: &Head<'_>) {
    let Head { process, begun, layout, program } = *head;
    let reasons = [const { AtomicUsize::new(0) }; REASONS];
    let open = Open { file, layout, reasons };
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    for (at, value) in [
        (head::MAGIC, MAGIC),
        (head::VERSION, VERSION),
        (head::PROCESS, process),
        (head::BEGUN, begun),
        (head::LANES, layout.lanes as u64),
        (head::EVENTS, layout.events as u64),
        (head::NOW, Real::now()),
        (head::DATE, date.as_nanos() as u64),
    ] {
        open.word(at * 8).store(value, Ordering::Relaxed);
    }
    open.put_text(head::NAME * 8, LINE, program);
    claim.0.begin(open);
}

/// Nothing more is noted, but what is on its way.
pub(crate) fn end() {
    TRACE.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one lane, in which every word is zero.
    fn open(words: &mut Vec<u64>) -> Open {
        let layout = Layout { lanes: 1, events: 4 };
        words.resize(layout.size() / 8, 0);
        Open { file: words.as_mut_ptr().cast(), layout, reasons: [const { AtomicUsize::new(0) }; REASONS] }
    }

    #[test]
    fn what_there_is_no_room_for_is_not_written_over_anything_else() {
        let mut words = Vec::new();
        let open = open(&mut words);
        let (texts, names) = (open.layout.texts(), open.layout.names());
        let long = "x".repeat(2 * LINE);
        (0..NAMES + 2).for_each(|number| open.put_name(number + 1, &long));
        for number in 0..NAMES {
            assert_eq!(open.word(names + PAGE + number * LINE).load(Ordering::Relaxed), number as u64 + 1);
        }
        // More reasons than have numbers: each of those that have one has its own, which it keeps.
        let reasons = [(); REASONS + 2].map(|()| &*"a reason that is a text of its own".to_owned().leak());
        let numbers = reasons.map(|reason| open.number_of(reason));
        assert_eq!(reasons.map(|reason| open.number_of(reason)), numbers);
        let mut known: Vec<_> = numbers.into_iter().filter(|number| *number != 0).collect();
        known.sort_unstable();
        assert_eq!(known, (1..REASONS as u64).collect::<Vec<_>>());
        let lies_in =
            |from: usize, to: usize| (from..to).step_by(8).any(|at| open.word(at).load(Ordering::Relaxed) != 0);
        assert!(!lies_in(0, texts + LINE), "before the first reason");
        assert!(!lies_in(names + 8, names + PAGE), "between the number of names and the first");
        assert!(!lies_in(open.layout.lane(0), open.layout.size()), "in the lane");
    }
}
