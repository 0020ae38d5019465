//! What comes with the command: completions for shells, and manual pages, both from what it knows of its own options.

use clap::{Args, Command};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The hidden subcommand that writes what a package holds.
pub const PAGES: &str = "write-pages";

/// The name of the program.
const NAME: &str = "raddle";

/// Print what makes a shell complete the command's words, as in `raddle completions bash`
#[derive(Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

/// Writes manual pages and completions, as packages lay them out, below a folder.
#[derive(Args)]
pub struct Pages {
    /// The folder, such as `/usr/share`
    folder: PathBuf,
}

/// Prints the completions.
pub fn complete(options: &Completions, command: Command) -> Result<ExitCode, String> {
    let text = completions(options.shell, command);
    crate::output::print(&String::from_utf8_lossy(&text)).map(|()| ExitCode::SUCCESS)
}

fn completions(shell: Shell, command: Command) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(&command), NAME, &mut text);
    text
}

/// Without what is only for the command itself, which the shells' completions would propose all the same.
fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    // `--help` and `--version` come by themselves; the command has no other option.
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(NAME).about(about).version(env!("CARGO_PKG_VERSION")).subcommands(subcommands)
}

/// Writes all into files.
pub fn write(options: &Pages, command: Command) -> Result<ExitCode, String> {
    let failed = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let put = |path: PathBuf, text: &[u8]| {
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        std::fs::write(&path, text).map_err(|error| failed(&path, error))
    };
    for (shell, path) in [
        (Shell::Bash, "bash-completion/completions/raddle"),
        (Shell::Zsh, "zsh/vendor-completions/_raddle"),
        (Shell::Fish, "fish/vendor_completions.d/raddle.fish"),
    ] {
        put(options.folder.join(path), &completions(shell, command.clone()))?;
    }
    let page = |command: Command| {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text).map(|()| text).map_err(|error| error.to_string())
    };
    let man = options.folder.join("man/man1");
    put(man.join("raddle.1"), &page(command.clone())?)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("{NAME}-{}", subcommand.get_name());
        let shown: &'static str = name.clone().leak();
        let own = subcommand.clone().name(shown).bin_name(format!("{NAME} {}", subcommand.get_name()));
        put(man.join(format!("{name}.1")), &page(own)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_what_is_for_users_only() {
        let command = || {
            let shown = Command::new("run").arg(clap::Arg::new("stats").long("stats"));
            Command::new(NAME).subcommand(shown).subcommand(Command::new("write-pages").hide(true))
        };
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(shell, command())).unwrap();
            assert!(text.contains("stats") && text.contains("version"), "{shell}");
            assert!(!text.contains("write-pages"), "{shell}");
        }
    }
}
