//! The process: its beginning, forks, signals.
