//! Where results go.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// Writes to a file or to the standard output; a reader that closed its end early, such as `head`, is no error.
pub fn write(text: &str, path: Option<&Path>) -> Result<(), String> {
    match path {
        Some(path) => std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display())),
        None => match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
            _ => Ok(()),
        },
    }
}
