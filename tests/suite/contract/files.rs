//! What can be read and written.

use std::sync::Arc;

use tribunal_worker::sandbox::{Exit, Killed};

use crate::ground::{Ground, Run, printed};

pub async fn a_program_may_write_to_scratch_alone(ground: Arc<Ground>) {
    let script = "for folder in / /etc /usr /usr/bin /var/tmp /workspace /tmp /dev/shm; do \
                      [[ -d $folder ]] && touch $folder/attempt 2>/dev/null && echo $folder; \
                  done; true";
    assert_eq!(printed(&ground.run(Run::bash(script)).await), "/tmp\n/dev/shm\n");
    assert_eq!(printed(&ground.run(Run::bash(script).writing()).await), "/workspace\n/tmp\n/dev/shm\n");
}

pub async fn what_a_compiler_leaves_is_there_for_the_programs(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    workspace.write("source", b"echo compiled").unwrap();
    let compile = "mkdir -p sub/sub && (echo '#!/bin/bash'; cat source) > sub/sub/program && chmod 755 sub/sub/program";
    let outcome = ground.run_in(&workspace, Run::bash(compile).writing()).await;
    assert_eq!(outcome.exit, Exit::Code(0));
    for _ in 0..2 {
        let outcome = ground.run_in(&workspace, Run::command(&["./sub/sub/program"])).await;
        assert_eq!(printed(&outcome), "compiled\n");
        let outcome = ground.run_in(&workspace, Run::bash("echo x > sub/sub/program || echo x > new")).await;
        assert_ne!(outcome.exit, Exit::Code(0));
    }
}

pub async fn files_of_any_kind_may_be_left(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    let path = workspace.path().to_owned();
    let code = "import os, socket\n\
                os.symlink('/etc/passwd', 'link'); os.symlink('nowhere', 'dangling'); os.symlink('.', 'loop')\n\
                os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')\n\
                open('one', 'w').write('1'); os.link('one', 'two')\n\
                os.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 60 << 20)\n\
                os.makedirs('/'.join('d' * 20)); open('/'.join('d' * 20) + '/leaf', 'w').write('deep')\n\
                os.mkdir('shut', 0o700); open('shut/file', 'w').close(); os.chmod('shut', 0)\n\
                print('left')";
    let outcome = ground.run_in(&workspace, Run::python(code).writing()).await;
    assert_eq!(printed(&outcome), "left\n");
    let look = "readlink link dangling; cat two; stat -c %s sparse; cat $(printf 'd/%.0s' {1..20})leaf";
    let outcome = ground.run_in(&workspace, Run::bash(look)).await;
    assert_eq!(printed(&outcome), "/etc/passwd\nnowhere\n162914560\ndeep");
    drop(workspace);
    ground.world.sandbox.settle().await;
    assert!(!path.exists(), "{} is still there", path.display());
}

pub async fn too_much_in_the_workspace_ends_the_compiler(ground: Arc<Ground>) {
    for code in [
        "while True: open('big', 'ab').write(b'x' * (1 << 20))",
        "import itertools\nfor n in itertools.count(): open(str(n), 'wb').write(b'x' * (4 << 20))",
        "import itertools\nfor n in itertools.count(): open(str(n), 'wb').close()",
    ] {
        let outcome = ground.run(Run::python(code).writing()).await;
        // By being killed, or by an error that it does not handle.
        assert!(matches!(outcome.killed, None | Some(Killed::Disk)), "{outcome:?}");
        assert_ne!(outcome.exit, Exit::Code(0), "{code}");
    }
}

pub async fn the_source_is_read_only(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    workspace.write("source", b"as it was").unwrap();
    let script = "(echo x > source) 2>/dev/null; chmod 777 source 2>/dev/null; cat source";
    for run in [Run::bash(script), Run::bash(script).writing()] {
        assert_eq!(printed(&ground.run_in(&workspace, run).await), "as it was");
    }
}
