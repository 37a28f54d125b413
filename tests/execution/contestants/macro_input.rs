use std::io::Read;

macro_rules! input {
    ($it:expr; $($name:ident : $t:ty),+) => { $(let $name: $t = $it.next().unwrap().parse().unwrap();)+ };
}

fn main() {
    let mut buf = String::new();
    std::io::stdin().lock().read_to_string(&mut buf).unwrap();
    let mut it = buf.split_whitespace();
    input!(it; n: usize, k: usize);
    let a: Vec<i32> = (0..n).map(|_| it.next().unwrap().parse().unwrap()).collect();
    let best = a.windows(k).map(|w| w.iter().sum::<i32>()).max().unwrap_or(0);
    println!("{}", best);
}
/* cases
wrong: a.windows(k) >>> a.chunks(k)
case: 5 2|1 4 5 2 6 => 9
*/
