//! What brings down every worker that takes it, or what none understands, is put aside; its neighbours are judged.

use lapin::options::ConfirmSelectOptions;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground, PATIENCE, Worker};

#[tokio::test]
async fn after_so_many_deaths_it_is_a_dead_letter_with_a_history_and_can_be_brought_back() {
    const DEATHS: u32 = 3;
    const DIES_OF_IT: &str = "test_started@poison-";
    let mut fleet = Fleet::on(Ground::Host, &format!("worker.max_attempts = {DEATHS}\nworker.slots = 2\n")).await;
    let settings = fleet.settings_file();
    let innocent = || request("bash", "echo innocent", &[("", "innocent")]);
    let mut neighbours = Vec::new();
    for _ in 0..3 {
        neighbours.push(fleet.client.submit(innocent()).await.unwrap());
    }
    let id = format!("poison-{}", uuid::Uuid::new_v4().simple());
    let mut poison = request("bash", "sleep 0.5; echo fine", &[("", "fine")]);
    poison.request_id = Some(id.clone());
    let id = fleet.client.submit(poison).await.unwrap();
    for _ in 0..3 {
        neighbours.push(fleet.client.submit(innocent()).await.unwrap());
    }

    for _ in 0..DEATHS {
        let mut worker = Worker::start_failing(&settings, DIES_OF_IT);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&worker.wait()), Some(9), "{}", worker.log());
    }
    // One that would die of it as well, and does not, because it is not run any more.
    let mut survivor = Worker::start_failing(&settings, DIES_OF_IT);
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::SandboxError, "{result:?}");
    let numbers: Vec<_> = result.attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (1..=DEATHS).collect::<Vec<_>>(), "{result:?}");
    let mut workers: Vec<_> = result.attempts.iter().map(|attempt| attempt.worker.as_str()).collect();
    workers.dedup();
    assert_eq!(workers.len(), DEATHS as usize, "{result:?}");
    for neighbour in &neighbours {
        let result = fleet.client.wait(neighbour, Some(PATIENCE)).await.unwrap().expect("a result");
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    }
    let letters = fleet.client.dead_letters(10).await.unwrap();
    let [letter] = letters.as_slice() else { panic!("one dead letter: {letters:?}") };
    assert_eq!((letter.id.as_deref(), &letter.attempts), (Some(id.as_str()), &result.attempts));

    // Mended: it comes back.
    survivor.signal("TERM");
    assert!(survivor.wait().success(), "{}", survivor.log());
    let requeued = fleet.cli().args(["dead", "requeue", id.as_str()]).output().expect("tribunal runs");
    assert!(requeued.status.success(), "{requeued:?}");
    fleet.start_worker();
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
    assert_eq!(fleet.client.dead_letters(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_message_of_a_version_that_nobody_knows_is_kept_for_those_who_do() {
    let fleet = Fleet::started_on(Ground::Host).await;
    let tomorrows = serde_json::to_vec(&request("bash", "echo 1", &[("", "1")])).unwrap();
    let connection = Connection::connect(&fleet.services.amqp, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let queue = format!("{}.requests", fleet.settings.queue.name);
    let properties = BasicProperties::default().with_type("tomorrow's request".into());
    let published = channel.basic_publish("".into(), queue.into(), Default::default(), &tomorrows, properties);
    published.await.unwrap().await.unwrap();

    fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
    let depth = tokio::time::timeout(PATIENCE, async {
        loop {
            let depth = fleet.client.depth().await.unwrap();
            if depth.parked > 0 {
                return depth;
            }
        }
    });
    let depth = depth.await.expect("it is parked");
    assert_eq!((depth.ready, depth.parked, depth.dead), (0, 1, 0), "{depth:?}");
}

#[tokio::test]
async fn a_bug_of_ours_is_our_failure_and_keeps_nobody_waiting() {
    let fleet = Fleet::on(Ground::Host, "worker.max_attempts = 2\nworker.slots = 2\n").await;
    let worker = Worker::start_failing(&fleet.settings_file(), "test_ended!panic-");
    let mut poison = request("bash", "echo fine", &[("", "fine")]);
    poison.request_id = Some(format!("panic-{}", uuid::Uuid::new_v4().simple()));
    let given_up = fleet.judge(poison).await;
    assert_eq!(given_up.status, ExecutionStatus::SandboxError, "{given_up:?}\n{}", worker.log());
    let ends: Vec<_> = given_up.attempts.iter().map(|attempt| attempt.end.as_str()).collect();
    assert!(ends.len() == 2 && ends.iter().all(|end| end.contains("panicked")), "{ends:?}");
    let next = fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
    assert_eq!(next.status, ExecutionStatus::AllPassed, "{next:?}\n{}", worker.log());
}

#[tokio::test]
async fn whoever_has_the_id_of_another_is_kept_apart_from_it() {
    let mut fleet = Fleet::on(Ground::Host, "").await;
    let owner = request("bash", "sleep 0.5; echo 1", &[("", "1")]);
    let id = fleet.client.submit(owner.clone()).await.unwrap();
    let mut other = request("bash", "echo other", &[("", "1")]);
    other.request_id = owner.request_id;
    let connection = Connection::connect(&fleet.services.amqp, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (queue, body) = (format!("{}.requests", fleet.settings.queue.name), serde_json::to_vec(&other).unwrap());
    let published = channel.basic_publish("".into(), queue.into(), Default::default(), &body, Default::default());
    published.await.unwrap().await.unwrap();
    fleet.start_worker();
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    let buried = async { while fleet.client.depth().await.unwrap().dead == 0 {} };
    tokio::time::timeout(PATIENCE, buried).await.expect("the other one is put aside");
    let requeued = fleet.cli().args(["dead", "requeue", id.as_str()]).output().expect("tribunal runs");
    assert_eq!(requeued.status.code(), Some(2), "the letter does not go by that id: {requeued:?}");
    assert!(fleet.client.dead_letters(1).await.unwrap()[0].key().starts_with("body-"));
    assert_eq!(fleet.client.wait(&id, Some(PATIENCE)).await.unwrap(), Some(result));
}
