//! The Docker daemon under test, which `tests/run` started and only its scripts can start again.

use std::process::Command;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;
use std::collections::{BTreeSet, HashMap};

pub struct Daemon {
    pub host: String,
    pub image: String,
    control: String,
}

impl Daemon {
    /// `None` only if somebody wants it so, because others use the daemon too.
    pub fn from_environment() -> Option<Self> {
        const OPT_OUT: &str = "TEST_WITHOUT_DOCKER";
        if std::env::var_os(OPT_OUT).is_some() {
            eprintln!("chaos: without Docker, because {OPT_OUT} is set");
            return None;
        }
        let get = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: use tests/run, or set {OPT_OUT}"))
        };
        Some(Self { host: get("TEST_DOCKER_HOST"), image: get("TEST_IMAGE"), control: get("TEST_CONTROL") })
    }

    /// Returns when it is done: after a restart the daemon answers.
    pub fn control(&self, action: &str) {
        let output = Command::new(&self.control).args(["docker", action]).output().expect("the control script runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} docker {action}: {complaint}", self.control);
    }

    /// The containers of requests that were ours, ended ones too.
    pub async fn containers_of(&self, requests: &BTreeSet<String>) -> Vec<String> {
        const LABEL: &str = "tribunal.request";
        let docker = Docker::connect_with_host(&self.host).expect("the address of a daemon");
        let options = ListContainersOptionsBuilder::new().all(true).filters(&HashMap::from([("label", vec![LABEL])]));
        let containers = docker.list_containers(Some(options.build())).await.expect("the daemon answers");
        let ours = containers.into_iter().filter(|container| {
            let label = container.labels.as_ref().and_then(|labels| labels.get(LABEL));
            label.is_some_and(|request| requests.contains(request))
        });
        ours.filter_map(|container| container.id).collect()
    }
}
