//! Who calls: asked once, where an entry point begins.

use super::record::Record;
use crate::process::masks;

/// Who calls. The record is none's of a thread that Rust code of the program has spawned, and of a kernel thread that
/// runs no thread.
#[derive(Clone, Copy)]
pub(crate) enum Caller {
    /// A lightweight thread in its own code: a call that waits is translated.
    Light(Option<&'static Record>),
    /// A handler of the program on a kernel thread of the runtime: what it waits for is the kernel's, and signals of
    /// ours may come meanwhile, whatever it blocks.
    Handler(Option<&'static Record>),
    /// Anything else: a kernel thread in code of the program, the runtime itself, or a handler that interrupted it. The
    /// call is the C library's.
    Native,
}

impl Caller {
    #[inline]
    pub fn here() -> Self {
        if raddle::drop_in::is_lightweight() {
            Caller::Light(Record::current())
        } else if masks::is_in_handler() && raddle::drop_in::is_kernel_thread_of_runtime() {
            Caller::Handler(Record::current())
        } else {
            Caller::Native
        }
    }

    /// A lightweight thread, which has a record.
    #[inline]
    pub fn light() -> Option<&'static Record> {
        Record::current().filter(|_| raddle::drop_in::is_lightweight())
    }

    /// A thread with a record that waits in ways of ours, or a handler on one.
    pub fn record(self) -> Option<&'static Record> {
        match self {
            Caller::Light(me) | Caller::Handler(me) => me,
            Caller::Native => None,
        }
    }

    /// [`Caller::record`], or a thread of ours that has become a kernel thread.
    pub fn record_or_dedicated(self) -> Option<&'static Record> {
        self.record().or_else(|| Record::current().filter(|me| super::dedicated::task(me).is_some()))
    }
}
