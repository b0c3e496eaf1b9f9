//! A progress bar on stderr while a request is on its way, if somebody is there to see it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tribunal_shared::result::TestStatus;
use tribunal_shared::store::Event;

use super::escape;

const REDRAW: Duration = Duration::from_millis(100);
const LONGEST_NAME: usize = 60;

pub struct Progress {
    bar: ProgressBar,
    failed: usize,
}

impl Progress {
    /// Draws nothing unless stderr is a terminal.
    pub fn start(message: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(waiting());
        bar.set_message(message);
        bar.enable_steady_tick(REDRAW);
        Self { bar, failed: 0 }
    }

    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Queued => self.bar.set_message("queued"),
            Event::Running { worker, attempt } => self.restart(worker, *attempt),
            Event::Compiled { time_ms } => self.bar.set_message(format!("compiled in {time_ms} ms")),
            Event::Test { total, status, .. } => self.advance(*total, *status),
            Event::GivenBack { .. } => self.bar.set_message("queued again"),
            Event::Done { .. } => {}
        }
    }

    /// The first worker, or one that starts anew after another was lost.
    fn restart(&mut self, worker: &str, attempt: u32) {
        self.failed = 0;
        self.bar.reset();
        self.bar.set_style(waiting());
        let worker = escape::first_line(worker, LONGEST_NAME);
        self.bar.set_message(match attempt {
            1 => format!("running on {worker}"),
            _ => format!("running again on {worker}, attempt {attempt}"),
        });
    }

    fn advance(&mut self, total: usize, status: TestStatus) {
        if self.bar.position() == 0 {
            self.bar.set_length(total as u64);
            self.bar.set_style(counting());
        }
        self.failed += usize::from(status != TestStatus::Passed);
        self.bar.inc(1);
        self.bar.set_message(match self.failed {
            0 => String::new(),
            failed => format!("{failed} failed"),
        });
    }
}

/// The bar leaves nothing behind, however the wait for it ends.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn waiting() -> ProgressStyle {
    style("{spinner} {msg} {elapsed}", ProgressStyle::default_spinner())
}

fn counting() -> ProgressStyle {
    style("{bar:30} {pos}/{len} tests {msg}", ProgressStyle::default_bar())
}

fn style(template: &str, otherwise: ProgressStyle) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(status: TestStatus) -> Event {
        let test_id = "t".to_owned();
        Event::Test { index: 0, total: 3, test_id, status, execution_time_ms: 1, memory_used_kb: 1 }
    }

    #[test]
    fn a_second_worker_starts_from_the_beginning() {
        let mut progress = Progress::start("x");
        let running = |attempt| Event::Running { worker: "w\x1b".into(), attempt };
        progress.show(&running(1));
        progress.show(&test(TestStatus::Passed));
        progress.show(&test(TestStatus::Timeout));
        assert_eq!((progress.bar.position(), progress.bar.length(), progress.failed), (2, Some(3), 1));
        progress.show(&running(2));
        assert_eq!((progress.bar.position(), progress.failed), (0, 0));
        assert_eq!(progress.bar.message(), "running again on w\\u{1b}, attempt 2");
    }

    #[test]
    fn the_templates_are_valid() {
        for template in ["{spinner} {msg} {elapsed}", "{bar:30} {pos}/{len} tests {msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
