//! What is told of a signal: `siginfo_t`.
//!
//! The kernel lets only a kernel thread that sends to itself, or the first one that sends to the process, say that
//! `kill`, a child's end or a timer has sent a signal. What others of ours give back to the process is disguised as a
//! queued value ([`Info::disguise`]), and shown as what it was to the program's handlers, and to waits for signals that
//! are ours ([`Info::restore`]).

use crate::os::{c, system_call};
use std::ffi::c_int;

/// `siginfo_t` as the kernel reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Info {
    pub signal: c_int,
    error: c_int,
    pub code: c_int,
    /// Nobody's: the kernel keeps it.
    unused: c_int,
    fields: [u64; 14],
}

const _: () = assert!(size_of::<Info>() == 128);

/// In a disguised description: the code is where the error number was, which no signal of ours has.
const DISGUISED: c_int = 0x7264_6c65;
/// In one that is on its way from a process to another one's thread ([`Info::for_thread`]).
const FOR_THREAD: c_int = 0x7264_6c66;

impl Info {
    /// Words that hold all but the signal: of the fields, no kind has more.
    pub const WORDS: usize = 5;

    /// A signal of this process's own.
    pub fn new(signal: c_int, code: c_int, value: usize) -> Info {
        // SAFETY: take nothing.
        let (process, user) = unsafe { (system_call(c::SYS_getpid, [0; 6]), system_call(c::SYS_getuid, [0; 6])) };
        let mut fields = [0; 14];
        fields[0] = process as u64 & 0xffff_ffff | (user as u64) << 32;
        fields[1] = value as u64;
        Info { signal, error: 0, code, unused: 0, fields }
    }

    /// As `pthread_kill` sends it.
    pub fn of_thread(signal: c_int) -> Info {
        Info::new(signal, c::SI_TKILL, 0)
    }

    /// As `kill` sends it.
    pub fn of_process(signal: c_int) -> Info {
        Info::new(signal, c::SI_USER, 0)
    }

    /// The same, of this signal.
    pub fn as_signal(self, signal: c_int) -> Info {
        Info { signal, ..self }
    }

    /// What tells another process's runtime, as the signal `carrier`, that its thread of this number is sent this.
    pub fn for_thread(&self, number: u32, carrier: c_int) -> Info {
        let mut told = Info { signal: carrier, error: self.signal, code: c::SI_QUEUE, unused: FOR_THREAD, ..*self };
        told.fields[2] = u64::from(number);
        told.fields[3] = u64::from(self.code as u32);
        told
    }

    /// The number of the thread that it is for, and the signal, where another process has sent it so.
    pub fn meant_for_thread(&self) -> Option<(u32, Info)> {
        if self.code != c::SI_QUEUE || self.unused != FOR_THREAD {
            return None;
        }
        let mut meant = Info { signal: self.error, error: 0, code: self.fields[3] as c_int, ..*self };
        (meant.fields[2], meant.fields[3]) = (0, 0);
        Some((self.fields[2] as u32, meant))
    }

    /// Whether it is on its way to a thread.
    pub fn is_for_thread(&self) -> bool {
        self.unused == FOR_THREAD
    }

    /// The process that has sent it, where one has.
    pub fn sender(&self) -> c_int {
        self.fields[0] as c_int
    }

    /// True if the number says all, where a thread was sent it by its process.
    pub fn is_plain(&self) -> bool {
        self.code == c::SI_TKILL && self.unused != FOR_THREAD
    }

    /// The value of a queued signal.
    #[cfg(test)]
    pub fn value(&self) -> usize {
        self.fields[1] as usize
    }

    pub fn words(&self) -> [u64; Self::WORDS] {
        let head = u64::from(self.code as u32) | u64::from(self.error as u32) << 32;
        [head, self.fields[0], self.fields[1], self.fields[2], self.fields[3]]
    }

    pub fn from_words(signal: c_int, words: [u64; Self::WORDS]) -> Info {
        let mut fields = [0; 14];
        fields[..4].copy_from_slice(&words[1..]);
        Info { signal, error: (words[0] >> 32) as c_int, code: words[0] as c_int, unused: 0, fields }
    }

    /// As a queued value, which anybody may send.
    pub fn disguise(&mut self) {
        if self.code != c::SI_QUEUE {
            (self.error, self.code, self.unused) = (self.code, c::SI_QUEUE, DISGUISED);
        }
    }

    /// What it was before it was disguised.
    pub fn restore(&mut self) {
        if self.code == c::SI_QUEUE && self.unused == DISGUISED {
            (self.code, self.error, self.unused) = (self.error, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_survives_words_and_the_disguise() {
        let mut info = Info::new(c::SIGCHLD, c::CLD_EXITED, 7);
        info.fields[3] = 9;
        let mut again = Info::from_words(c::SIGCHLD, info.words());
        again.disguise();
        assert_eq!(again.code, c::SI_QUEUE);
        again.disguise();
        again.restore();
        again.restore();
        assert_eq!((again.words(), again.signal), (info.words(), c::SIGCHLD));
    }

    #[test]
    fn what_is_for_a_thread_of_another_process_is_told_from_a_queued_value() {
        let info = Info::new(c::SIGUSR1, c::SI_TKILL, 0);
        let told = info.for_thread(1 << 23, 40);
        assert_eq!((told.signal, told.code), (40, c::SI_QUEUE));
        let (number, meant) = told.meant_for_thread().unwrap();
        assert_eq!((number, meant.signal, meant.words()), (1 << 23, c::SIGUSR1, info.words()));
        assert!(Info::new(40, c::SI_QUEUE, 7).meant_for_thread().is_none());
    }
}
