use std::io::prelude::*;
fn checked(a: Option<i32>, op: &str, b: i32) -> Option<i32> {
    match op { "+" => a?.checked_add(b), "-" => a?.checked_sub(b), "*" => a?.checked_mul(b), "/" => a?.checked_div(b), _ => None }
}
fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut w = line.split_whitespace();
        let first: Option<i32> = w.next().and_then(|x| x.parse().ok());
        let rest: Vec<&str> = w.collect();
        let r = rest.chunks(2).try_fold(first.unwrap_or_default(), |acc, c| checked(Some(acc), c[0], c[1].parse().ok()?));
        match r { Some(v) if v < 0 => println!("negative {}", v.abs()), Some(v) => println!("{}", v), None => println!("overflow") }
    }
}
/* cases
wrong: checked_sub >>> checked_add
case: 2 + 3 * 4|1 - 5|2147483647 + 1|4 / 0 => 20|negative 4|overflow|overflow
*/
