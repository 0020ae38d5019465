//! Whether what is shown can be written over.

/// Whether lines can be written again in their place: a terminal, and none that says it cannot.
pub fn is_screen(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
