//! A result for people: a table of tests, what went wrong, the summary.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment, Color, Row, Table, presets};
use tribunal_shared::result::{Attempt, ExecutionResult, ExecutionStatus, TestResult, TestStatus};

use super::{difference, escape};

/// Failed tests that are explained; a program that fails one of a thousand tests often fails hundreds.
const EXPLAINED: usize = 3;
const LONGEST_ID: usize = 40;
const LONGEST_MESSAGE: usize = 300;
/// Lines of compiler output and of stderr. The beginning of the former and the end of the latter say most.
const COMPILER_LINES: usize = 40;
const STDERR_LINES: usize = 5;

pub fn result(result: &ExecutionResult, colours: bool) -> String {
    let mut text = String::new();
    if !result.test_results.is_empty() {
        let _ = writeln!(text, "{}\n", test_table(&result.test_results, colours));
    }
    if let Some(output) = result.compilation_output.as_deref().filter(|output| !output.trim().is_empty()) {
        let _ = writeln!(text, "{}\n", head(output, COMPILER_LINES));
    }

    let failed: Vec<_> = result.test_results.iter().filter(|test| test.status != TestStatus::Passed).collect();
    for test in failed.iter().take(EXPLAINED) {
        explain(&mut text, test);
    }
    if failed.len() > EXPLAINED {
        let _ = writeln!(text, "… and {} more failed tests\n", failed.len() - EXPLAINED);
    }
    // The summary repeats what the compiler said, which stands above.
    let summary = match result.status {
        ExecutionStatus::CompilationError => "Compilation failed".to_owned(),
        _ => escape::first_line(&result.summary, LONGEST_MESSAGE),
    };
    let _ = writeln!(text, "{summary}");
    if !result.attempts.is_empty() {
        let _ = write!(text, "\n{}", attempts(&result.attempts));
    }
    text
}

/// What became of each time that a request was begun.
pub fn attempts(attempts: &[Attempt]) -> String {
    let mut text = "attempts\n".to_owned();
    for Attempt { attempt, worker, end } in attempts {
        let (worker, end) = (escape::first_line(worker, LONGEST_ID), escape::first_line(end, LONGEST_MESSAGE));
        let _ = writeln!(text, "  {attempt} on {worker}: {end}");
    }
    text
}

/// Columns of text, with nothing around them that would be in the way of `grep` and `awk`.
pub fn table(header: &[&str], colours: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let header = header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold));
    table.set_header(header.collect::<Vec<_>>());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if colours {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// The table as text, without the space that fills its last column.
pub fn finished(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn test_table(tests: &[TestResult], colours: bool) -> String {
    let mut table = table(&["TEST", "STATUS", "TIME", "MEMORY"], colours);
    for numbers in table.column_iter_mut().skip(2) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    for test in tests {
        table.add_row(Row::from(vec![
            Cell::new(escape::first_line(&test.test_id, LONGEST_ID)),
            Cell::new(test.status.as_str()).fg(colour(test.status)),
            Cell::new(format!("{} ms", test.execution_time_ms)),
            Cell::new(memory(test.memory_used_kb)),
        ]));
    }
    finished(&table)
}

fn colour(status: TestStatus) -> Color {
    if status == TestStatus::Passed { Color::Green } else { Color::Red }
}

pub fn memory(kb: u64) -> String {
    format!("{:.1} MB", kb as f64 / 1024.0)
}

fn explain(text: &mut String, test: &TestResult) {
    let id = escape::first_line(&test.test_id, LONGEST_ID);
    let _ = write!(text, "{id}: {}", test.status.as_str());
    if let Some(message) = test.error_message.as_deref().filter(|message| !message.trim().is_empty()) {
        let _ = write!(text, ": {}", escape::first_line(message, LONGEST_MESSAGE));
    }
    if test.status == TestStatus::WrongAnswer {
        text.push_str(&where_wrong(test));
    }
    if let Some(stderr) = test.stderr.as_deref().filter(|stderr| !stderr.trim().is_empty()) {
        let _ = write!(text, "\n  stderr:\n{}", tail(stderr, STDERR_LINES));
    }
    text.push_str("\n\n");
}

fn where_wrong(test: &TestResult) -> String {
    let Some(difference) = difference::first(&test.expected_output, &test.actual_output) else {
        return " (it differs only in bytes that are not text, and cannot be shown)".into();
    };
    let shown = |line: Option<String>| line.map_or("(no such line)".to_owned(), |line| format!("| {line}"));
    let (expected, actual) = (shown(difference.expected), shown(difference.actual));
    format!(" at line {}\n  expected {expected}\n  actual   {actual}", difference.line)
}

fn head(text: &str, longest: usize) -> String {
    let mut lines: Vec<_> = text.trim_end().lines().take(longest).map(indented).collect();
    if text.trim_end().lines().nth(longest).is_some() {
        lines.push("  …".into());
    }
    lines.join("\n")
}

fn tail(text: &str, longest: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(longest);
    let cut = (skipped > 0).then(|| "    …".to_owned());
    cut.into_iter()
        .chain(lines[skipped..].iter().map(|line| format!("  {}", indented(line))))
        .collect::<Vec<_>>()
        .join("\n")
}

fn indented(line: &str) -> String {
    let cut: String = line.chars().take(LONGEST_MESSAGE).collect();
    format!("  {}", escape::block(&cut))
}

#[cfg(test)]
mod tests;
