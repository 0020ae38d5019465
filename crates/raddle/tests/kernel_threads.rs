//! What kernel threads leave behind: nothing.

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn alternate_stacks_go_with_their_kernel_threads() {
    let round = || {
        let pool = raddle::Builder::new().processors(4).build().unwrap();
        assert_eq!(pool.run(|| raddle::spawn(|| 7).join().unwrap()), 7);
    };
    (0..10).for_each(|_| round());
    let before = mappings();
    (0..50).for_each(|_| round());
    let after = mappings();
    // 200 kernel threads have come and gone; each would leave one mapping or two.
    assert!(after < before + 50, "{before} mappings have become {after}");
}
