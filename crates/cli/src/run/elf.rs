//! Whether an executable file can be taken over.

use object::elf;
use object::read::ReadCache;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSymbol};
use std::fs::File;
use std::path::Path;

/// The machine that this command was built for, in the words of ELF.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Why the file cannot be taken over, with the remedy. `Ok` when nothing speaks against it.
pub fn check(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => "it may be executed but not read, so it cannot be examined".to_string(),
        _ => format!("it cannot be read: {error}"),
    })?;
    let data = ReadCache::new(file);
    match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => return Err(format!("it is a 32-bit program; {}", only(MACHINE))),
        _ => return Err("it is no Linux program (no ELF file), nor a script with a `#!` line".into()),
    }
    let parsed = ElfFile64::<Endianness, _>::parse(&data).map_err(|error| format!("it is damaged: {error}"))?;
    let (endian, header) = (parsed.endian(), parsed.elf_header());
    let machine = header.e_machine(endian);
    if machine != MACHINE {
        return Err(format!("it is a program for {}; {}", machine_name(machine), only(MACHINE)));
    }
    let kind = header.e_type(endian);
    if kind != elf::ET_EXEC && kind != elf::ET_DYN {
        return Err("it is an ELF file, but no program (an object file or a core dump)".into());
    }
    if [".go.buildinfo", ".note.go.buildid"].iter().any(|name| parsed.section_by_name(name).is_some()) {
        return Err("it is a Go program: Go has lightweight threads of its own, and makes its kernel threads \
                    past the C library; run it without raddle"
            .into());
    }
    let interpreter = parsed.elf_program_headers().iter().find_map(|segment| {
        let path = segment.interpreter(endian, &data).ok().flatten()?;
        Some(String::from_utf8_lossy(path).into_owned())
    });
    loader(interpreter.as_deref())
}

/// The sanitizer that a program was built with, if it keeps an account of each thread's stack and storage: it takes the
/// functions that the library takes, and knows kernel threads only.
pub fn sanitizer(path: &Path) -> Option<&'static str> {
    // By what the program calls, or, linked statically, offers to other libraries; or by the library that is needed.
    const SANITIZERS: [([&str; 2], &str); 5] = [
        (["__asan_init", "libasan.so"], "AddressSanitizer"),
        (["__hwasan_init", "libhwasan.so"], "HWAddressSanitizer"),
        (["__tsan_init", "libtsan.so"], "ThreadSanitizer"),
        (["__msan_init", "libmsan.so"], "MemorySanitizer"),
        (["__lsan_init", "liblsan.so"], "LeakSanitizer"),
    ];
    let data = ReadCache::new(File::open(path).ok()?);
    let parsed = ElfFile64::<Endianness, _>::parse(&data).ok()?;
    // The latter are the names of what is linked statically, as long as they are not stripped.
    let sections =
        [".dynstr", ".strtab"].map(|name| parsed.section_by_name(name).and_then(|section| section.data().ok()));
    let names = || sections.iter().flatten().flat_map(|names| names.split(|&byte| byte == 0));
    let is_named = |[function, library]: [&str; 2]| {
        names().any(|name| name == function.as_bytes() || name.starts_with(library.as_bytes()))
    };
    SANITIZERS.into_iter().find(|&(marks, _)| is_named(marks)).map(|(_, sanitizer)| sanitizer)
}

/// Whether an MPI is linked into a program, as far as its table of symbols is there: its functions under the names by
/// which tools call them.
pub fn has_own_mpi(path: &Path) -> bool {
    let find = |file: File| {
        let data = ReadCache::new(file);
        let parsed = ElfFile64::<Endianness, _>::parse(&data).ok()?;
        let is_of_mpi = |name: &str| name.starts_with("PMPI_");
        parsed.symbols().find(|symbol| symbol.is_definition() && symbol.name().is_ok_and(is_of_mpi)).map(drop)
    };
    File::open(path).ok().and_then(find).is_some()
}

/// What a library is that was named in the place of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// As it is shipped.
    Shipped,
    /// Its memory comes from the program's allocator.
    WithoutAllocator,
    /// Not the drop-in library.
    Another,
}

/// Looks at the names that it exports.
pub fn library(path: &Path) -> Library {
    let is_exported = |file: File| {
        let data = ReadCache::new(file);
        let parsed = ElfFile64::<Endianness, _>::parse(&data).ok()?;
        let exports =
            |name: &str| parsed.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
        Some((exports("raddle_thread_create"), exports("raddle_allocator_is_own")))
    };
    match File::open(path).ok().and_then(is_exported) {
        Some((true, true)) => Library::Shipped,
        Some((true, false)) => Library::WithoutAllocator,
        _ => Library::Another,
    }
}

/// What the program's loader says of it.
fn loader(interpreter: Option<&str>) -> Result<(), String> {
    let Some(path) = interpreter else {
        return Err("it is statically linked, so no library can be put before its C library; link it dynamically \
                    (without -static; in Rust without crt-static)"
            .into());
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.contains("musl") {
        return Err("it is linked with musl; raddle needs glibc: build it for a gnu target".into());
    }
    if !name.starts_with("ld-linux") && !name.starts_with("ld64.so") {
        return Err(format!("its loader is {path}, which is not glibc's"));
    }
    if !Path::new(path).exists() {
        return Err(format!("its loader {path} is not there: install the C library it was built for"));
    }
    Ok(())
}

fn only(machine: u16) -> String {
    format!("this build of raddle runs programs for 64-bit {} only", machine_name(machine))
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_X86_64 => "x86-64".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_386 => "32-bit x86".into(),
        elf::EM_ARM => "32-bit ARM".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_PPC64 => "POWER".into(),
        elf::EM_S390 => "S/390".into(),
        other => format!("an architecture of ELF number {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_are_told_apart() {
        assert!(loader(None).unwrap_err().contains("statically"));
        assert!(loader(Some("/lib/ld-musl-x86_64.so.1")).unwrap_err().contains("musl"));
        assert!(loader(Some("/system/bin/linker64")).unwrap_err().contains("not glibc's"));
        assert!(loader(Some("/no/where/ld-linux-x86-64.so.2")).unwrap_err().contains("not there"));
    }

    #[test]
    fn what_is_no_program_is_told() {
        let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(check(&this).unwrap_err().contains("no Linux program"));
        assert_eq!(check(&std::env::current_exe().unwrap()), Ok(()));
    }
}
