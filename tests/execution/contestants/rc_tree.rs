use std::cell::RefCell;
use std::io;
use std::rc::Rc;

type Link = Option<Rc<RefCell<Node>>>;
struct Node { val: i32, left: Link, right: Link }

fn insert(root: &mut Link, val: i32) {
    match root {
        None => *root = Some(Rc::new(RefCell::new(Node { val, left: None, right: None }))),
        Some(n) => {
            let mut n = n.borrow_mut();
            if val < n.val { insert(&mut n.left, val) } else { insert(&mut n.right, val) }
        }
    }
}
fn walk(root: &Link, depth: usize, out: &mut Vec<String>) {
    if let Some(n) = root {
        let n = n.borrow();
        walk(&n.left, depth + 1, out);
        out.push(format!("{}@{}", n.val, depth));
        walk(&n.right, depth + 1, out);
    }
}
fn main() {
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok();
    let mut root = None;
    line.split_whitespace().filter_map(|x| x.parse().ok()).for_each(|x| insert(&mut root, x));
    let mut out = vec![];
    walk(&root, 0, &mut out);
    println!("{}", out.join(", "));
}
/* cases
wrong: val < n.val >>> val > n.val
case: 5 2 8 x 1 => 1@2, 2@1, 5@0, 8@1
*/
