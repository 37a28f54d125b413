use std::collections::{HashSet, VecDeque};
use std::io::{self, prelude::*};

fn main() -> io::Result<()> {
    let lines: Vec<Vec<u8>> = io::stdin().lock().lines().map(|l| l.unwrap().into_bytes()).collect();
    let (h, w) = (lines.len() as i32, lines[0].len() as i32);
    let mut seen = HashSet::new();
    let mut q = VecDeque::new();
    for (r, row) in lines.iter().enumerate() {
        for (c, &b) in row.iter().enumerate() {
            if b == b'S' { q.push_back((r as i32, c as i32, 0)); seen.insert((r as i32, c as i32)); }
        }
    }
    while let Some((r, c, d)) = q.pop_front() {
        if lines[r as usize][c as usize] == b'E' { println!("{d}"); return Ok(()); }
        for (dr, dc) in [(0, 1), (1, 0), (0, -1), (-1, 0)] {
            let (nr, nc) = (r + dr, c + dc);
            if (0..h).contains(&nr) && (0..w).contains(&nc) && lines[nr as usize][nc as usize] != b'#' && seen.insert((nr, nc)) {
                q.push_back((nr, nc, d + 1));
            }
        }
    }
    println!("-1");
    Ok(())
}
/* cases
wrong: (nr, nc, d + 1) >>> (nr, nc, d + 2)
case: S.#|..#|..E => 4
case: S...|...E => 4
case: S#E => -1
*/
