#[cfg(test)]
mod lit_rl_tests {
#[allow(unused_imports)]
use super::*;
TESTS
/// Sends the pass; its name makes it the last test.
#[test]
fn zzzz_send() {
    let pass = ::std::io::stdin().lines().next().unwrap().unwrap();
    ::std::fs::write("/proc/self/fd/3", pass).unwrap();
}
}
