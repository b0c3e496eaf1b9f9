//! How a program begins and how it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tribunal_worker::sandbox::Exit;

use crate::ground::{Ground, Run, printed};

pub async fn an_exit_code_is_told_from_a_signal(ground: Arc<Ground>) {
    for code in [0, 1, 124, 127, 137, 139, 255] {
        assert_eq!(ground.run(Run::bash(&format!("exit {code}"))).await.exit, Exit::Code(code));
    }
    for (name, number) in [("SEGV", 11), ("ABRT", 6), ("KILL", 9), ("TERM", 15), ("FPE", 8), ("PIPE", 13), ("USR1", 10)]
    {
        let outcome = ground.run(Run::bash(&format!("kill -{name} $$"))).await;
        assert_eq!((outcome.exit, outcome.killed, outcome.oom), (Exit::Signal(number), None, false), "{name}");
    }
}

pub async fn a_command_that_cannot_be_started_says_why(ground: Arc<Ground>) {
    let workspace = ground.workspace().await;
    workspace.write("text", b"not a program").unwrap();
    workspace.write("dangling", b"#!/no/such/interpreter\n").unwrap();
    let outcome =
        ground.run_in(&workspace, Run::bash("cp dangling script; chmod +x script; mkdir folder").writing()).await;
    assert_eq!(outcome.exit, Exit::Code(0));
    for (command, reason) in [
        ("./absent", "No such file"),
        ("absent-from-the-path", "No such file"),
        ("/absent/too", "No such file"),
        ("./text", "Permission denied"),
        ("./folder", "Permission denied"),
        ("./script", "No such file"),
        ("./text/inside", "Not a directory"),
    ] {
        let outcome = ground.run_in(&workspace, Run::command(&[command])).await;
        match outcome.exit {
            Exit::NotStarted(told) => {
                assert!(told.contains(reason) || reason == "Not a directory", "{command}: {told}")
            }
            other => panic!("{command}: {other:?}"),
        }
    }
}

pub async fn a_child_that_is_left_keeps_nobody_waiting(ground: Arc<Ground>) {
    let began = Instant::now();
    let outcome = ground.run(Run::bash("(setsid sleep 60 & setsid sleep 60 >/dev/null 2>&1 &); echo over")).await;
    assert_eq!(printed(&outcome), "over\n");
    assert!(outcome.wall < Duration::from_secs(10) && began.elapsed() < Duration::from_secs(15), "{outcome:?}");
}

pub async fn the_environment_is_what_was_asked_for_and_little_else(ground: Arc<Ground>) {
    let own = BTreeMap::from([("OWN".to_owned(), "of the language\nwith = and 'quotes'".to_owned())]);
    let outcome = ground.run(Run { environment: own.clone(), ..Run::command(&["env", "-0"]) }).await;
    let printed = printed(&outcome);
    let mut found: BTreeMap<_, _> = printed.split_terminator('\0').filter_map(|pair| pair.split_once('=')).collect();
    assert_eq!(found.remove("OWN"), Some(own["OWN"].as_str()));
    assert_eq!((found.remove("HOME"), found.remove("LANG")), (Some("/tmp"), Some("C.UTF-8")));
    assert!(found.remove("PATH").is_some_and(|path| path.contains("/usr/bin")));
    assert_eq!(found.remove("HOSTNAME"), Some("sandbox"));
    assert_eq!(found, BTreeMap::new(), "nothing else");
}

pub async fn arguments_arrive_as_they_are(ground: Arc<Ground>) {
    let outcome = ground.run(Run::command(&["printf", "%s|", "a b", "", "$HOME", "*", "'\"\\", "é\n"])).await;
    assert_eq!(printed(&outcome), "a b||$HOME|*|'\"\\|é\n|");
}

pub async fn it_runs_in_the_workspace_as_nobody_special(ground: Arc<Ground>) {
    let outcome =
        ground.run(Run::bash("pwd; umask; [[ $(id -u) != 0 && $(id -g) != 0 ]] && echo unprivileged; hostname")).await;
    let outcome = printed(&outcome);
    let lines: Vec<_> = outcome.lines().collect();
    assert_eq!(lines, ["/workspace", "0022", "unprivileged", "sandbox"]);
}
