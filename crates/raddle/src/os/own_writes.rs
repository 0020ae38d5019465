//! What the runtime writes of its own accord: lines on the standard error, and files of its own.
//!
//! A call that writes sends its caller SIGPIPE where nobody reads any more, and SIGXFSZ where the file would become
//! longer than it may (`ulimit -f`). Either ends a program that has not asked for it, and this one has not written. So
//! both are blocked here while such a call is made, and one that it has sent is taken.

use super::signals;
use raddle_machine::raw::system_call;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;

/// Makes a system call that writes: its result, or a negated error number. It calls nothing but the kernel, so it may
/// run in signal handlers, and in the child of a `vfork`.
///
/// All signals that can wait are blocked meanwhile: a handler might have the thread go on on another kernel thread.
pub(crate) fn attempt(call: impl FnOnce() -> isize) -> isize {
    let mask = signals::block_all();
    // One that is not blocked is not pending either.
    let before = if mask & signals::OF_WRITES == 0 { 0 } else { signals::pending() };
    let result = call();
    let sent = signals::sent_with(result) & !before;
    if sent != 0 {
        signals::take(sent);
    }
    signals::unblock(mask);
    result
}

/// Writes bytes, all of them unless an error comes, of which nobody hears. It may run in signal handlers, too.
pub fn write(descriptor: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match put(descriptor, bytes) {
            Ok(written) if written > 0 => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

fn put(descriptor: i32, bytes: &[u8]) -> io::Result<usize> {
    let arguments = [descriptor as usize, bytes.as_ptr().expose_provenance(), bytes.len(), 0, 0, 0];
    // SAFETY: the kernel reads the bytes, which are live.
    let result = attempt(|| unsafe { system_call(libc::SYS_write as usize, arguments) });
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
}

/// A file of the runtime's own, which is written.
pub(crate) struct Own(pub File);

impl io::Write for Own {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        put(self.0.as_raw_fd(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn what_is_written_arrives_and_a_reader_that_is_gone_is_an_error() {
        let (mut reader, writer) = io::pipe().unwrap();
        write(writer.as_raw_fd(), b"all of it");
        let mut bytes = [0; 9];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"all of it");
        drop(reader);
        let descriptor = writer.as_raw_fd();
        // SAFETY: sets an action, of which the test harness has no need: it is ignored.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let mask = signals::mask();
        write(descriptor, b"nobody reads");
        let error = put(descriptor, b"nobody reads").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        // Here the process would end if one were left.
        assert_eq!((signals::mask(), signals::pending() & signals::OF_WRITES), (mask, 0));
        // SAFETY: as above; as it was.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let file = File::open("/dev/null").unwrap();
        assert!(Own(file).write(b"not for writing").is_err());
    }
}
