//! What the first process of a container reports at the end of stderr. `init/main.rs` writes it and describes it.

use std::time::Duration;

use super::super::Exit;

/// The executable that is process 1 of every container.
pub const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));
pub const NONCE_VARIABLE: &str = "TRIBUNAL_NONCE";
pub const NONCE_LENGTH: usize = 16;
pub const LENGTH: usize = NONCE_LENGTH + 1 + 4 + 4 * 8;

/// Known to us and to process 1, not to the program: what carries it was not written by the program.
pub struct Nonce(String);

impl Nonce {
    pub fn new() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self(random[..NONCE_LENGTH].to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, PartialEq)]
pub struct Report {
    pub exit: Exit,
    /// Of the program alone, as are CPU time and memory.
    pub wall: Duration,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
    pub oom: bool,
    /// Somebody outside of the container sent SIGTERM: we ourselves, or a daemon that shuts down.
    pub stopped: bool,
}

const STOPPED_FROM_OUTSIDE: u8 = 0x80;

impl Report {
    /// From the last bytes of stderr; `None` if they are not a report.
    pub fn parse(tail: &[u8], nonce: &Nonce) -> Option<Self> {
        let rest = tail.strip_prefix(nonce.0.as_bytes())?;
        let (kind, rest) = rest.split_first()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let value = i32::from_le_bytes(*value);
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let numbers: [[u8; 8]; 4] = numbers.try_into().ok()?;
        let [wall, cpu, peak_memory_bytes, oom_kills] = numbers.map(u64::from_le_bytes);
        let exit = match kind & !STOPPED_FROM_OUTSIDE {
            0 => Exit::Code(value),
            1 => Exit::Signal(value),
            2 => Exit::NotStarted(std::io::Error::from_raw_os_error(value).to_string()),
            _ => return None,
        };
        Some(Self {
            exit,
            wall: Duration::from_nanos(wall),
            cpu: Duration::from_nanos(cpu),
            peak_memory_bytes,
            oom: oom_kills > 0,
            stopped: kind & STOPPED_FROM_OUTSIDE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn init(nonce: &Nonce, script: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("init");
        std::fs::write(&path, INIT).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // In a pid namespace of its own, as in a container: it kills everybody else in there.
        let output = Command::new("unshare")
            .args(["--pid", "--fork"])
            .arg(&path)
            .args(["bash", "-c", script])
            .env(NONCE_VARIABLE, nonce.as_str())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        output.stderr
    }

    fn report(script: &str) -> Report {
        let nonce = Nonce::new();
        let stderr = init(&nonce, script);
        let tail = &stderr[stderr.len() - LENGTH..];
        Report::parse(tail, &nonce).unwrap_or_else(|| panic!("no report in {stderr:?}"))
    }

    #[test]
    fn an_exit_code_and_a_signal_of_the_same_number_are_told_apart() {
        assert_eq!(report("exit 139").exit, Exit::Code(139));
        assert_eq!(report("kill -SEGV $$").exit, Exit::Signal(11));
        assert_eq!(report("kill -ABRT $$").exit, Exit::Signal(6));
    }

    #[test]
    fn the_nonce_is_in_the_report_and_not_in_the_programs_environment() {
        let nonce = Nonce::new();
        let stderr = init(&nonce, "env >&2");
        let found = stderr.windows(NONCE_LENGTH).filter(|window| *window == nonce.as_str().as_bytes()).count();
        assert_eq!(found, 1);
    }

    #[test]
    fn what_the_program_leaves_behind_is_ended_before_the_report() {
        let began = std::time::Instant::now();
        let report = report("(trap '' TERM HUP; sleep 60 & sleep 60) & disown -a; exit 3");
        assert_eq!(report.exit, Exit::Code(3));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn told_to_end_it_ends_the_program_and_still_reports() {
        let began = std::time::Instant::now();
        let report = report("kill -TERM $PPID; sleep 60");
        assert_eq!((report.exit, report.stopped), (Exit::Signal(9), false), "the program asked for it itself");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn told_to_end_from_outside_it_says_so() {
        // The script sends it from the namespace that the container's is a child of, as a daemon does.
        let nonce = Nonce::new();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("init");
        std::fs::write(&path, INIT).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let script = r#"
            mkfifo "$1/started"
            unshare --pid --fork "$1/init" bash -c 'echo > "$0/started"; sleep 60' "$1" &
            read -r < "$1/started"
            kill -TERM "$(cat /proc/$!/task/$!/children)"
            wait
        "#;
        let output = Command::new("bash")
            .args(["-c", script, "script"])
            .arg(folder.path())
            .env(NONCE_VARIABLE, nonce.as_str())
            .output()
            .unwrap();
        let tail = output.stderr.len().saturating_sub(LENGTH);
        let report = Report::parse(&output.stderr[tail..], &nonce).unwrap_or_else(|| panic!("no report in {output:?}"));
        assert_eq!((report.exit, report.stopped), (Exit::Signal(9), true));
    }

    #[test]
    fn what_does_not_carry_the_nonce_is_no_report() {
        let (nonce, other) = (Nonce::new(), Nonce::new());
        let stderr = init(&nonce, "true");
        assert!(Report::parse(&stderr, &nonce).is_some());
        assert!(Report::parse(&stderr, &other).is_none());
        assert!(Report::parse(&stderr[1..], &nonce).is_none());
        assert!(Report::parse(&stderr[..LENGTH - 1], &nonce).is_none());
        assert!(Report::parse(&[], &nonce).is_none());
    }
}
