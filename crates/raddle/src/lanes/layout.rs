//! What a trace looks like in its file: words in the machine's order.
//!
//! ```text
//! head     PAGE bytes: what `head` numbers
//! cursors  a cache line for each lane: how many events it was given, ever
//! texts    REASONS lines of 64 bytes: a text for each reason, its length first
//! names    a word that counts, then NAMES lines of 64 bytes: thread, time, length, name
//! lanes    events of 32 bytes, in turns
//! ```

pub(crate) const PAGE: usize = 4096;
pub(crate) const LINE: usize = 64;
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"RADDLETR");
pub(crate) const VERSION: u64 = 1;
/// Texts for what threads wait for: as many as a byte can number.
pub(crate) const REASONS: usize = 256;
/// Names of threads that are kept.
pub(crate) const NAMES: usize = 4096;
pub(crate) const EVENT: usize = 32;

/// The words of the head, by number.
pub(crate) mod head {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const PROCESS: usize = 2;
    /// When the process began, as the kernel counts it: with its number, it tells the process from all others.
    pub const BEGUN: usize = 3;
    pub const LANES: usize = 4;
    pub const EVENTS: usize = 5;
    /// When the trace began: of the clock of its events, and since 1970.
    pub const NOW: usize = 6;
    pub const DATE: usize = 7;
    /// Its length in bytes, then the name.
    pub const NAME: usize = 8;
}

/// Where the parts begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub lanes: usize,
    /// A power of two.
    pub events: usize,
}

impl Layout {
    pub const CURSORS: usize = PAGE;

    pub fn texts(self) -> usize {
        Self::CURSORS + (self.lanes * LINE).next_multiple_of(PAGE)
    }

    pub fn names(self) -> usize {
        self.texts() + REASONS * LINE
    }

    pub fn lane(self, lane: usize) -> usize {
        self.names() + PAGE + NAMES * LINE + lane * self.events * EVENT
    }

    pub fn size(self) -> usize {
        self.lane(self.lanes)
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// `thread` was made, by `other`.
    Spawned = 1,
    /// `thread` became ready, by `other`'s doing.
    Ready = 2,
    /// The processor goes on with `thread`; `other` left it, for the reason.
    Runs = 3,
    /// `thread` left the processor, for the reason, and nobody goes on.
    Stops = 4,
    /// The processor has nothing to run.
    Idle = 5,
    /// The processor was taken from `thread`, which goes on without one, for the reason.
    Taken = 6,
    /// `thread`, which had lost its processor, asks for one.
    Back = 7,
    /// `thread`, which had a kernel thread of its own, has ended.
    Ended = 8,
    /// `thread` goes on without a processor, for the reason.
    Beside = 9,
}

impl Kind {
    pub fn from_bits(bits: u64) -> Option<Kind> {
        use Kind::{Back, Beside, Ended, Idle, Ready, Runs, Spawned, Stops, Taken};
        [Spawned, Ready, Runs, Stops, Idle, Taken, Back, Ended, Beside]
            .into_iter()
            .find(|kind| *kind as u64 == bits & 0xff)
    }
}

/// Reasons for which a thread leaves its processor, beside waits.
pub(crate) const GIVES_WAY: &str = "gives way";
pub(crate) const ENDED: &str = "ends";
pub(crate) const MOVES: &str = "moves to another pool";
/// Reasons for which it goes on without one.
pub(crate) const BLOCKED: &str = "blocked in the kernel";
pub(crate) const COMPUTES: &str = "computes without a processor, beside the others";
pub(crate) const APART: &str = "apart, with a kernel thread of its own";
