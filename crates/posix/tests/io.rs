//! Input and output of programs that nobody changed.

mod common;

/// Where programs may put files.
const FILES: &str = env!("CARGO_TARGET_TMPDIR");

/// What calls answer is the same natively and with the library.
#[test]
fn calls_answer_as_natively() {
    let program = common::compile("io_semantics.c", &["-Wno-unused-result"]);
    let native = common::native(&program, &[FILES]).well();
    for processors in ["1", "3"] {
        let ours = common::drop_in(&program, &[FILES], &[("RADDLE_PROCESSORS", processors)]).well();
        let differ: Vec<_> = native.lines().zip(ours.lines()).filter(|(n, o)| n != o).collect();
        assert!(differ.is_empty(), "{processors} processors; native, ours: {differ:#?}");
        assert_eq!(native.lines().count(), ours.lines().count());
    }
}
