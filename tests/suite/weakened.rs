//! Switches one defence of the native sandbox off at a time. Each loss must show, or the suite could not see it.
//!
//! What one layer lets through, the next may still stop; so each probe looks at its layer itself where it can.

use std::time::{Duration, Instant};

use tribunal_worker::sandbox::native::Defence::{self, *};
use tribunal_worker::sandbox::{Exit, Outcome, RunLimits};

use crate::ground::{Ground, LIMITS, Run, text};
use crate::plants::SECRET_VARIABLE;
use crate::report::Report;
use crate::traces::processes_in;
use crate::world::{Kind, World, own_cgroup};

const DEFENCES: &[Defence] = &[
    Capabilities,
    CgroupNamespace,
    CleanEnvironment,
    ClosedDescriptors,
    CoreLimit,
    CpuLimit,
    EndOfEverybody,
    FileSizeLimit,
    IpcNamespace,
    Landlock,
    MemoryLimit,
    NetworkNamespace,
    NoNewPrivileges,
    OpenFilesLimit,
    OwnInodes,
    OwnProc,
    ProcessLimit,
    ReadOnlyRoot,
    ReadOnlyWorkspace,
    ScratchLimit,
    Seccomp,
    StackLimit,
    UnprivilegedUser,
    UserNamespace,
    UtsNamespace,
    WorkspaceLimit,
];

/// What must be off as well for a loss to show, because it does the same on the way.
fn masked_by(defence: Defence) -> &'static [Defence] {
    match defence {
        // Its library renounces privileges by itself.
        NoNewPrivileges => &[Landlock],
        _ => &[],
    }
}

/// A program, and how to tell from its outcome that a defence is there.
struct Probe {
    run: Run,
    holds: Box<dyn Fn(&Outcome) -> bool>,
}

/// The probe's own word for it is `True`.
fn says_true(expression: &str) -> Probe {
    let code = format!(
        "import os, resource\n\
         status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n\
         def raised(action):\n    try: action()\n    except OSError: return True\n\
         print(bool({expression}))"
    );
    Probe { run: Run::python(&code), holds: Box::new(|outcome| text(&outcome.stdout.bytes) == "True\n") }
}

/// It is in a namespace of its own, and not in the host's.
fn own_namespace(name: &str) -> Probe {
    let path = format!("/proc/self/ns/{name}");
    let host = std::fs::read_link(&path).expect("this process's namespace");
    says_true(&format!("os.readlink({path:?}) != {:?}", host.display().to_string()))
}

