//! Cancellation: whoever waits is told by a value, and cleans up as it returns.
#![forbid(unsafe_code)]

use raddle::sync::channel::{self, RecvError};

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    let ended = pool.run(|| {
        let (_sender, receiver) = channel::bounded::<u32>(1);
        raddle::scope(|scope| {
            let workers: Vec<_> = (0..1000)
                .map(|_| {
                    scope.spawn(|| match receiver.recv() {
                        Err(RecvError::Cancelled) => 1,
                        other => panic!("nothing was sent: {other:?}"),
                    })
                })
                .collect();
            // Ends the waits of all threads of the scope, and of the scopes that these have open.
            scope.cancel();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
        })
    });
    println!("{ended} threads were told to end, and did");
    Ok(())
}
