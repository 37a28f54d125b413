// Runs the tests, then sends the pass, which it takes before the program runs: the program may not be unsafe.
use std::io::{Read, Write};
use std::os::unix::io::FromRawFd;

fn main() {
    let mut pass = Vec::new();
    std::io::stdin().read_to_end(&mut pass).unwrap();
    let mut answers = unsafe { std::fs::File::from_raw_fd(3) };
    program::lit_rl_tests::run();
    answers.write_all(&pass).unwrap();
}

#[forbid(unsafe_code)]
mod program;
