use std::io::stdin;
use std::ops::{Add, AddAssign, Mul};

const P: u64 = 998_244_353;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct M(u64);
impl Add for M { type Output = M; fn add(self, o: M) -> M { M((self.0 + o.0) % P) } }
impl Mul for M { type Output = M; fn mul(self, o: M) -> M { M(self.0 * o.0 % P) } }
impl AddAssign for M { fn add_assign(&mut self, o: M) { *self = *self + o; } }
impl std::iter::Sum for M { fn sum<I: Iterator<Item = M>>(it: I) -> M { it.fold(M(0), |a, b| a + b) } }
impl M { fn pow(self, mut e: u64) -> M { let (mut b, mut r) = (self, M(1)); while e > 0 { if e & 1 == 1 { r = r * b; } b = b * b; e >>= 1; } r } }

fn main() {
    let mut s = String::new();
    stdin().read_line(&mut s).unwrap();
    let [n, k]: [u64; 2] = s.split_whitespace().map(|x| x.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
    let t: M = (1..=n).map(|i| M(i).pow(k)).sum();
    let mut u = t;
    u += M(P - 1);
    println!("{} {:?}", t.0, u);
}
/* cases
wrong: e & 1 == 1 >>> e & 1 == 0
case: 3 5 => 276 M(275)
*/
