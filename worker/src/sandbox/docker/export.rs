//! The files of an image, through a container that is never started.

use std::io;

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use futures_util::{Stream, StreamExt};
use tokio_util::bytes::Bytes;
use tribunal_shared::config::DockerSettings;

use super::super::SandboxError;
use super::images::Images;
use super::{call, explain, greet, remove};

/// An image that the daemon has.
pub struct Fetched {
    docker: Docker,
    image: String,
}

/// The image is pulled if it is not here and may be. That can take long, and can be cut short.
pub async fn fetch(image: &str, settings: &DockerSettings) -> Result<Fetched, SandboxError> {
    let (docker, _) = greet(settings).await?;
    Images::new(docker.clone(), settings.pull_policy).prepare(image).await?;
    Ok(Fetched { docker, image: image.to_owned() })
}

/// A container, to be removed.
pub struct Export {
    docker: Docker,
    container: String,
    environment: Vec<String>,
}

impl Fetched {
    pub async fn export(self) -> Result<Export, SandboxError> {
        let Self { docker, image } = self;
        let config = call("looking at an image", docker.inspect_image(&image)).await?.config.unwrap_or_default();
        let body = ContainerCreateBody {
            image: Some(image),
            // An image need not name a command, but a container must.
            cmd: Some(vec!["true".into()]),
            entrypoint: Some(Vec::new()),
            network_disabled: Some(true),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptionsBuilder::new().build();
        let container = call("creating a container", docker.create_container(Some(options), body)).await?.id;
        Ok(Export { docker, container, environment: config.env.unwrap_or_default() })
    }
}

impl Export {
    /// What the image sets, as `KEY=VALUE`; each is one line.
    pub fn environment(&self) -> Vec<&str> {
        let sound = |variable: &&str| variable.contains('=') && !variable.contains(['\n', '\0']);
        self.environment.iter().map(String::as_str).filter(sound).collect()
    }

    /// A tar archive.
    pub fn stream(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let docker = self.docker.clone();
        let container = self.container.clone();
        let chunks = docker.export_container(&container);
        chunks.map(|chunk| chunk.map_err(|error| io::Error::other(explain(&error))))
    }

    pub async fn remove(self) -> Result<(), SandboxError> {
        remove(&self.docker, &self.container).await
    }
}
