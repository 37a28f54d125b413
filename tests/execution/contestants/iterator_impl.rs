struct Collatz { at: u64, done: bool }
impl Iterator for Collatz {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        if self.done { return None; }
        let r = self.at;
        self.done = r == 1;
        self.at = if r % 2 == 0 { r / 2 } else { 3 * r + 1 };
        Some(r)
    }
}
fn main() {
    let n: u64 = std::io::read_to_string(std::io::stdin()).unwrap().trim().parse().unwrap();
    let c: Vec<_> = Collatz { at: n, done: false }.collect();
    println!("{} {:?}", c.len(), c.iter().max());
    let (even, odd): (Vec<u64>, Vec<u64>) = c.iter().partition(|x| **x % 2 == 0);
    println!("{}/{} {}", even.len(), odd.len(), c.iter().skip(1).step_by(2).take(3).map(|x| x.to_string()).collect::<Vec<_>>().join("-"));
}
/* cases
wrong: 3 * r + 1 >>> r + 1
case: 6 => 9 Some(16)|6/3 3-5-8
*/
