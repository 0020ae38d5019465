//! Threads of programs that nobody changed.

mod common;

#[test]
fn ten_thousand_threads_on_a_few_kernel_threads() {
    let program = common::compile("create_join.c", &[]);
    let out = common::drop_in(&program, &[], &[]).well();
    let numbers: Vec<i64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], 9999 * 10000);
    assert!(numbers[1] < 200, "{} kernel threads: the program's threads were not taken over", numbers[1]);
}