fn probe(defence: Defence) -> Probe {
    match defence {
        Capabilities => {
            says_true("all(int(status[name], 16) == 0 for name in ('CapBnd', 'CapPrm', 'CapEff', 'CapInh'))")
        }
        CgroupNamespace => says_true("all(line.endswith(':/\\n') for line in open('/proc/self/cgroup'))"),
        CleanEnvironment => says_true(&format!("{SECRET_VARIABLE:?} not in os.environ")),
        ClosedDescriptors => says_true("all(raised(lambda: os.fstat(number)) for number in range(3, 1024))"),
        CoreLimit => says_true("resource.getrlimit(resource.RLIMIT_CORE) == (1, 1)"),
        CpuLimit => Probe {
            run: Run {
                limits: RunLimits { cpus: 0.05, wall: Duration::from_millis(1000), ..LIMITS },
                ..Run::bash("while :; do :; done")
            },
            holds: Box::new(|outcome| outcome.cpu < Duration::from_millis(160)),
        },
        EndOfEverybody => Probe {
            run: Run::bash("setsid sleep 3 <&- >&- 2>&- &"),
            holds: Box::new(|_| processes_in(&own_cgroup()) == 0),
        },
        FileSizeLimit => says_true("resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY"),
        IpcNamespace => own_namespace("ipc"),
        // The file is the process's own, and on no read-only mount: nothing else forbids it.
        Landlock => says_true("raised(lambda: open('/proc/self/comm', 'w'))"),
        MemoryLimit => Probe {
            run: Run { limits: RunLimits { memory_mb: 32, ..LIMITS }, ..Run::python("x = b'x' * (100 << 20)") },
            holds: Box::new(|outcome| outcome.oom),
        },
        NetworkNamespace => own_namespace("net"),
        NoNewPrivileges => says_true("int(status['NoNewPrivs']) == 1"),
        OpenFilesLimit => says_true("resource.getrlimit(resource.RLIMIT_NOFILE) == (1024, 1024)"),
        OwnInodes => {
            use std::os::linux::fs::MetadataExt;
            let host = std::fs::metadata("/usr/bin/env").expect("every system has it");
            says_true(&format!(
                "(os.stat('/usr/bin/env').st_dev, os.stat('/usr/bin/env').st_ino) != ({}, {})",
                host.st_dev(),
                host.st_ino()
            ))
        }
        OwnProc => says_true("not os.path.exists('/proc/sys') and not os.path.exists('/proc/meminfo')"),
        ProcessLimit => Probe {
            run: Run {
                limits: RunLimits { processes: 10, ..LIMITS },
                ..Run::python("import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(60)")
            },
            holds: Box::new(|outcome| outcome.exit != Exit::Code(0)),
        },
        ReadOnlyRoot => says_true("os.statvfs('/').f_flag & os.ST_RDONLY and os.statvfs('/usr').f_flag & os.ST_RDONLY"),
        ReadOnlyWorkspace => says_true("os.statvfs('/workspace').f_flag & os.ST_RDONLY"),
        ScratchLimit => {
            let room = LIMITS.tmp_mb << 20;
            says_true(&format!(
                "all(os.statvfs(at).f_blocks * os.statvfs(at).f_bsize == {room} for at in ('/tmp', '/dev/shm'))"
            ))
        }
        Seccomp => says_true("int(status['Seccomp']) == 2"),
        StackLimit => {
            says_true(&format!("resource.getrlimit(resource.RLIMIT_STACK) == (8 << 20, {} << 20)", LIMITS.memory_mb))
        }
        UnprivilegedUser => says_true("int(open('/proc/self/uid_map').read().split()[1]) >= 2_000_000_000"),
        UserNamespace => own_namespace("user"),
        UtsNamespace => own_namespace("uts"),
        WorkspaceLimit => Probe {
            run: Run::python("for n in range(25): open(str(n), 'wb').write(b'x' * (4 << 20))").writing(),
            holds: Box::new(|outcome| outcome.exit != Exit::Code(0)),
        },
    }
}

pub async fn run(only: Option<&str>) -> Report {
    let kind = Kind::Native { root: "host".into() };
    let mut report = Report::new();
    let whole = Ground::new(World::start(&kind).await);
    let chosen = DEFENCES.iter().filter(|defence| only.is_none_or(|only| format!("{defence:?}").contains(only)));
    for &defence in chosen {
        let began = Instant::now();
        let with = look(&whole, defence).await;
        let without = match World::start_without(&kind, &[&[defence], masked_by(defence)].concat()).await {
            Ok(world) => look(&Ground::new(world), defence).await,
            // It refuses to work like that: nothing is noticed sooner.
            Err(error) => Err(error.to_string()),
        };
        let mut complaints = Vec::new();
        if let Err(found) = with {
            complaints.push(format!("the probe finds fault with the whole sandbox: {found}"));
        }
        if without.is_ok() {
            complaints.push("it is off, and the probe does not notice".into());
        }
        let found = if without.is_err() { "noticed" } else { "not noticed" };
        report.line(&format!("without {defence:?}"), found, began.elapsed(), &complaints);
    }
    whole.world.sandbox.settle().await;
    report
}

/// Whether the probe finds the defence in place; if not, what it found. That no run can be made at all is noticed as well.
async fn look(ground: &Ground, defence: Defence) -> Result<(), String> {
    let Probe { run, holds } = probe(defence);
    let workspace = ground.workspace().await;
    match ground.try_in(&workspace, run).await {
        Ok(outcome) if holds(&outcome) => Ok(()),
        Ok(outcome) => Err(format!("{outcome:?}")),
        Err(error) => Err(error.to_string()),
    }
}
