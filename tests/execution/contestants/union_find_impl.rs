#[allow(unused_imports)]
use std::{collections::*, io::*, cmp::*};

#[derive(Default)]
struct Dsu { p: Vec<i32> }
impl Dsu {
    fn new(n: usize) -> Dsu { Dsu { p: vec![-1; n], ..Default::default() } }
    fn root(&mut self, x: usize) -> usize { if self.p[x] < 0 { x } else { let r = self.root(self.p[x] as usize); self.p[x] = r as i32; r } }
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (mut a, mut b) = (self.root(a), self.root(b));
        if a == b { return false; }
        if self.p[a] > self.p[b] { std::mem::swap(&mut a, &mut b); }
        self.p[a] += self.p[b];
        self.p[b] = a as i32;
        true
    }
}
fn main() {
    let v: Vec<usize> = stdin().lines().flat_map(|l| l.unwrap().split(' ').map(|x| x.parse().unwrap()).collect::<Vec<_>>()).collect();
    let mut d = Dsu::new(v[0] + 1);
    let merged = v[1..].chunks_exact(2).filter(|e| d.join(e[0], e[1])).count();
    let r = d.root(1);
    println!("{} {}", merged, -d.p[r]);
}
/* cases
wrong: self.p[a] += self.p[b]; >>> self.p[a] -= 1;
case: 5|1 2|2 3|3 1|4 5|5 3 => 4 5
*/
