use std::io::stdin;
use std::thread;

fn dfs(v: usize, p: usize, g: &Vec<Vec<usize>>, d: &mut [usize]) {
    for &u in &g[v] {
        if u != p {
            d[u] = d[v] + 1;
            dfs(u, v, g, d);
        }
    }
}

fn solve() {
    let mut s = String::new();
    stdin().read_line(&mut s).unwrap();
    let n: usize = s.trim().parse().unwrap();
    let mut g = vec![vec![]; n];
    for i in 1..n { g[i].push(i - 1); g[i - 1].push(i); }
    let mut d = vec![0; n];
    dfs(0, n, &g, &mut d);
    println!("{}", d.iter().max().unwrap());
}

fn main() {
    thread::Builder::new().stack_size(256 * 1024 * 1024).spawn(solve).unwrap().join().unwrap();
}
/* cases
wrong: d[u] = d[v] + 1 >>> d[u] = 1
case: 200000 => 199999
*/
