use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::*;

#[derive(Copy, Clone, Eq, PartialEq)]
struct State { cost: u64, pos: usize }
impl Ord for State {
    fn cmp(&self, other: &Self) -> Ordering { other.cost.cmp(&self.cost).then_with(|| self.pos.cmp(&other.pos)) }
}
impl PartialOrd for State {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> { Some(self.cmp(other)) }
}

fn main() {
    let mut s = String::new();
    stdin().read_to_string(&mut s).unwrap();
    let v: Vec<usize> = s.split_whitespace().map(|x| x.parse().unwrap()).collect();
    let (n, m) = (v[0], v[1]);
    let mut adj = vec![vec![]; n];
    for e in v[2..2 + 3 * m].chunks(3) { adj[e[0] - 1].push((e[1] - 1, e[2] as u64)); adj[e[1] - 1].push((e[0] - 1, e[2] as u64)); }
    let mut dist = vec![u64::MAX; n];
    dist[0] = 0;
    let mut h = BinaryHeap::from([State { cost: 0, pos: 0 }]);
    while let Some(State { cost, pos }) = h.pop() {
        if cost > dist[pos] { continue; }
        for &(to, w) in &adj[pos] {
            if cost + w < dist[to] { dist[to] = cost + w; h.push(State { cost: cost + w, pos: to }); }
        }
    }
    let far = dist.iter().enumerate().filter(|x| *x.1 != u64::MAX).max_by_key(|x| (x.1, Reverse(x.0))).unwrap();
    println!("{} {}", far.0 + 1, far.1);
}
/* cases
wrong: cost + w < dist[to] >>> dist[to] == u64::MAX
case: 4 4|1 2 10|1 3 1|3 2 2|2 4 4 => 4 7
*/
