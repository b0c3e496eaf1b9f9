//! Hostile programs are files. What they are to be given and what must come of them stands in their first lines, which
//! are comments: `#:` or `//:`, a key and a value.
//!
//! | key | meaning | without it |
//! |---|---|---|
//! | `expect` | the status of every test, or `compilation_error`; several where the kernel decides | `passed` |
//! | `prints` | a line of the expected output | nothing |
//! | `answer` | `secret`: the expected output is the planted secret, which must not be found | |
//! | `says` | what the compiler's or the program's error contains | anything |
//! | `language` | | by the file's extension |
//! | `stages` | `run`, `compile` or both: the compiler may do no more than the program | `run` |
//! | `tests` | how many of them, two at a time | 1 |
//! | `input`, `timeout_ms`, `memory_mb`, `cpus` | of every test | nothing, 1000, 128, 1 |
//! | `tags` | what to choose it by; the folder's name is one | |

use serde_json::Map;
use tribunal_shared::request::{ExecutionRequest, RequestId};
use tribunal_tests::requests::test;

use crate::plants::Plants;

/// Path below `programs/`, and text.
const PROGRAMS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/programs.rs"));

pub struct Program {
    pub name: String,
    pub tags: Vec<String>,
    /// Any of them.
    pub expect: Vec<String>,
    pub says: Option<String>,
    answer_is_secret: bool,
    prints: Vec<String>,
    language: String,
    input: String,
    tests: usize,
    timeout_ms: i64,
    memory_mb: i64,
    cpus: f64,
    code: String,
}

/// Those with one of the tags and the text in their name.
pub fn choose(tags: &[String], only: Option<&str>) -> Vec<Program> {
    let all = PROGRAMS.iter().flat_map(|(path, text)| read(path, text));
    let wanted = |program: &Program| {
        let tagged = tags.is_empty() || tags.iter().any(|tag| program.tags.contains(tag));
        tagged && only.is_none_or(|only| program.name.contains(only))
    };
    all.filter(wanted).collect()
}

/// One for each stage.
fn read(path: &str, text: &str) -> Vec<Program> {
    let (folder, file) = path.split_once('/').expect("programs are in folders");
    let (name, extension) = file.rsplit_once('.').expect("programs have extensions");
    let language = match extension {
        "py" => "python",
        "sh" => "bash",
        other => other,
    };
    let program = |stage: &str| {
        let mut program = Program {
            name: format!("{folder}/{name}{}", if stage == "compile" { " (compiling)" } else { "" }),
            tags: vec![folder.into()],
            expect: Vec::new(),
            says: None,
            answer_is_secret: false,
            prints: Vec::new(),
            language: if stage == "compile" { "lookout" } else { language }.into(),
            input: String::new(),
            tests: 1,
            timeout_ms: 1000,
            memory_mb: 128,
            cpus: 1.0,
            code: text.into(),
        };
        for (key, value) in settings(text) {
            program.set(key, value).unwrap_or_else(|problem| panic!("{path}: {key} {value}: {problem}"));
        }
        if program.expect.is_empty() {
            program.expect.push("passed".into());
        }
        program
    };
    let stages = settings(text).find(|(key, _)| *key == "stages").map_or("run", |(_, stages)| stages);
    stages.split(' ').map(program).collect()
}

fn settings(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("#:").or_else(|| line.strip_prefix("//:")));
    lines.map(|line| line.trim().split_once(' ').unwrap_or((line.trim(), "")))
}

impl Program {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<i64>().map_err(|error| error.to_string());
        match key {
            "expect" => self.expect.extend(value.split(' ').map(str::to_owned)),
            "prints" => self.prints.push(value.into()),
            "answer" => self.answer_is_secret = true,
            "says" => self.says = Some(value.into()),
            "language" => self.language = value.into(),
            "stages" => {}
            "tests" => self.tests = number()? as usize,
            "input" => self.input = value.into(),
            "timeout_ms" => self.timeout_ms = number()?,
            "memory_mb" => self.memory_mb = number()?,
            "cpus" => self.cpus = value.parse().map_err(|_| "no number")?,
            "tags" => self.tags.extend(value.split(' ').map(str::to_owned)),
            _ => return Err("no such key".into()),
        }
        Ok(())
    }

    pub fn request(&self, plants: &Plants) -> ExecutionRequest {
        let expected = if self.answer_is_secret { plants.secret.clone() } else { self.prints.join("\n") };
        ExecutionRequest {
            request_id: Some(RequestId::generate().into()),
            code: plants.fill(&self.code),
            language: self.language.clone(),
            test_cases: vec![test(&plants.fill(&self.input), &expected); self.tests],
            timeout_ms: Some(self.timeout_ms),
            total_timeout_ms: None,
            memory_limit_mb: Some(self.memory_mb),
            cpu_limit: Some(self.cpus),
            priority: None,
            metadata: Map::new(),
        }
    }
}
