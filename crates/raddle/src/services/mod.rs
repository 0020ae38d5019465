//! What threads are served with: waits for descriptors, and stages.

pub mod events;
pub mod io;
pub mod stage;
