//! Lets a stopped kernel thread go on if whoever has stopped it waits for what it keeps.
//!
//! One that is stopped within the C library's allocator keeps that one's lock, and the test needs memory itself. This
//! says nothing about the runtime, so it is told, and is no failure.

use super::icebox;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the test has said that it goes on.
static BEATS: AtomicU64 = AtomicU64::new(0);
/// Without a beat for so long the test is taken to wait: longer than any freeze that a campaign asks for (10 s), in
/// which it sleeps.
const SILENT_FOR: Duration = Duration::from_secs(40);

/// The test goes on.
pub fn beat() {
    BEATS.fetch_add(1, Ordering::Relaxed);
}

/// From now on somebody watches.
pub fn watch() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| drop(std::thread::spawn(run)));
}

/// Takes no memory.
fn run() {
    let (mut since, mut seen) = (Instant::now(), 0);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let beats = BEATS.load(Ordering::Relaxed);
        if beats != seen || !icebox::is_occupied() {
            (since, seen) = (Instant::now(), beats);
        } else if since.elapsed() > SILENT_FOR {
            let told = b"freeze: the test waits for what a stopped kernel thread keeps, which goes on\n";
            // SAFETY: these bytes are read; a failure is nobody's loss.
            unsafe { libc::write(libc::STDERR_FILENO, told.as_ptr().cast(), told.len()) };
            icebox::open();
        }
    }
}
