use std::io;

fn read_vec() -> Vec<i64> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("read");
    line.trim().split_whitespace().map(|x| x.parse().unwrap()).collect()
}

fn main() {
    let n = read_vec()[0] as usize;
    let mut a = read_vec();
    a.sort_unstable();
    a.dedup();
    println!("{} {}", n - a.len(), a.iter().sum::<i64>());
}
/* cases
wrong: a.dedup(); >>> a.truncate(n - 1);
case: 5|3 1 3 2 1 => 2 6
*/
