//! Words that no committed file may hold.

use super::{Tree, Violation};
use crate::shell;
use std::path::Path;
use std::process::Command;

/// Marks of unfinished work, put together here so that this file does not hold them.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unim", "plemented!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
    concat!("#[ig", "nore"),
];

/// No mark of unfinished work, no path of this machine, and none of the words that `git config tidy.forbid` adds
/// locally.
pub fn forbidden(tree: &Tree) -> Vec<Violation> {
    let mut words: Vec<String> = UNFINISHED.map(String::from).to_vec();
    words.extend(places(&shell::root()));
    let mut git = Command::new("git");
    git.args(["config", "--get-all", "tidy.forbid"]).current_dir(shell::root());
    // Exit status 1 means that nobody has configured any.
    words.extend(shell::output(&mut git).unwrap_or_default().lines().map(String::from));
    search(tree, &words)
}

/// The folder of this checkout, and the one around it unless that is one that every machine has.
fn places(root: &Path) -> Vec<String> {
    let common = ["", "/", "/tmp", "/var/tmp", "/home", "/root", "/usr/src", "/opt", "/srv", "/mnt"];
    let around = root.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
    let mut places = vec![root.display().to_string()];
    if !common.contains(&around.as_str()) {
        places.push(format!("{around}/"));
    }
    places
}

fn search(tree: &Tree, words: &[String]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".lock") && !file.path.ends_with("go.sum")) {
        for (index, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                found.push(Violation::new(&file.path, index, format!("`{word}` must not be committed")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_caught() {
        for word in UNFINISHED {
            let tree = Tree::of(&[("a.sh", &format!("# {word} later\n"))]);
            assert_eq!(search(&tree, &UNFINISHED.map(String::from)).len(), 1, "{word}");
        }
    }

    #[test]
    fn the_place_of_the_checkout_is_caught() {
        let tree = Tree::of(&[("a.md", "look into /place/of/papers\n")]);
        assert_eq!(search(&tree, &places(Path::new("/place/of/raddle"))).len(), 1);
        assert_eq!(places(Path::new("/tmp/raddle")), ["/tmp/raddle"]);
    }
}
