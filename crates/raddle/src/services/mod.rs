//! What threads are served with: waits for descriptors, and stages.

pub mod io;
pub mod stage;
