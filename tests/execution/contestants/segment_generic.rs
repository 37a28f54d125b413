use std::io::Read;

struct Seg<T: Copy, F: Fn(T, T) -> T> { n: usize, t: Vec<T>, id: T, f: F }
impl<T: Copy, F> Seg<T, F> where F: Fn(T, T) -> T {
    fn new(n: usize, id: T, f: F) -> Self { Self { n, t: vec![id; 2 * n], id, f } }
    fn set(&mut self, mut i: usize, v: T) {
        i += self.n; self.t[i] = v;
        while i > 1 { i /= 2; self.t[i] = (self.f)(self.t[2 * i], self.t[2 * i + 1]); }
    }
    fn get(&self, l: usize, r: usize) -> T {
        let (mut l, mut r, mut a, mut b) = (l + self.n, r + self.n, self.id, self.id);
        while l < r {
            if l & 1 == 1 { a = (self.f)(a, self.t[l]); l += 1; }
            if r & 1 == 1 { r -= 1; b = (self.f)(self.t[r], b); }
            l >>= 1; r >>= 1;
        }
        (self.f)(a, b)
    }
}
fn main() {
    let mut s = String::new();
    std::io::stdin().read_to_string(&mut s).unwrap();
    let mut it = s.split_whitespace().map(|x| x.parse::<i64>().unwrap());
    let mut nx = || it.next().unwrap();
    let n = nx() as usize;
    let mut seg = Seg::new(n, i64::MIN, |a, b| a.max(b));
    for i in 0..n { let v = nx(); seg.set(i, v); }
    for _ in 0..nx() {
        let (k, a, b) = (nx(), nx(), nx());
        if k == 0 { seg.set(a as usize, b) } else { println!("{}", seg.get(a as usize, b as usize)) }
    }
}
/* cases
wrong: l += 1; } >>> }
case: 5|1 9 3 4 5|3|1 2 5|0 3 -7|1 2 4 => 5|3
*/
