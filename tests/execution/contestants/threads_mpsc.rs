use std::sync::{mpsc, Arc, Mutex};
use std::thread;
fn main() {
    let mut s = String::new();
    std::io::stdin().read_line(&mut s).unwrap();
    let n: u32 = s.trim().parse().unwrap();
    let total = Arc::new(Mutex::new(0u64));
    let (tx, rx) = mpsc::channel();
    let hs: Vec<_> = (0..3).map(|k| {
        let (tx, total) = (tx.clone(), Arc::clone(&total));
        thread::spawn(move || for i in (k + 1..=n).step_by(3) {
            let d = (1..=i).filter(|j| i % j == 0).count() as u64;
            *total.lock().unwrap() += d;
            if d == 2 { tx.send(i).unwrap(); }
        })
    }).collect();
    drop(tx);
    let mut primes: Vec<u32> = rx.iter().collect();
    for h in hs { h.join().unwrap(); }
    primes.sort();
    println!("{} {:?}", *total.lock().unwrap(), primes);
}
/* cases
wrong: d == 2 >>> d <= 2
case: 12 => 35 [2, 3, 5, 7, 11]
*/
