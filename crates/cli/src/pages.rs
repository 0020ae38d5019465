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
    let page = |command: Command| manual(command).map_err(|error| error.to_string());
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

/// A command's manual page. What stands below its help would be filled and justified, command lines, too.
fn manual(command: Command) -> std::io::Result<Vec<u8>> {
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.after_help(None::<&str>)).render(&mut text)?;
    // The version stands last.
    let version = b".SH VERSION";
    let at = text.windows(version.len()).position(|part| part == version).unwrap_or(text.len());
    text.splice(at..at, sections(&below).into_bytes());
    Ok(text)
}

/// The end of a command's help, in groff's words.
fn sections(help: &str) -> String {
    let plain = |text: &str| text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    let mut page = String::new();
    for line in help.lines().filter(|line| !line.is_empty()) {
        match (crate::screen::example(line), line.strip_prefix("Exit status: ")) {
            (Some((command, what)), _) => {
                if !command.is_empty() {
                    page += &format!(".PP\n.nf\n\\&{}\n.fi\n", plain(command));
                }
                if !what.is_empty() {
                    page += &format!(".RS 4\n\\&{}\n.RE\n", plain(what));
                }
            }
            (None, Some(status)) => page += &format!(".SH \"EXIT STATUS\"\n\\&{}\n", plain(status)),
            (None, None) if line == "Examples:" => page += ".SH EXAMPLES\n",
            (None, None) => page += &format!(".PP\n\\&{}\n", plain(line)),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_stays_one_in_manual_pages() {
        let help =
            "Examples:\n  raddle run --stats -- 'a'      what  it does\n  raddle top\n\nMore.\n\nExit status: 0.";
        let page = manual(Command::new("raddle-run").version("1").after_help(help)).unwrap();
        let page = String::from_utf8(page).unwrap();
        let example =
            ".SH EXAMPLES\n.PP\n.nf\n\\&raddle run \\-\\-stats \\-\\- \\(aqa\\(aq\n.fi\n.RS 4\n\\&what  it does\n.RE\n";
        let rest = ".PP\n.nf\n\\&raddle top\n.fi\n.PP\n\\&More.\n.SH \"EXIT STATUS\"\n\\&0.\n.SH VERSION";
        assert!(page.contains(&format!("{example}{rest}")) && !page.contains("EXTRA"), "{page}");
    }

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
