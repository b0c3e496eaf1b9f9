//! The filter of system calls, from the same list that the Docker sandbox uses, as a program for the kernel.
//!
//! The program is a binary search over the numbers of the calls, with as few steps as possible: the kernel translates it
//! anew for every run, and then tries it with each call that there is, to find out which are always allowed. A chain of
//! comparisons, as libraries make it, would cost as much as the program that is judged.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use syscalls::Sysno;

const LIST: &str = include_str!("../seccomp.json");

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in the kernel's `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    default_errno_ret: u32,
    syscalls: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    names: Vec<String>,
    action: Action,
    #[serde(default)]
    errno_ret: u32,
    #[serde(default)]
    args: Vec<Condition>,
}

#[derive(Deserialize, PartialEq)]
enum Action {
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    index: u32,
    value: u64,
    op: Comparison,
    #[serde(default)]
    value_two: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Comparison {
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    /// `argument & value == value_two`.
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Allow,
    Errno(u32),
    /// Allowed if one of these holds.
    AllowIf(Vec<Condition>),
}

/// A filter, ready to be loaded.
pub struct Filter(Vec<libc::sock_filter>);

impl Filter {
    pub fn from_list() -> Result<Self, String> {
        let list: List = serde_json::from_str(LIST).map_err(|error| error.to_string())?;
        program(&fates(&list)?, list.default_errno_ret).map(Self)
    }

