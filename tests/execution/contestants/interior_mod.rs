mod geometry {
    #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
    pub struct P { pub x: i64, pub y: i64 }
    impl std::str::FromStr for P {
        type Err = Box<dyn std::error::Error>;
        fn from_str(s: &str) -> Result<Self, Self::Err> {
            let (a, b) = s.split_once(',').ok_or("comma")?;
            Ok(P { x: a.parse()?, y: b.parse()? })
        }
    }
    pub fn cross(o: P, a: P, b: P) -> i64 { (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x) }
    pub fn hull(mut ps: Vec<P>) -> Vec<P> {
        ps.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let mut h: Vec<P> = vec![];
        for pass in 0..2 {
            let start = h.len();
            for &p in ps.iter() {
                while h.len() >= start + 2 && cross(h[h.len() - 2], h[h.len() - 1], p) <= 0 { h.pop(); }
                h.push(p);
            }
            h.pop();
            if pass == 0 { ps.reverse(); }
        }
        h
    }
}
use geometry::{hull, P};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::io::read_to_string(std::io::stdin())?;
    let ps = text.split_whitespace().map(str::parse).collect::<Result<Vec<P>, _>>()?;
    for p in hull(ps) { print!("({} {})", p.x, p.y); }
    println!();
    Ok(())
}
/* cases
wrong: p) <= 0 >>> p) < 0
case: 0,0 2,0 4,0 4,4 0,4 1,1 => (0 0)(4 0)(4 4)(0 4)
*/
