use std::fmt;
use std::io::BufRead;

trait Shape { fn area(&self) -> f64; fn name(&self) -> String { "shape".to_string() } }
struct Circle(f64);
struct Rect { w: f64, h: f64 }
impl Shape for Circle { fn area(&self) -> f64 { std::f64::consts::PI * self.0.powi(2) } }
impl Shape for Rect { fn area(&self) -> f64 { self.w * self.h } fn name(&self) -> String { String::from("rect") } }
impl fmt::Display for dyn Shape { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}={:.2}", self.name(), self.area()) } }

#[derive(Debug)]
enum ParseError { Empty, Kind(String), Num(std::num::ParseFloatError) }
impl From<std::num::ParseFloatError> for ParseError { fn from(e: std::num::ParseFloatError) -> Self { ParseError::Num(e) } }

fn parse(line: &str) -> Result<Box<dyn Shape>, ParseError> {
    let parts: Vec<_> = line.split(' ').collect();
    match parts.as_slice() {
        ["c", r] => Ok(Box::new(Circle(r.parse()?))),
        ["r", w, h] => Ok(Box::new(Rect { w: w.parse()?, h: h.parse()? })),
        [""] => Err(ParseError::Empty),
        other => Err(ParseError::Kind(other[0].into())),
    }
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        match parse(line.unwrap().trim()) { Ok(s) => println!("{}", s), Err(e) => println!("{:?}", e) }
    }
}
/* cases
wrong: self.w * self.h >>> self.w
case: c 2|r 2 3|x 1|r a 1 => shape=12.57|rect=6.00|Kind("x")|Num(ParseFloatError { kind: Invalid })
*/