    /// For this process and all that it starts, for ever. Needs `no_new_privs`.
    pub fn load(&self) -> std::io::Result<()> {
        let length = u16::try_from(self.0.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len: length, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: the program is alive during the call, which reads as much of it as `len` says.
        match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// Calls that this machine does not have are left out.
fn fates(list: &List) -> Result<BTreeMap<u32, Fate>, String> {
    let mut fates = BTreeMap::new();
    for rule in &list.syscalls {
        for call in rule.names.iter().filter_map(|name| Sysno::from_str(name).ok()) {
            let number = call.id() as u32;
            match (&rule.action, &rule.args[..]) {
                (Action::Errno, []) => drop(fates.insert(number, Fate::Errno(rule.errno_ret))),
                (Action::Allow, []) => drop(fates.insert(number, Fate::Allow)),
                (Action::Allow, [condition]) => {
                    let fate = fates.entry(number).or_insert(Fate::AllowIf(Vec::new()));
                    match fate {
                        Fate::AllowIf(conditions) => conditions.push(condition.clone()),
                        _ => return Err(format!("{call} has a rule with a condition and one without")),
                    }
                }
                _ => return Err(format!("the rule for {call} is of a kind that is not understood")),
            }
        }
    }
    Ok(fates)
}

fn program(fates: &BTreeMap<u32, Fate>, otherwise: u32) -> Result<Vec<libc::sock_filter>, String> {
    // Neighbours of the same fate are one segment; each begins at its number and ends where the next one begins.
    let mut segments: Vec<(u32, Fate)> = Vec::new();
    let mut add = |start: u32, fate: Fate| {
        if segments.last().is_none_or(|(_, last)| *last != fate) {
            segments.push((start, fate));
        }
    };
    let mut next = 0;
    for (&number, fate) in fates {
        if number > next {
            add(next, Fate::Errno(otherwise));
        }
        add(number, fate.clone());
        next = number + 1;
    }
    add(next, Fate::Errno(otherwise));

    let mut code = Backwards::default();
    let refuse = code.put(answer(libc::SECCOMP_RET_ERRNO | otherwise));
    let allow = code.put(answer(libc::SECCOMP_RET_ALLOW));
    let found = code.search(&segments, &Ends { allow, refuse, otherwise })?;
    debug_assert_eq!(found, code.0.len() - 1);
    code.put(load(NUMBER));
    // Calls of another architecture have other numbers. Nobody makes them by accident.
    let known = code.0.len() - 1;
    let foreign = code.put(answer(libc::SECCOMP_RET_KILL_PROCESS));
    code.jump(libc::BPF_JEQ, ARCHITECTURE, known, foreign)?;
    code.put(load(ARCH));
    code.0.reverse();
    Ok(code.0)
}

/// A program in the making, from its end to its beginning: jumps go forwards only, so where they lead is there already. A
/// place is its distance from the end.
#[derive(Default)]
struct Backwards(Vec<libc::sock_filter>);

/// The ends that all share.
struct Ends {
    allow: usize,
    refuse: usize,
    otherwise: u32,
}

impl Backwards {
    fn put(&mut self, step: libc::sock_filter) -> usize {
        self.0.push(step);
        self.0.len() - 1
    }

    fn jump(&mut self, comparison: u32, value: u32, then: usize, otherwise: usize) -> Result<usize, String> {
        let from = self.0.len();
        let distance = |to: usize| u8::try_from(from - 1 - to).map_err(|_| "the filter is too long".to_owned());
        let code = (libc::BPF_JMP | comparison | libc::BPF_K) as u16;
        Ok(self.put(libc::sock_filter { code, jt: distance(then)?, jf: distance(otherwise)?, k: value }))
    }

    /// Where the fate of a number in these segments is decided.
    fn search(&mut self, segments: &[(u32, Fate)], ends: &Ends) -> Result<usize, String> {
        if let [(_, fate)] = segments {
            return self.decide(fate, ends);
        }
        let (lower, upper) = segments.split_at(segments.len() / 2);
        let (above, below) = (self.search(upper, ends)?, self.search(lower, ends)?);
        self.jump(libc::BPF_JGE, upper[0].0, above, below)
    }

    fn decide(&mut self, fate: &Fate, ends: &Ends) -> Result<usize, String> {
        match fate {
            Fate::Allow => Ok(ends.allow),
            Fate::Errno(errno) if *errno == ends.otherwise => Ok(ends.refuse),
            Fate::Errno(errno) => Ok(self.put(answer(libc::SECCOMP_RET_ERRNO | errno))),
            Fate::AllowIf(conditions) => match words(conditions) {
                Some((at, wanted)) => {
                    wanted
                        .iter()
                        .try_fold(ends.refuse, |next, word| self.jump(libc::BPF_JEQ, *word, ends.allow, next))?;
                    Ok(self.put(load(at)))
                }
                None => {
                    conditions.iter().try_fold(ends.refuse, |next, condition| self.check(condition, ends.allow, next))
                }
            },
        }
    }

    /// Allows the call if the condition holds, goes on to `next` if not. An argument is 64 bits, the machine has 32.
    fn check(&mut self, condition: &Condition, allow: usize, next: usize) -> Result<usize, String> {
        let at = ARGUMENTS + 8 * condition.index;
        let (mask, wanted) = match condition.op {
            Comparison::Equal => (u64::MAX, condition.value),
            Comparison::MaskedEqual => (condition.value, condition.value_two),
        };
        // Little endian: the lower half comes first.
        let lower = self.check_half(at, mask as u32, wanted as u32, allow, next)?;
        self.check_half(at + 4, (mask >> 32) as u32, (wanted >> 32) as u32, lower, next)
    }

    fn check_half(&mut self, at: u32, mask: u32, wanted: u32, then: usize, otherwise: usize) -> Result<usize, String> {
        self.jump(libc::BPF_JEQ, wanted, then, otherwise)?;
        if mask != u32::MAX {
            self.put(statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask));
        }
        Ok(self.put(load(at)))
    }
}

/// If all conditions ask for the lower half of one argument only: where that is, and the values that are wanted. It needs
/// to be loaded once then.
fn words(conditions: &[Condition]) -> Option<(u32, Vec<u32>)> {
    let index = conditions.first()?.index;
    let wanted = conditions.iter().map(|condition| {
        let lower = condition.op == Comparison::MaskedEqual && condition.value == u64::from(u32::MAX);
        (lower && condition.index == index).then_some(condition.value_two as u32)
    });
    Some((ARGUMENTS + 8 * index, wanted.collect::<Option<_>>()?))
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel runs it.
    fn run(program: &[libc::sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(architecture.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let (mut at, mut value) = (0, 0u32);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_RET => return step.k,
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    let from = step.k as usize;
                    value = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                code if code == libc::BPF_ALU | libc::BPF_AND => value &= step.k,
                code if code == libc::BPF_JMP | libc::BPF_JA => at += step.k as usize,
                code if code == libc::BPF_JMP | libc::BPF_JEQ => {
                    at += usize::from(if value == step.k { step.jt } else { step.jf });
                }
                code if code == libc::BPF_JMP | libc::BPF_JGE => {
                    at += usize::from(if value >= step.k { step.jt } else { step.jf });
                }
                code => panic!("unknown code {code:#x}"),
            }
        }
    }

    #[test]
    fn every_call_meets_the_fate_that_the_list_gives_it() {
        let list: List = serde_json::from_str(LIST).unwrap();
        let fates = fates(&list).unwrap();
        let Filter(program) = Filter::from_list().unwrap();
        assert!(program.len() < 220, "{}", program.len());
        for number in (0..1000).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            let answer = run(&program, ARCHITECTURE, number, [u64::MAX; 6]);
            let expected = match fates.get(&number) {
                Some(Fate::Allow) => libc::SECCOMP_RET_ALLOW,
                Some(Fate::Errno(errno)) => libc::SECCOMP_RET_ERRNO | errno,
                _ => libc::SECCOMP_RET_ERRNO | 1,
            };
            assert_eq!(answer, expected, "{number}");
        }
        assert_eq!(run(&program, 0x4000_0003, 1, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS, "32-bit calls");
    }

    #[test]
    fn conditions_look_at_both_halves_of_an_argument() {
        let Filter(program) = Filter::from_list().unwrap();
        let allowed = |call: Sysno, index: usize, value: u64| {
            let mut arguments = [0; 6];
            arguments[index] = value;
            run(&program, ARCHITECTURE, call.id() as u32, arguments) == libc::SECCOMP_RET_ALLOW
        };
        assert!(allowed(Sysno::socket, 0, 1) && !allowed(Sysno::socket, 0, 2));
        assert!(!allowed(Sysno::socket, 0, 1 | 1 << 32));
        assert!(allowed(Sysno::clone, 0, libc::SIGCHLD as u64));
        for namespace in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_NEWNET] {
            assert!(!allowed(Sysno::clone, 0, namespace as u64));
        }
        for persona in [0, 8, 0x20000, 0x20008, 0xffff_ffff, 0x40000] {
            assert!(allowed(Sysno::personality, 0, persona), "{persona:#x}");
        }
        assert!(!allowed(Sysno::personality, 0, 4));
        // The kernel looks at 32 bits of it, and so must we.
        let filters = libc::PR_SET_SECCOMP as u64;
        assert!(!allowed(Sysno::prctl, 0, filters) && !allowed(Sysno::prctl, 0, filters | 1 << 32));
        assert!(allowed(Sysno::prctl, 0, libc::PR_SET_NAME as u64));
    }

    #[test]
    fn the_list_names_calls_that_exist() {
        let list: List = serde_json::from_str(LIST).unwrap();
        let unknown: Vec<_> =
            list.syscalls.iter().flat_map(|rule| &rule.names).filter(|name| Sysno::from_str(name).is_err()).collect();
        assert!(cfg!(not(target_arch = "x86_64")) || unknown.is_empty(), "{unknown:?}");
    }
}
