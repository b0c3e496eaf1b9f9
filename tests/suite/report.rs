//! One line for each thing that was looked at, and the count at the end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

pub struct Report {
    began: Instant,
    passed: usize,
    failed: usize,
}

impl Report {
    pub fn new() -> Self {
        Self { began: Instant::now(), passed: 0, failed: 0 }
    }

    /// `complaints` say what was expected and what came instead; without any it is ok.
    pub fn line(&mut self, name: &str, found: &str, took: Duration, complaints: &[String]) {
        let mark = if complaints.is_empty() { "ok" } else { "FAILED" };
        println!("{mark:6} {name:44} {found:18} {:>6} ms", took.as_millis());
        for complaint in complaints {
            println!("       {}", complaint.replace('\n', "\n       "));
        }
        match complaints {
            [] => self.passed += 1,
            _ => self.failed += 1,
        }
    }

    pub fn conclude(self) -> ExitCode {
        println!("{} passed, {} failed in {:.1} s", self.passed, self.failed, self.began.elapsed().as_secs_f64());
        // Nothing that was asked for was found: that is no success either.
        if self.failed == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
