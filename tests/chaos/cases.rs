//! Requests whose verdict is known beforehand.

use fastrand::Rng;
use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::{ExecutionResult, ExecutionStatus, TestStatus};
use tribunal_tests::requests::request;

/// What a right program may take. Much more than it needs: a machine that is busy with dying and starting again must not
/// turn it into a timeout.
const GENEROUS_MS: i64 = 20_000;
const SHORT_MS: i64 = 300;
const SMALL_MB: i64 = 64;

/// Most say nothing.
const PRIORITIES: [Option<&str>; 6] = [None, None, None, Some("low"), Some("normal"), Some("high")];

/// The only result that a request may ever have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub status: ExecutionStatus,
    pub tests: Vec<TestStatus>,
}

impl Verdict {
    pub fn of(result: &ExecutionResult) -> Self {
        Self { status: result.status, tests: result.test_results.iter().map(|test| test.status).collect() }
    }

    /// Of a message that is no request.
    pub fn refused() -> Self {
        Self { status: ExecutionStatus::SandboxError, tests: Vec::new() }
    }
}

pub struct Case {
    pub name: &'static str,
    pub request: ExecutionRequest,
    pub verdict: Verdict,
}

/// What it is called, how often it is drawn, and how it is made.
type Recipe = (&'static str, u32, fn(&mut Rng) -> (ExecutionRequest, Verdict));

/// Those that cost seconds or much memory are rare.
const RECIPES: [Recipe; 13] = [
    ("right, in Python", 24, |rng| sums(rng, "python", PYTHON_SUM, 0)),
    ("right, in Bash", 24, |rng| sums(rng, "bash", BASH_SUM, 0)),
    ("right, in C", 8, |rng| sums(rng, "c", C_SUM, 0)),
    ("partly wrong, in Python", 8, |rng| sums(rng, "python", PYTHON_SUM, 1)),
    ("partly wrong, in C", 3, |rng| sums(rng, "c", C_SUM, 1)),
    ("all wrong, in Bash", 8, |rng| sums(rng, "bash", BASH_SUM, usize::MAX)),
    ("not compilable, in C", 5, |rng| {
        let (request, _) = sums(rng, "c", "int main(void) { return nothing }", 0);
        (request, Verdict { status: ExecutionStatus::CompilationError, tests: Vec::new() })
    }),
    ("raising, in Python", 6, |rng| failing(rng, "python", "raise SystemExit(137)", TestStatus::RuntimeError)),
    ("exiting 124, in Bash", 6, |rng| failing(rng, "bash", "echo timed out >&2; exit 124", TestStatus::RuntimeError)),
    ("crashing, in C", 3, |rng| {
        failing(rng, "c", "int main(void) { *(volatile int *)8 = 1; return 0; }", TestStatus::RuntimeError)
    }),
    ("endless, in Bash", 2, |rng| {
        let (request, verdict) = failing(rng, "bash", "while :; do :; done", TestStatus::Timeout);
        (ExecutionRequest { timeout_ms: Some(SHORT_MS), ..request }, verdict)
    }),
    ("greedy, in Python", 2, |rng| {
        let (request, verdict) = failing(rng, "python", "x = bytearray(1 << 28)", TestStatus::MemoryExceeded);
        (ExecutionRequest { memory_limit_mb: Some(SMALL_MB), ..request }, verdict)
    }),
    ("talkative, in Bash", 1, |rng| {
        failing(rng, "bash", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done", TestStatus::OutputExceeded)
    }),
];

const PYTHON_SUM: &str = "print(sum(map(int, input().split())))";
const BASH_SUM: &str = "read a b; echo $((a + b))";
const C_SUM: &str =
    "#include <stdio.h>\nint main(void) { int a, b; scanf(\"%d %d\", &a, &b); printf(\"%d\\n\", a + b); return 0; }";

pub fn draw(rng: &mut Rng) -> Case {
    let mut ticket = rng.u32(0..RECIPES.iter().map(|(_, weight, _)| weight).sum());
    for (name, weight, make) in RECIPES {
        match ticket.checked_sub(weight) {
            Some(rest) => ticket = rest,
            None => {
                let (mut request, verdict) = make(rng);
                request.timeout_ms.get_or_insert(GENEROUS_MS);
                request.priority = rng.choice(PRIORITIES).expect("there are some").map(str::to_owned);
                return Case { name, request, verdict };
            }
        }
    }
    unreachable!("the ticket is below the sum of all weights")
}

/// Tests of a program that adds two numbers, the first `wrong` of which expect something else.
fn sums(rng: &mut Rng, language: &str, code: &str, wrong: usize) -> (ExecutionRequest, Verdict) {
    let count = rng.usize(2..=4);
    let tests: Vec<_> = (0..count)
        .map(|index| {
            let (a, b) = (rng.u32(0..10_000), rng.u32(0..10_000));
            let expected = if index < wrong { a + b + 1 } else { a + b };
            (format!("{a} {b}\n"), format!("{expected}\n"))
        })
        .collect();
    let verdicts = (0..count).map(|index| if index < wrong { TestStatus::WrongAnswer } else { TestStatus::Passed });
    let status = match wrong {
        0 => ExecutionStatus::AllPassed,
        wrong if wrong < count => ExecutionStatus::SomePassed,
        _ => ExecutionStatus::AllFailed,
    };
    (request_with(language, code, &tests), Verdict { status, tests: verdicts.collect() })
}

/// A program that never gets as far as an answer.
fn failing(rng: &mut Rng, language: &str, code: &str, each: TestStatus) -> (ExecutionRequest, Verdict) {
    let count = rng.usize(1..=2);
    let tests = vec![(String::new(), "an answer".to_owned()); count];
    let status = match each {
        TestStatus::Timeout => ExecutionStatus::Timeout,
        TestStatus::MemoryExceeded => ExecutionStatus::MemoryExceeded,
        TestStatus::OutputExceeded => ExecutionStatus::OutputExceeded,
        _ => ExecutionStatus::RuntimeError,
    };
    (request_with(language, code, &tests), Verdict { status, tests: vec![each; count] })
}

fn request_with(language: &str, code: &str, tests: &[(String, String)]) -> ExecutionRequest {
    let tests: Vec<_> = tests.iter().map(|(input, expected)| (input.as_str(), expected.as_str())).collect();
    request(language, code, &tests)
}
