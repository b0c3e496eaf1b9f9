//! What a program may use, and what is said about what it used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tribunal_worker::sandbox::{Exit, Killed, RunLimits};

use crate::ground::{Ground, LIMITS, Run, printed};

const MIB: u64 = 1 << 20;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub async fn wall_time_over_the_limit_ends_it_soon(ground: Arc<Ground>) {
    for script in ["sleep 60", "while :; do :; done", "trap '' TERM INT HUP; sleep 60", "kill -STOP $$"] {
        let began = Instant::now();
        let limits = RunLimits { wall: ms(500), ..LIMITS };
        let outcome = ground.run(Run { limits, ..Run::bash(script) }).await;
        assert_eq!(
            (outcome.killed, outcome.exit, outcome.oom),
            (Some(Killed::WallTime), Exit::Unknown, false),
            "{script}"
        );
        // How soon exactly is for a bench to say; the machine may be busy.
        assert!(outcome.wall >= ms(500) && outcome.wall < ms(3000), "{script}: {:?}", outcome.wall);
        assert!(began.elapsed() < ms(10_000), "{script}: {:?}", began.elapsed());
    }
}

pub async fn wall_time_is_the_programs_alone(ground: Arc<Ground>) {
    let outcome = ground.run(Run::command(&["sleep", "0.3"])).await;
    assert!(outcome.wall >= ms(300) && outcome.wall < ms(1500), "{:?}", outcome.wall);
}

pub async fn cpu_time_of_children_counts(ground: Arc<Ground>) {
    let code = "import os, time\n\
                def burn():\n    end = time.process_time() + 0.3\n    while time.process_time() < end: pass\n\
                for _ in range(2):\n    child = os.fork()\n    if child == 0:\n        burn()\n        os._exit(0)\n    \
                os.waitpid(child, 0)\n\
                burn()";
    let outcome = ground.run(Run::python(code)).await;
    assert_eq!(outcome.exit, Exit::Code(0));
    assert!(outcome.cpu >= ms(850) && outcome.cpu < ms(2500), "{:?}", outcome.cpu);
}

pub async fn sleeping_costs_no_cpu_time(ground: Arc<Ground>) {
    let outcome = ground.run(Run::command(&["sleep", "0.5"])).await;
    assert!(outcome.cpu < ms(200), "{:?}", outcome.cpu);
}

pub async fn peak_memory_is_plausible(ground: Arc<Ground>) {
    let outcome = ground.run(Run::command(&["true"])).await;
    assert!((1..32 * MIB).contains(&outcome.peak_memory_bytes), "{}", outcome.peak_memory_bytes);
    let outcome = ground.run(Run::python("x = b'x' * (100 << 20); del x")).await;
    assert!((100 * MIB..160 * MIB).contains(&outcome.peak_memory_bytes), "{}", outcome.peak_memory_bytes);
}

pub async fn memory_of_one_run_is_not_counted_for_the_next(ground: Arc<Ground>) {
    for _ in 0..3 {
        let greedy =
            ground.run(Run::python("open('/tmp/x', 'wb').write(b'x' * (14 << 20)); x = b'x' * (150 << 20)")).await;
        assert_eq!((greedy.exit, greedy.oom), (Exit::Code(0), false));
        let modest = ground.run(Run { limits: RunLimits { memory_mb: 16, ..LIMITS }, ..Run::command(&["true"]) }).await;
        assert_eq!((modest.exit, modest.oom), (Exit::Code(0), false));
        assert!(modest.peak_memory_bytes < 16 * MIB, "{}", modest.peak_memory_bytes);
    }
}

pub async fn want_of_memory_is_told(ground: Arc<Ground>) {
    let limits = RunLimits { memory_mb: 32, ..LIMITS };
    let eat = "x = b'x' * (100 << 20)";
    let outcome = ground.run(Run { limits, ..Run::python(eat) }).await;
    assert!(outcome.oom && outcome.killed.is_none(), "{outcome:?}");
    assert_ne!(outcome.exit, Exit::Code(0));
    // Also if it is a child that pays for it, and its parent says nothing.
    let outcome = ground.run(Run { limits, ..Run::bash(&format!("python3 -c \"{eat}\"; exit 0")) }).await;
    assert!(outcome.oom, "{outcome:?}");
    // And not if it was merely much.
    let outcome = ground.run(Run { limits, ..Run::python("x = b'x' * (8 << 20)") }).await;
    assert_eq!((outcome.exit, outcome.oom), (Exit::Code(0), false));
}

pub async fn processes_are_limited(ground: Arc<Ground>) {
    let code = "import os, time\n\
                count = 1\n\
                while True:\n    \
                    try:\n        child = os.fork()\n    except BlockingIOError:\n        break\n    \
                    if child == 0: time.sleep(60)\n    count += 1\n\
                print(count)";
    for processes in [1, 10] {
        let limits = RunLimits { processes, ..LIMITS };
        let outcome = ground.run(Run { limits, ..Run::python(code) }).await;
        assert_eq!(printed(&outcome).trim(), processes.to_string());
    }
}

pub async fn a_share_of_a_processor_is_not_exceeded(ground: Arc<Ground>) {
    let limits = RunLimits { cpus: 0.2, wall: ms(1500), ..LIMITS };
    let outcome = ground.run(Run { limits, ..Run::bash("while :; do :; done & while :; do :; done") }).await;
    assert_eq!(outcome.killed, Some(Killed::WallTime));
    assert!(outcome.cpu < ms(750), "a fifth of 1.5 s, and something for the beginning: {:?}", outcome.cpu);
}

pub async fn scratch_space_is_as_large_as_asked_for(ground: Arc<Ground>) {
    for tmp_mb in [4, 16] {
        for folder in ["/tmp", "/dev/shm"] {
            let script = format!("dd if=/dev/zero of={folder}/x bs=1M 2>/dev/null; stat -c %s {folder}/x");
            let outcome = ground.run(Run { limits: RunLimits { tmp_mb, ..LIMITS }, ..Run::bash(&script) }).await;
            assert_eq!(printed(&outcome).trim(), (tmp_mb * MIB).to_string(), "{folder}");
        }
    }
}
