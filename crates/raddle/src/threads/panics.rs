//! The name of a lightweight thread that panics, which std's own message does not know.

use crate::carry::switching::current;
use std::sync::Once;

/// From now on a line with the thread's name comes before whatever tells of the panic of a lightweight thread that has
/// one. Called when the first is named, so that programs without names keep their hook.
pub(crate) fn tell_names() {
    static TOLD: Once = Once::new();
    // A hook cannot be changed on a thread that panics: the next name does it.
    if TOLD.is_completed() || std::thread::panicking() {
        return;
    }
    TOLD.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(name) = current().and_then(|me| me.name()) {
                eprintln!("raddle: thread '{name}' panics:");
            }
            before(panic);
        }));
    });
}
