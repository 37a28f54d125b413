// Makes the calls in standard input, one per line, with the function's types; answers each by a line in descriptor 3.
#![allow(warnings, unsafe_code)]
mod lit_rl {
    use std::any::type_name;
    use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
    use std::{fmt::Debug, fs::File, hash::Hash, io::{stdin, Write}, mem::ManuallyDrop, os::unix::io::FromRawFd, panic, str::FromStr};

    /// A value that JSON can hold. Data that a value borrows is never freed.
    pub trait Value: Sized {
        fn read(given: &mut &str) -> Self;
        fn text(&self) -> String;
    }

    fn refuse<T>(given: &str) -> ! {
        panic!("an argument is no {}: {}", type_name::<T>(), given.chars().take(40).collect::<String>())
    }

    /// Returns whether the rest begins with `beginning`; if so, moves on behind it.
    fn takes(given: &mut &str, beginning: &str) -> bool {
        let left = given.trim_start_matches([' ', ',', ':']);
        *given = left.strip_prefix(beginning).unwrap_or(left);
        given.len() < left.len()
    }

    fn items<T, C>(given: &mut &str, open: &str, end: &str, item: impl Fn(&mut &str) -> T) -> Vec<T> {
        if !takes(given, open) {
            refuse::<C>(given)
        }
        std::iter::from_fn(|| if takes(given, end) { None } else { Some(item(given)) }).collect()
    }

    fn number<T: FromStr>(given: &mut &str) -> T {
        takes(given, "");
        let (word, rest) = given.split_at(given.find([',', ']', '}', '"']).unwrap_or(given.len()));
        let number = word.parse().unwrap_or_else(|_| refuse::<T>(given));
        *given = rest;
        number
    }

    fn quoted(text: &str) -> String {
        let mut line = String::from('"');
        for one in text.chars() {
            match one {
                '"' | '\\' | '\0'..='\x1f' => line += &format!("\\u{:04x}", one as u32),
                _ => line.push(one),
            }
        }
        line + "\""
    }

    fn listed<'a, T: Value + 'a>(all: impl IntoIterator<Item = &'a T>) -> String {
        format!("[{}]", all.into_iter().map(T::text).collect::<Vec<_>>().join(","))
    }

    fn key<K: Value>(given: &mut &str) -> K {
        match type_name::<K>() {
            "&str" | "char" | "alloc::string::String" => K::read(given),
            _ => K::read(&mut String::read(given).as_str()),
        }
    }

    fn pair((key, value): (&impl Value, &impl Value)) -> String {
        let name = Some(key.text()).filter(|name| name.starts_with('"'));
        format!("{}:{}", name.unwrap_or_else(|| quoted(&key.text())), value.text())
    }

