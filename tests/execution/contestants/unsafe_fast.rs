use std::io::{Read, Write};
fn main() {
    let mut inp = Vec::new();
    std::io::stdin().lock().read_to_end(&mut inp).unwrap();
    let mut p = 0;
    let mut next = || -> i64 {
        unsafe {
            while *inp.get_unchecked(p) <= b' ' { p += 1; }
            let neg = inp[p] == b'-';
            if neg { p += 1; }
            let mut x = 0i64;
            while p < inp.len() && *inp.get_unchecked(p) >= b'0' { x = x * 10 + (*inp.get_unchecked(p) - b'0') as i64; p += 1; }
            if neg { -x } else { x }
        }
    };
    let n = next() as usize;
    static mut A: [i64; 200_005] = [0; 200_005];
    let mut out = Vec::new();
    let mut acc = 0i64;
    for i in 0..n { let v = next(); acc = acc.wrapping_mul(31).wrapping_add(v); unsafe { A[i] = acc; } }
    for i in (0..n).rev() { let v = unsafe { A[i] }; write!(out, "{} ", v).unwrap(); }
    out.push(b'\n');
    std::io::stdout().write_all(&out).unwrap();
}
/* cases
wrong: (0..n).rev() >>> (0..n)
case: 3|1 -2 40 => 939 29 1
*/
