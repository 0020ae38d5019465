//! Whether the event loops of a pool are gathered on its processors, or have kernel threads to themselves
//! ([`crate::guest::event_loops`]).

use crate::carry::activation::Activation;
use crate::carry::pool::Shared;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Times that a pool's event loops were gathered, since the process began. Written by the monitor.
static GATHERED: AtomicU64 = AtomicU64::new(0);

/// What is to become of the event loops of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Apart, or gathered where that is seen to be as good.
    #[default]
    Either,
    /// Never gathered.
    Apart,
    /// Gathered from the start.
    Gathered,
    /// The one and the other, changed at each look of the monitor: for tests.
    Turns,
}

impl std::str::FromStr for Wish {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "apart" => Ok(Wish::Apart),
            "gathered" => Ok(Wish::Gathered),
            "turns" => Ok(Wish::Turns),
            _ => Err(()),
        }
    }
}

/// Whether a pool's event loops are gathered. The monitor changes it.
#[derive(Debug)]
pub(crate) struct Loops {
    pub wish: Wish,
    gathered: AtomicBool,
}

impl Loops {
    pub fn new(wish: Wish) -> Loops {
        Loops { wish, gathered: AtomicBool::new(wish == Wish::Gathered) }
    }

    #[inline]
    pub fn are_gathered(&self) -> bool {
        self.gathered.load(Ordering::Relaxed)
    }

    /// A look of the monitor, by which the pool has `fewer` processors than it could have, since it does as much.
    pub fn decide(&self, fewer: bool) {
        let before = self.are_gathered();
        let now = match self.wish {
            Wish::Either => fewer,
            Wish::Apart => false,
            Wish::Gathered => true,
            Wish::Turns => !before,
        };
        if now != before {
            self.gathered.store(now, Ordering::Relaxed);
            GATHERED.fetch_add(u64::from(now), Ordering::Relaxed);
        }
    }
}

/// The activations whose threads are apart and were of that pool, if they may be gathered.
pub(crate) fn apart_of(pool: &'static Shared) -> impl Iterator<Item = &'static Activation> {
    let of_pool = move |a: &&Activation| a.processor_if_any().is_some_and(|p| std::ptr::eq(p.pool, pool));
    let all = crate::carry::activations::all().filter(|a| a.apart.load(Ordering::Relaxed)).filter(of_pool);
    all.filter(|_| pool.loops.wish != Wish::Apart)
}

/// How often event loops were gathered, those of a pool at once.
pub fn times_gathered() -> u64 {
    GATHERED.load(Ordering::Relaxed)
}
