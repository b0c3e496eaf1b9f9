//! What goes in and what comes out.

use std::sync::Arc;

use tribunal_worker::sandbox::{Exit, Killed, OnOverflow, RunLimits};

use crate::ground::{Ground, LIMITS, Run, printed, text};

pub async fn input_arrives_and_ends(ground: Arc<Ground>) {
    assert_eq!(printed(&ground.run(Run::command(&["cat"])).await), "");
    let stdin = b"no newline at the end, \0 and \xff".to_vec();
    let outcome = ground.run(Run { stdin: stdin.clone(), ..Run::command(&["cat"]) }).await;
    assert_eq!((outcome.exit, outcome.stdout.bytes), (Exit::Code(0), stdin));
}

pub async fn large_input_arrives_whole(ground: Arc<Ground>) {
    let stdin = vec![b'x'; 8 << 20];
    let outcome = ground.run(Run { stdin, ..Run::bash("wc -c") }).await;
    assert_eq!(printed(&outcome).trim(), (8 << 20).to_string());
}

pub async fn input_that_nobody_reads_harms_nobody(ground: Arc<Ground>) {
    let stdin = vec![b'x'; 8 << 20];
    for script in ["echo fine", "exec <&-; echo fine", "head -c 10 >/dev/null; exec <&-; sleep 0.1; echo fine"] {
        let outcome = ground.run(Run { stdin: stdin.clone(), ..Run::bash(script) }).await;
        assert_eq!(printed(&outcome), "fine\n", "{script}");
    }
}

pub async fn streams_are_apart_and_exact(ground: Arc<Ground>) {
    let outcome = ground.run(Run::bash(r"printf 'out\0\377\n'; printf 'err\r\n' >&2")).await;
    assert_eq!((outcome.exit, outcome.killed), (Exit::Code(0), None));
    assert_eq!((outcome.stdout.bytes, outcome.stderr.bytes), (b"out\0\xff\n".to_vec(), b"err\r\n".to_vec()));
    assert!(!outcome.stdout.truncated && !outcome.stderr.truncated);
}

/// Programs in some languages know no other way.
pub async fn the_streams_can_be_opened_by_name(ground: Arc<Ground>) {
    let script = "cat /dev/stdin > /dev/stdout; echo said > /dev/stderr";
    let outcome = ground.run(Run { stdin: b"read".to_vec(), ..Run::bash(script) }).await;
    assert_eq!(printed(&outcome), "read");
    assert_eq!(text(&outcome.stderr.bytes), "said\n");
}

fn writes(stream: u8, bytes: usize) -> Run {
    let code = format!("import os\nleft = {bytes}\nwhile left: left -= os.write({stream}, b'x' * min(left, 4096))");
    Run { limits: RunLimits { output_bytes: 10_000, ..LIMITS }, ..Run::python(&code) }
}

pub async fn output_at_the_limit_is_whole(ground: Arc<Ground>) {
    for stream in [1, 2] {
        let outcome = ground.run(writes(stream, 10_000)).await;
        let (full, empty) =
            if stream == 1 { (outcome.stdout, outcome.stderr) } else { (outcome.stderr, outcome.stdout) };
        assert_eq!((outcome.exit, outcome.killed), (Exit::Code(0), None));
        assert_eq!((full.bytes.len(), full.truncated, empty.bytes.len()), (10_000, false, 0));
    }
}

pub async fn output_over_the_limit_ends_the_program(ground: Arc<Ground>) {
    for stream in [1, 2] {
        let outcome = ground.run(writes(stream, 100 << 20)).await;
        let full = if stream == 1 { outcome.stdout } else { outcome.stderr };
        assert_eq!((full.bytes.len(), full.truncated), (10_000, true));
        assert_eq!((outcome.killed, outcome.exit), (Some(Killed::Output), Exit::Unknown));
    }
    // One byte over may be noticed only when all is over; but it is noticed.
    let outcome = ground.run(writes(1, 10_001)).await;
    assert_eq!((outcome.stdout.bytes.len(), outcome.stdout.truncated), (10_000, true));
}

pub async fn output_over_the_limit_can_be_forgotten_instead(ground: Arc<Ground>) {
    for stream in [1, 2] {
        let mut run = writes(stream, 1 << 20);
        run.limits.on_overflow = OnOverflow::Discard;
        let outcome = ground.run(run).await;
        let full = if stream == 1 { outcome.stdout } else { outcome.stderr };
        assert_eq!((outcome.exit, outcome.killed), (Exit::Code(0), None));
        assert_eq!((full.bytes.len(), full.truncated), (10_000, true));
    }
}

pub async fn both_streams_flow_at_once(ground: Arc<Ground>) {
    let script = "for i in {1..200}; do printf '%0300d' 1; printf '%0300d' 2 >&2; done; cat";
    let outcome = ground.run(Run { stdin: vec![b'3'; 5000], ..Run::bash(script) }).await;
    assert_eq!((outcome.exit, outcome.killed), (Exit::Code(0), None));
    assert_eq!((outcome.stdout.bytes.len(), outcome.stderr.bytes.len()), (65_000, 60_000));
}
