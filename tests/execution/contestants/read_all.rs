use std::collections::{BTreeMap, HashMap};
use std::io::{stdin, Read};

fn main() {
    let mut s = String::new();
    stdin().read_to_string(&mut s).unwrap();
    let mut it = s.split_ascii_whitespace();
    let n: usize = it.next().unwrap().parse().unwrap();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for w in it.take(n) {
        *count.entry(w).or_insert(0) += 1;
    }
    let mut by: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (w, c) in &count { by.entry(*c).or_default().push(w); }
    for (c, ws) in by.iter_mut().rev() {
        ws.sort();
        println!("{c} {}", ws.join(" "));
    }
}
/* cases
wrong: or_insert(0) += 1 >>> or_insert(1) += 1
case: 5|b a c a b => 2 a b|1 c
*/
