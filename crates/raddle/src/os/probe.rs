//! What the kernel lets this process do: asked by doing it.

use std::io;

/// Opens, and closes again, an event that tells of the calling kernel thread's switches.
pub(crate) fn kernel_events() -> Result<(), io::Error> {
    const SOFTWARE: u64 = 1;
    const DUMMY: u64 = 9;
    const SIZE: u64 = 112;
    const DISABLED: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const WATERMARK: u64 = 1 << 14;
    const CONTEXT_SWITCH: u64 = 1 << 26;
    const CLOSE_ON_EXEC: u64 = 8;
    // `struct perf_event_attr`: type and size, config, period, sample type, read format, flags, the watermark.
    let mut attributes = [0u64; SIZE as usize / 8];
    attributes[0] = SOFTWARE | SIZE << 32;
    attributes[1] = DUMMY;
    attributes[5] = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | WATERMARK | CONTEXT_SWITCH;
    attributes[6] = 1;
    // SAFETY: the kernel reads as many bytes as the attributes say they have; the descriptor is ours, and closed.
    unsafe {
        let event =
            libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0isize, -1isize, -1isize, CLOSE_ON_EXEC);
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(event as libc::c_int);
    }
    Ok(())
}

/// Asks for restartable sequences with arguments that cannot be right: a kernel that has them says so.
pub(crate) fn rseq() -> Result<(), io::Error> {
    // SAFETY: without an area, nothing is registered, and one that is stays.
    unsafe { libc::syscall(libc::SYS_rseq, 0usize, 0usize, 0usize, 0usize) };
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
}
