//! A call that is known to block hands the processor over itself. Alone in its process: it counts the monitor's
//! take-overs.

use std::io::{Read, Write};

#[test]
fn who_says_that_he_blocks_hands_his_processor_over_at_once() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        for i in 0..50u8 {
            let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let writer = raddle::spawn(move || theirs.write_all(&[i]).unwrap());
            // The writer is ready and has nowhere else to run.
            let got = raddle::drop_in::blocking(move || {
                let mut byte = [0];
                ours.read_exact(&mut byte).unwrap();
                byte[0]
            });
            assert_eq!(got, i);
            writer.join().unwrap();
        }
    });
    assert_eq!(raddle::info::stats().takeovers, 0, "the monitor had to do it");
}
