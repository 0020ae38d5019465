//! `cargo xtask yields-programs`: whole programs of others, compiled with quantum checks, pass their own tests, as they
//! are and, where that says more, under `raddle run` with a quantum of 50 µs. memcached also serves under load, beside
//! a request for which it computes (`yields_server.rs`).
//!
//! Sources come from Debian (`apt-get source`, with lists of its own, so nothing of the system's is changed) and from
//! the crates' registry, into the target folder; nothing of them is kept elsewhere. A campaign, not a part of `ci`.

use crate::shell::{self, Failure, Outcome, cargo};
use crate::yields_server;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where a program comes from.
enum Source {
    /// A source package of Debian.
    Debian(&'static str),
    /// A crate of the registry, with its version.
    Registry(&'static str, &'static str),
}

struct Program {
    name: &'static str,
    source: Source,
    /// Debian packages that building or testing takes.
    needs: &'static [(&'static str, &'static str)],
    /// What the shell runs in the sources' folder, with `RADDLE` in the environment. Fails if anything does, and if the
    /// program has no checks.
    script: &'static str,
    /// What is seen of the program in the sources' folder beside, with the command that runs it.
    beside: Option<fn(&Path, &Path) -> Outcome>,
}

const COMPILERS: [(&str, &str); 2] = [("/usr/bin/make", "make"), ("/usr/bin/clang-22", "clang-22")];

const PROGRAMS: [Program; 4] = [
    Program {
        name: "zlib",
        source: Source::Debian("zlib"),
        needs: &[],
        script: r#"
            CC="$RADDLE cc" CFLAGS=-O2 ./configure --static >/dev/null
            make -s test
            nm example | grep raddle_quantum_used >/dev/null
            "$RADDLE" run --main -- ./example | tail -n 1
            "$RADDLE" run --main -- ./minigzip <zlib.3.pdf >packed.gz
            gzip -dc packed.gz | cmp - zlib.3.pdf
        "#,
        beside: None,
    },
    Program {
        name: "sqlite",
        source: Source::Debian("sqlite3"),
        needs: &[("/usr/bin/tclsh", "tcl"), ("/usr/include/tcl/tcl.h", "tcl-dev")],
        script: r#"
            [ -f Makefile ] || ./configure CC="$RADDLE cc" CFLAGS=-O2 --with-tcl=/usr/lib/tcl8.6 --disable-shared >/dev/null
            make -s testfixture fuzzcheck >/dev/null
            nm testfixture | grep raddle_quantum_used >/dev/null
            ./fuzzcheck test/fuzzdata1.db test/fuzzdata8.db | tail -n 1
            for name in select1 insert join trans where func expr index sort like thread001 thread002; do
                for way in '' "$RADDLE run --main --"; do
                    $way ./testfixture "test/$name.test" >result.txt || true
                    echo "$name${way:+ under raddle run}: $(grep 'errors out of' result.txt || tail -n 3 result.txt)"
                    grep -q '^0 errors out of' result.txt
                done
            done
        "#,
        beside: None,
    },
    Program {
        name: "memcached",
        source: Source::Debian("memcached"),
        needs: &[("/usr/include/event.h", "libevent-dev"), ("/usr/bin/prove", "perl")],
        script: r#"
            [ -f Makefile ] || ./configure CC="$RADDLE cc" CFLAGS=-O2 --disable-docs --disable-coverage >/dev/null
            make -s memcached testapp timedrun sizes >/dev/null
            nm memcached | grep raddle_quantum_used >/dev/null
            ln -sf memcached memcached-debug
            # An option of builds with seccomp, without which the server does not start.
            sed -i 's/-o relaxed_privileges//' t/lib/MemcachedTest.pm
            prove t/binary-get.t t/cas.t t/flush-all.t t/incrdecr.t t/lru.t t/noreply.t t/touch.t t/64bit.t t/getset.t t/stats.t
        "#,
        beside: Some(|sources, raddle| yields_server::run(&sources.join("memcached"), raddle)),
    },
    Program {
        name: "regex",
        source: Source::Registry("regex", "1.13.2"),
        needs: &[],
        script: r#"
            # Its package leaves the inputs of the fuzzers out.
            sed -i '/^mod fuzz;/d' tests/lib.rs
            "$RADDLE" cargo test -q --release --test integration
            RADDLE_QUANTUM=50 "$RADDLE" run -- "$(ls -t target/raddle/*/release/deps/integration-* | grep -v '\.d$' | head -n 1)" | tail -n 2
        "#,
        beside: None,
    },
];

/// The command: `--only NAME`, `--raddle PROGRAM` in place of a release build.
pub fn run(arguments: &[String]) -> Outcome {
    let (mut only, mut raddle) = (None, None);
    let mut rest = arguments;
    while let [option, value, others @ ..] = rest {
        match option.as_str() {
            "--only" if PROGRAMS.iter().any(|program| program.name == value) => only = Some(value.as_str()),
            "--raddle" => raddle = Some(value.clone()),
            _ => break,
        }
        rest = others;
    }
    if !rest.is_empty() {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        return Err(Failure::usage(format!("yields-programs takes --only {} and --raddle PROGRAM", names.join("|"))));
    }
    let raddle = match raddle {
        Some(raddle) => fs::canonicalize(&raddle).map_err(|error| Failure::usage(format!("{raddle}: {error}")))?,
        None => {
            shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli"]))?;
            shell::root().join("target/release/raddle")
        }
    };
    let mut failed = Vec::new();
    for program in PROGRAMS.iter().filter(|program| only.is_none_or(|only| only == program.name)) {
        let absent: Vec<_> =
            COMPILERS.iter().chain(program.needs).filter(|(path, _)| !Path::new(path).exists()).collect();
        if !absent.is_empty() {
            let packages: Vec<_> = absent.iter().map(|(_, package)| *package).collect();
            return Err(Failure::usage(format!("{}: apt-get install {}", program.name, packages.join(" "))));
        }
        let begun = Instant::now();
        let outcome = one(program, &raddle);
        println!(
            "{}: {} after {} s",
            program.name,
            if outcome.is_ok() { "passed with checks" } else { "FAILED" },
            begun.elapsed().as_secs()
        );
        if let Err(why) = outcome {
            println!("{}: {why}", program.name);
            failed.push(program.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::failed(format!("failed: {}", failed.join(", ")))) }
}

fn one(program: &Program, raddle: &Path) -> Outcome {
    let folder = shell::root().join("target/yields-programs").join(program.name);
    fs::create_dir_all(&folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    let sources = folder.join("sources");
    if !sources.exists() {
        let script = match program.source {
            Source::Debian(package) => FROM_DEBIAN.replace("PACKAGE", package),
            Source::Registry(name, version) => FROM_REGISTRY.replace("NAME", name).replace("VERSION", version),
        };
        shell::run(Command::new("sh").args(["-euc", &script]).current_dir(&folder))?;
    }
    let mut tests = Command::new("bash");
    tests.args(["-euo", "pipefail", "-c", program.script]).current_dir(&sources);
    shell::run(tests.env("RADDLE", raddle).env("RADDLE_QUANTUM", "50"))?;
    program.beside.map_or(Ok(()), |beside| beside(&sources, raddle))
}

/// The newest source of the package for this release, with lists and a cache beside it.
const FROM_DEBIAN: &str = r#"
    mkdir -p lists/partial cache/archives/partial unpacked
    . /etc/os-release
    echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >sources.list
    set -- -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists" \
        -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User=root
    apt-get "$@" update -qq
    apt-get "$@" source -qq --download-only PACKAGE
    tar xf "$(ls *.orig.tar.*)" -C unpacked --strip-components=1
    mv unpacked sources
"#;

/// The crate as it was published, in a workspace of its own.
const FROM_REGISTRY: &str = r#"
    mkdir -p fetch/src
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\n[workspace]\n[dependencies]\nNAME = "=VERSION"\n' >fetch/Cargo.toml
    : >fetch/src/lib.rs
    (cd fetch && cargo vendor -q --versioned-dirs >/dev/null)
    cp -r fetch/vendor/NAME-VERSION unpacked
    printf '\n[workspace]\n' >>unpacked/Cargo.toml
    mv unpacked sources
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_shows_that_it_has_checks() {
        for program in &PROGRAMS {
            let checked = program.script.contains("raddle_quantum_used") || program.script.contains("cargo test");
            assert!(checked && program.script.contains("RADDLE"), "{}", program.name);
        }
        assert!(run(&["--only".into(), "nothing".into()]).is_err());
    }
}
