//! Blocks that are over before the monitor could meet one: the processor goes on switching, and only what the kernel
//! counts tells that it rests. Alone in its process: the standby that this brings about would serve for others, too.

#[path = "support/standby.rs"]
mod standby;

use std::time::Duration;

#[test]
fn blocks_too_short_to_be_met_are_told_of_too() {
    standby::blocks_until_taken_over(Duration::from_micros(300), 1);
}
