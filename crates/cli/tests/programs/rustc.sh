# package: rustc
# needs: /usr/bin/rustc
# seconds=200
# what: a program compiled with several code generation units
printf 'fn main() { let v: Vec<u64> = (0..100).collect(); println!("{}", v.iter().sum::<u64>()); }\n' >a.rs
run rustc -O -C codegen-units=4 a.rs && ./a
