fn main() {
    let mut s = String::new();
    std::io::stdin().read_line(&mut s).unwrap();
    let s: Vec<char> = s.trim_end().chars().collect();
    let mut out = String::with_capacity(s.len());
    let mut i = 0;
    while i < s.len() {
        let j = (i..s.len()).find(|&j| s[j] != s[i]).unwrap_or(s.len());
        out.push(s[i]);
        if j - i > 1 { out += &(j - i).to_string(); }
        i = j;
    }
    println!("{out}");
    eprintln!("debug {:?}", s.iter().rev().collect::<String>());
}
/* cases
wrong: j - i > 1 >>> j - i > 2
case: aaabccd => a3bc2d
*/
