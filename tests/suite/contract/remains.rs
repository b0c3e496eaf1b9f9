//! What is left when a run is over: nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tribunal_worker::sandbox::Exit;

use crate::ground::{Ground, Run, printed};
use crate::traces::processes_with;

/// How long the unannounced may take.
const SOON: Duration = Duration::from_secs(15);

/// Prints what it finds, then leaves something everywhere.
const LITTER: &str = "import ctypes, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
found = [f for folder in ('/tmp', '/dev/shm') for f in os.listdir(folder)]
for name, made in (('shm', libc.shmget(77, 4096, 0o3666)), ('msg', libc.msgget(77, 0o3666)), ('sem', libc.semget(77, 1, 0o3666))):
    if made == -1: found.append(name)
own = socket.socket(socket.AF_UNIX)
try: own.bind('\\0contract')
except OSError: found.append('socket')
libc.shm_open(b'/contract', os.O_CREAT | os.O_RDWR, 0o666)
libc.mq_open(b'/contract', os.O_CREAT | os.O_RDWR, 0o666, None)
open('/tmp/contract', 'w').close()
if os.fork() == 0:
    os.setsid(); time.sleep(60)
time.sleep(PAUSE)
print('found', *found)
";

pub async fn nothing_survives_a_run(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    for run in [Run::python, |code: &str| Run::python(code).writing()] {
        for _ in 0..2 {
            let outcome = ground.run_in(&workspace, run(&LITTER.replace("PAUSE", "0"))).await;
            assert_eq!(printed(&outcome), "found\n");
        }
    }
}

pub async fn many_runs_at_once_do_not_meet(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    let run = Run::python(&LITTER.replace("PAUSE", "0.5"));
    for outcome in join_all((0..6).map(|_| ground.run_in(&workspace, run.clone()))).await {
        assert_eq!(printed(&outcome), "found\n");
    }
}

async fn soon(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A run of a program that sleeps and can be found; dropped when it was.
async fn drop_half_way(ground: &Arc<Ground>, mark: &str) -> std::path::PathBuf {
    let workspace = ground.workspace().await;
    let path = workspace.path().to_owned();
    let script = "trap '' TERM INT HUP; (setsid bash -c 'sleep 600; true' \"$0\" &); sleep 600; true";
    let run = Run::command(&["bash", "-c", script, mark]);
    let running = tokio::spawn({
        let ground = Arc::clone(ground);
        async move { ground.try_in(&workspace, run).await.map(drop) }
    });
    soon("it runs", || processes_with(mark) >= 2).await;
    running.abort();
    let _ = running.await;
    path
}

pub async fn a_run_that_is_dropped_leaves_no_process(ground: Arc<Ground>) {
    let mark = format!("mark-{}", uuid::Uuid::new_v4().simple());
    drop_half_way(&ground, &mark).await;
    soon("its processes are gone", || processes_with(&mark) == 0).await;
    assert_eq!(ground.run(Run::command(&["true"])).await.exit, Exit::Code(0));
}

pub async fn a_workspace_that_is_dropped_is_gone(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    let path = workspace.path().to_owned();
    workspace.write("source", b"x").unwrap();
    ground.run_in(&workspace, Run::bash("mkdir -p a/b/c; touch a/b/c/d").writing()).await;
    assert!(path.exists());
    drop(workspace);
    ground.world.sandbox.settle().await;
    assert!(!path.exists());
}

pub async fn settling_waits_for_what_was_dropped(ground: Arc<Ground>) {
    let mark = format!("mark-{}", uuid::Uuid::new_v4().simple());
    let path = drop_half_way(&ground, &mark).await;
    ground.world.sandbox.settle().await;
    assert_eq!(processes_with(&mark), 0, "nothing runs any more");
    assert!(!path.exists(), "the workspace is gone");
    // And it can be used again.
    assert_eq!(ground.run(Run::command(&["true"])).await.exit, Exit::Code(0));
}