    macro_rules! values {
        ($([$($of:tt)*] $kind:ty: |$given:ident| $read:expr, |$value:ident| $text:expr;)*) => {$(
            impl<$($of)*> Value for $kind {
                fn read($given: &mut &str) -> Self { $read }
                fn text(&self) -> String { let $value = self; $text }
            }
        )*};
    }
    macro_rules! numbers {
        ($($kind:ty)*) => { values! {$([] $kind: |given| number(given), |value| format!("{value:?}").replace("inf", "Infinity");)*} };
    }
    macro_rules! lists {
        ($($kind:ident: $bound:path,)*) => { values! {$(
            [T: Value + $bound] $kind<T>: |given| items::<T, Self>(given, "[", "]", T::read).into_iter().collect(), |value| listed(value);
        )*} };
    }
    numbers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool);
    lists!(Vec: Sized, VecDeque: Sized, LinkedList: Sized, BTreeSet: Ord,);
    values! {
        [] (): |given| drop(items::<(), ()>(given, "[", "]", |given| refuse::<()>(given))), |value| "null".into();
        [] char: |given| String::read(given).parse().unwrap_or_else(|_| refuse::<char>(given)), |value| quoted(&value.to_string());
        [] &'static str: |given| Box::leak(String::read(given).into_boxed_str()), |value| quoted(value);
        [] String: |given| string(given), |value| quoted(value);
        [T: Value] Option<T>: |given| if takes(given, "null") { None } else { Some(T::read(given)) }, |value| value.as_ref().map_or("null".into(), T::text);
        [T: Value, E: Debug] Result<T, E>: |given| Ok(T::read(given)), |value| value.as_ref().unwrap().text();
        [T: Value] Box<T>: |given| Box::new(T::read(given)), |value| (**value).text();
        [T: Value] &'static T: |given| Box::leak(Box::read(given)), |value| (**value).text();
        [T: Value] &'static mut T: |given| Box::leak(Box::read(given)), |value| (**value).text();
        [T: Value] &'static [T]: |given| Vec::read(given).leak(), |value| listed(*value);
        [T: Value] &'static mut [T]: |given| Vec::read(given).leak(), |value| listed(&**value);
        [T: Value, const N: usize] [T; N]: |given| Vec::read(given).try_into().unwrap_or_else(|_| refuse::<Self>(given)), |value| listed(value);
        [T: Value + Eq + Hash + Ord] HashSet<T>: |given| Vec::read(given).into_iter().collect(), |value| listed(value.iter().collect::<BTreeSet<_>>());
        [K: Value + Eq + Hash, V: Value] HashMap<K, V>: |given| items::<(K, V), Self>(given, "{", "}", |given| (key(given), V::read(given))).into_iter().collect(),
            |value| format!("{{{}}}", value.iter().map(pair).collect::<Vec<_>>().join(","));
        [K: Value + Ord, V: Value] BTreeMap<K, V>: |given| items::<(K, V), Self>(given, "{", "}", |given| (key(given), V::read(given))).into_iter().collect(),
            |value| format!("{{{}}}", value.iter().map(pair).collect::<Vec<_>>().join(","));
    }

    fn string(given: &mut &str) -> String {
        if !takes(given, "\"") {
            refuse::<String>(given)
        }
        let mut left = given.chars();
        let read = std::iter::from_fn(|| match left.next()? {
            '"' => None,
            '\\' => Some(match left.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                // Only control characters are escaped.
                'u' => u8::from_str_radix(&left.by_ref().take(4).collect::<String>(), 16).ok()?.into(),
                other => other,
            }),
            other => Some(other),
        });
        let read = read.collect();
        *given = left.as_str();
        read
    }

    pub trait Function<A> {
        fn call(&self, values: A, in_place: bool) -> String;
    }
    impl<F: Fn() -> R, R: Value> Function<()> for F {
        fn call(&self, _: (), _: bool) -> String { self().text() }
    }
    macro_rules! arities {
        () => {};
        ($first:ident $($rest:ident)*) => {
            values! {
                [$first: Value, $($rest: Value),*] ($first, $($rest),*): |given| {
                    if !takes(given, "[") {
                        refuse::<Self>(given)
                    }
                    let all = ($first::read(given), $($rest::read(given)),*);
                    if takes(given, "]") { all } else { refuse::<Self>(given) }
                }, |value| {
                    let ($first, $($rest),*) = value;
                    format!("[{}]", [$first.text(), $($rest.text()),*].join(","))
                };
            }
            impl<F: Fn($first, $($rest),*) -> R, R: Value, $first: Value, $($rest),*> Function<($first, $($rest),*)> for F {
                fn call(&self, ($first, $($rest),*): ($first, $($rest),*), in_place: bool) -> String {
                    if !in_place {
                        return self($first, $($rest),*).text();
                    }
                    assert!(type_name::<$first>().starts_with("&mut "), "{} is not changed in place", type_name::<$first>());
                    let changed = ManuallyDrop::new(unsafe { std::ptr::read(&$first) });
                    self($first, $($rest),*);
                    changed.text()
                }
            }
            arities!($($rest)*);
        };
    }
    arities!(A B C D E G H I J K L M);

    pub fn run<A: Value>(function: impl Function<A>) {
        let lines: Vec<_> = stdin().lines().map(Result::unwrap).collect();
        let mut answers = unsafe { File::from_raw_fd(3) };
        writeln!(answers, "{{}}");
        for line in &lines[1..] {
            let call = || function.call(A::read(&mut line.as_str()), lines[0].ends_with(" 1"));
            let answer = panic::catch_unwind(panic::AssertUnwindSafe(call));
            writeln!(answers, "{}", answer.map_or(r#"{"types":[]}"#.into(), |text| format!("[{text}]")));
        }
    }
}

include!("program.rs");
fn main() { lit_rl::run(ENTRY) }  // the function must not be generic, and JSON must hold its types
