//! Every wait has a form with a time-out, and what it returns says which of both it was.
#![forbid(unsafe_code)]

use raddle::sync::channel::{self, RecvTimeoutError};
use raddle::sync::{Semaphore, WaitError};
use std::time::Duration;

static PLACES: Semaphore = Semaphore::new(1);

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    pool.run(|| {
        let (sender, receiver) = channel::bounded::<u32>(1);
        let soon = Duration::from_millis(10);
        assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
        sender.send(7).unwrap();
        assert_eq!(receiver.recv_timeout(soon), Ok(7));
        let place = PLACES.enter(1);
        assert_eq!(raddle::spawn(move || PLACES.acquire_timeout(1, soon)).join().unwrap(), Err(WaitError::TimedOut));
        drop(place);
        assert_eq!(PLACES.acquire_timeout(1, soon), Ok(()));
    });
    println!("each wait ended as it should");
    Ok(())
}
