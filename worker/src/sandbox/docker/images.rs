//! Images: is the language's here, and if not, may it be fetched?

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tribunal_shared::config::PullPolicy;

use super::super::SandboxError;
use super::{call, explain};

/// A registry that says nothing for this long has forgotten us.
const PROGRESS_WITHIN: Duration = Duration::from_secs(300);

pub struct Images {
    docker: Docker,
    policy: PullPolicy,
    /// One cell for each image, filled when it is ready: whoever needs it meanwhile waits, and nobody pulls it twice.
    ready: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

impl Images {
    pub fn new(docker: Docker, policy: PullPolicy) -> Self {
        Self { docker, policy, ready: Mutex::default() }
    }

    fn ready(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<()>>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pulls the image if the policy wants that; once, until it is forgotten.
    pub async fn prepare(&self, image: &str) -> Result<(), SandboxError> {
        let cell = Arc::clone(self.ready().entry(image.to_owned()).or_default());
        cell.get_or_try_init(|| self.fetch(image)).await.copied()
    }

    /// Something went wrong with it: perhaps somebody removed it.
    pub fn forget(&self, image: &str) {
        self.ready().remove(image);
    }

    async fn fetch(&self, image: &str) -> Result<(), SandboxError> {
        let pull = match self.policy {
            PullPolicy::Always => true,
            PullPolicy::IfNotPresent => !self.is_present(image).await?,
            PullPolicy::Never if self.is_present(image).await? => false,
            PullPolicy::Never => return Err(missing(image)),
        };
        if pull { self.pull(image).await } else { Ok(()) }
    }

    /// Says where the image is, without fetching it.
    pub async fn look_for(&self, image: &str) -> Result<String, SandboxError> {
        match (self.is_present(image).await?, self.policy) {
            (true, _) => Ok(format!("{image} is present")),
            (false, PullPolicy::Never) => Err(missing(image)),
            (false, _) => Ok(format!("{image} is not present; it is pulled on first use")),
        }
    }

    async fn is_present(&self, image: &str) -> Result<bool, SandboxError> {
        let inspected = async {
            match self.docker.inspect_image(image).await {
                Ok(_) => Ok(true),
                Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        call("looking for an image", inspected).await
    }

    async fn pull(&self, image: &str) -> Result<(), SandboxError> {
        tracing::info!(image, "pulling");
        let options = CreateImageOptionsBuilder::new().from_image(image).build();
        let mut progress = self.docker.create_image(Some(options), None, None);
        let mut layers = HashSet::new();
        let failed = |reason: String| SandboxError::Unfit {
            problem: format!("the image {image} cannot be pulled: {reason}"),
            remedy: "Check its name in the language's stanza, and the daemon's way to its registry".into(),
        };
        let silent = |_| failed(format!("no progress for {} s", PROGRESS_WITHIN.as_secs()));
        while let Some(step) = timeout(PROGRESS_WITHIN, progress.next()).await.map_err(silent)? {
            let step = step.map_err(|error| failed(explain(&error)))?;
            if step.status.as_deref() == Some("Pull complete") {
                layers.insert(step.id);
                tracing::info!(image, layers = layers.len(), "pulling");
            }
        }
        tracing::info!(image, "pulled");
        Ok(())
    }
}

fn missing(image: &str) -> SandboxError {
    SandboxError::Unfit {
        problem: format!("the image {image} is not present, and sandbox.docker.pull_policy is never"),
        remedy: format!("Run `docker pull {image}`, or change the policy or the language's image"),
    }
}
