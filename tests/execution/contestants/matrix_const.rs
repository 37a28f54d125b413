use std::io;
#[derive(Clone)]
struct Mat<const N: usize>([[u128; N]; N]);
impl<const N: usize> Mat<N> {
    const MOD: u128 = 1_000_000_007;
    fn id() -> Self { let mut m = [[0; N]; N]; for i in 0..N { m[i][i] = 1; } Mat(m) }
    fn mul(&self, o: &Self) -> Self {
        let mut r = [[0u128; N]; N];
        for i in 0..N { for j in 0..N { for k in 0..N { r[i][j] = (r[i][j] + self.0[i][k] * o.0[k][j]) % Self::MOD; } } }
        Mat(r)
    }
}
fn main() {
    let stdin = io::stdin();
    let mut line = String::new();
    while stdin.read_line(&mut line).unwrap() > 0 {
        let mut n: u64 = line.trim().parse().unwrap();
        let (mut r, mut b) = (Mat::<2>::id(), Mat([[1, 1], [1, 0]]));
        while n > 0 { if n % 2 == 1 { r = r.mul(&b); } b = b.mul(&b); n /= 2; }
        println!("{}", r.0[0][1]);
        line.clear();
    }
}
/* cases
wrong: if n % 2 == 1 >>> if n % 3 == 1
case: 10|50 => 55|586268941
*/
