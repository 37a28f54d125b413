use std::io::{self, BufRead, Write};

struct Scanner<B> {
    reader: B,
    buf: Vec<String>,
}

impl<B: BufRead> Scanner<B> {
    fn new(reader: B) -> Self { Scanner { reader, buf: Vec::new() } }
    fn token<T: std::str::FromStr>(&mut self) -> T {
        loop {
            if let Some(t) = self.buf.pop() {
                return t.parse().ok().expect("Failed parse");
            }
            let mut input = String::new();
            self.reader.read_line(&mut input).expect("Failed read");
            self.buf = input.split_whitespace().rev().map(String::from).collect();
        }
    }
}

fn main() {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut scan = Scanner::new(stdin.lock());
    let mut out = io::BufWriter::new(stdout.lock());
    let t: usize = scan.token();
    for case in 1..=t {
        let (a, b): (u64, u64) = (scan.token(), scan.token());
        writeln!(out, "Case #{}: {}", case, gcd(a, b)).unwrap();
    }
}

fn gcd(a: u64, b: u64) -> u64 { if b == 0 { a } else { gcd(b, a % b) } }
/* cases
wrong: if b == 0 { a } >>> if b == 0 { a + 1 }
case: 2|12 18|7 5 => Case #1: 6|Case #2: 1
*/
