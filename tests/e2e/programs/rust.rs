// Does what the first word of its input says.
use std::io::{self, Read, Write};
use std::time::Duration;

fn main() {
    let mut input = String::new();
    io::stdin().read_to_string(&mut input).unwrap();
    let mut words = input.split_whitespace();
    let word = words.next().unwrap();
    let mut number = || words.next().unwrap().parse::<i32>().unwrap();
    match word {
        "sum" => println!("{}", number() + number()),
        "exit" => std::process::exit(number()),
        "signal" => std::process::abort(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "sleep" => std::thread::sleep(Duration::from_secs(60)),
        "memory" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1u8; 1 << 20]);
            }
        }
        "flood" => loop {
            io::stdout().write_all(&[b'x'; 4096]).unwrap();
        },
        _ => unreachable!(),
    }
}
