use std::io::{self, BufRead};
#[derive(Debug, Clone, PartialEq)]
enum Token { Num(f64), Op(char), LParen, RParen }

fn lex(s: &str) -> Vec<Token> {
    let cs: Vec<char> = s.chars().collect();
    let (mut i, mut out) = (0, vec![]);
    while i < cs.len() {
        match cs[i] {
            ' ' => i += 1,
            '(' => { out.push(Token::LParen); i += 1 }
            ')' => { out.push(Token::RParen); i += 1 }
            c if c.is_ascii_digit() => { let st = i; while i < cs.len() && (cs[i].is_ascii_digit() || cs[i] == '.') { i += 1 } out.push(Token::Num(cs[st..i].iter().collect::<String>().parse().unwrap())) }
            c => { out.push(Token::Op(c)); i += 1 }
        }
    }
    out
}
fn expr(t: &[Token], p: &mut usize, min: u8) -> f64 {
    let mut v = match &t[*p] { Token::Num(x) => { *p += 1; *x } Token::LParen => { *p += 1; let v = expr(t, p, 0); *p += 1; v } x => panic!("{:?}", x) };
    while let Some(Token::Op(c)) = t.get(*p) {
        let prec = if matches!(c, '+' | '-') { 1 } else { 2 };
        if prec < min { break; }
        *p += 1;
        let r = expr(t, p, prec + 1);
        v = match c { '+' => v + r, '-' => v - r, '*' => v * r, '/' => v / r, _ => unreachable!() };
    }
    v
}
fn main() { for l in io::stdin().lock().lines().flatten() { println!("{:.3}", expr(&lex(&l), &mut 0, 0)); } }
/* cases
wrong: expr(t, p, prec + 1) >>> expr(t, p, 0)
case: 10 - 2 - 3|2 * (3 + 1.5) / 4 => 5.000|2.250
*/
