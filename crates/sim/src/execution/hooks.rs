//! What a panic in a coroutine says goes into the outcome of its run.

use super::{EXECUTION, current};
use std::any::Any;
use std::sync::Once;

/// What a panic says.
pub(super) fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked")
}

/// Once per process: what a coroutine says when it panics goes into the outcome, and a dropped token is a panic.
pub(super) fn install_hooks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = text_of(info.payload());
            let place = info.location().map_or(String::new(), |place| format!(" ({place})"));
            let noted = EXECUTION.try_with(|slot| match slot.try_borrow_mut() {
                Ok(mut slot) => slot.as_deref_mut().filter(|run| run.world.current.is_some()).map(|run| {
                    run.message.get_or_insert_with(|| format!("{said}{place}"));
                }),
                Err(_) => None,
            });
            if !matches!(noted, Ok(Some(()))) {
                before(info);
            }
        }));
        raddle_scheduler::ready::set_drop_hook(|_| {
            if current().is_some() && !std::thread::panicking() {
                panic!("a policy dropped a ready thread; it will never run");
            }
        });
    });
}
