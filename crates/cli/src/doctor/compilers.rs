//! Whether `raddle cc` and `raddle cargo` work here.

use super::{Finding, State};
use crate::compile::llvm::{self, Llvm};
use std::path::Path;

/// One finding for each language.
pub fn compilers() -> Vec<Finding> {
    vec![c(), rust()]
}

fn c() -> Finding {
    let name = "C and C++ with quantum checks (`raddle cc`, `raddle c++`)";
    match Llvm::find() {
        Err(why) => Finding::new(name, State::Missing, "no", why),
        Ok(llvm) => of(name, &llvm),
    }
}

fn rust() -> Finding {
    let name = "Rust with quantum checks (`raddle cargo`)";
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let major = match llvm::of_rustc(Path::new(&rustc)) {
        Ok(major) => major,
        Err(why) => return Finding::new(name, State::Missing, "no", why),
    };
    if !llvm::MAJORS.contains(&major) {
        let known = llvm::MAJORS.map(|major| major.to_string()).join(" and ");
        return Finding::new(
            name,
            State::Missing,
            format!("rustc has LLVM {major}"),
            format!("the pass exists for {known}: use another rustc"),
        );
    }
    if let Err(why) = llvm::named_tools() {
        return Finding::new(name, State::Missing, "no", why);
    }
    match Llvm::of(major) {
        None => Finding::new(
            name,
            State::Missing,
            format!("rustc has LLVM {major}, which is not here"),
            llvm::remedy(major),
        ),
        Some(llvm) => match llvm.linker() {
            Err(why) => Finding::new(name, State::Missing, "no linker", why),
            Ok(_) => of(name, &llvm),
        },
    }
}

fn of(name: &'static str, llvm: &Llvm) -> Finding {
    let major = llvm.major;
    match llvm.ready() {
        Some(_) => Finding::new(
            name,
            State::Good,
            format!("LLVM {major}, and the pass for it"),
            "a thread that only computes gives way to others",
        ),
        None => Finding::new(
            name,
            State::Noted,
            format!("LLVM {major}; the pass is not built"),
            match llvm.lacks() {
                None => "it is built at the first use, in about a minute".into(),
                Some(remedy) => format!("to build it from the sources: {remedy}"),
            },
        ),
    }
}
