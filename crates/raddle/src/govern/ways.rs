//! By which way the runtime hears that a thread has blocked in the kernel where nothing marked it: for experiments, and
//! where a way does harm.
//!
//! `RADDLE_EVENTS=standby` (what is done without it): a standby of the idle class where the kernel allows one
//! ([`crate::govern::standby`]), and the monitor behind it. `monitor`: the monitor alone. `none`: nobody, so that a
//! blocked thread keeps its processor, as user-level threads have it that know nothing of the kernel's events.

use std::sync::OnceLock;

/// Who tells of blocked threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Standby,
    Monitor,
    Nobody,
}

const WAYS: [(&str, Way); 3] = [("standby", Way::Standby), ("monitor", Way::Monitor), ("none", Way::Nobody)];

fn read(value: &str) -> Option<Way> {
    WAYS.iter().find(|(name, _)| *name == value).map(|(_, way)| *way)
}

/// The way that is wanted. An unknown name is said once, and is as none given.
pub(crate) fn wanted() -> Way {
    static WANTED: OnceLock<Way> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let Some(value) = std::env::var_os("RADDLE_EVENTS") else { return Way::Standby };
        read(&value.to_string_lossy()).unwrap_or_else(|| {
            let value = value.to_string_lossy();
            crate::os::say_once(&format!(
                "raddle: RADDLE_EVENTS={value} is none of standby, monitor, none: it is ignored"
            ));
            Way::Standby
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_name() {
        assert_eq!(WAYS.map(|(name, _)| read(name)), [Some(Way::Standby), Some(Way::Monitor), Some(Way::Nobody)]);
        assert_eq!(read("perf"), None);
    }
}
