//! Input and output, and time.

mod sleep;
