//! Images: is the language's here, and if not, may it be fetched?

use std::collections::HashSet;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::Mutex;
use tribunal_shared::config::PullPolicy;

use super::super::SandboxError;
use super::{call, explain};

pub struct Images {
    docker: Docker,
    policy: PullPolicy,
    /// Those that are ready. The lock is held while one is pulled, so that nobody pulls it twice.
    ready: Mutex<HashSet<String>>,
}

impl Images {
    pub fn new(docker: Docker, policy: PullPolicy) -> Self {
        Self { docker, policy, ready: Mutex::default() }
    }

    /// Pulls the image if the policy wants that; once for the life of a worker.
    pub async fn prepare(&self, image: &str) -> Result<(), SandboxError> {
        let mut ready = self.ready.lock().await;
        if ready.contains(image) {
            return Ok(());
        }
        let pull = match self.policy {
            PullPolicy::Always => true,
            PullPolicy::IfNotPresent => !self.is_present(image).await?,
            PullPolicy::Never if self.is_present(image).await? => false,
            PullPolicy::Never => return Err(missing(image)),
        };
        if pull {
            self.pull(image).await?;
        }
        ready.insert(image.to_owned());
        Ok(())
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
        while let Some(step) = progress.next().await {
            let step = step.map_err(|error| SandboxError::Unfit {
                problem: format!("the image {image} cannot be pulled: {}", explain(&error)),
                remedy: "Check its name in the language's stanza, and the daemon's way to its registry".into(),
            })?;
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
