//! What is put on the host for programs to find, to change or to reach, if they can: secrets, canaries and listeners.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::world::open_to_all;

pub const SECRET_VARIABLE: &str = "SUITE_PLANTED";
/// Programs may know how a secret begins, not how it goes on.
const BEGINNING: &str = "planted-";
const CANARY: &str = "the canary is well\n";

pub fn new_secret() -> String {
    format!("{BEGINNING}{}", uuid::Uuid::new_v4().simple())
}

pub struct Plants {
    pub secret: String,
    /// Files with the secret, open to every user.
    secrets: Vec<NamedTempFile>,
    canaries: PathBuf,
    untouched: Vec<Canary>,
    abstract_name: String,
    abstract_socket: UnixListener,
    named_socket: UnixListener,
    tcp: TcpListener,
}

#[derive(PartialEq)]
struct Canary {
    path: PathBuf,
    content: Option<Vec<u8>>,
    mode: u32,
    owner: u32,
    links: u64,
    modified: (i64, i64),
}

impl Plants {
    /// In `folder`, which is beside the workspaces, and in the places where people keep secrets.
    pub fn new(folder: &Path) -> Self {
        let secret = std::env::var(SECRET_VARIABLE).expect("main has set it");
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        let places = [Some(folder.to_owned()), home, Some("/var/tmp".into()), Some("/dev/shm".into()), Some("/tmp".into())];
        let secrets = places.into_iter().flatten().filter(|place| place.is_dir()).map(|place| {
            let mut file = tempfile::Builder::new().prefix("suite-secret-").tempfile_in(place).expect("a place for it");
            writeln!(file, "{secret}").expect("a secret can be written");
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).expect("a file of ours");
            file
        });
        let secrets = secrets.collect();

        let canaries = folder.join("canaries");
        fs::create_dir_all(canaries.join("folder")).expect("a folder for the canaries");
        for name in ["file", "folder/inner"] {
            let path = canaries.join(name);
            fs::write(&path, CANARY).expect("a canary");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a file of ours");
        }
        open_to_all(&canaries);
        open_to_all(&canaries.join("folder"));

        let abstract_name = format!("suite-{}", uuid::Uuid::new_v4().simple());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("a short name");
        let abstract_socket = UnixListener::bind_addr(&address).expect("an abstract socket");
        let named_socket = UnixListener::bind(folder.join("socket")).expect("a socket");
        open_to_all(&folder.join("socket"));
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        for result in
            [abstract_socket.set_nonblocking(true), named_socket.set_nonblocking(true), tcp.set_nonblocking(true)]
        {
            result.expect("a listener need not block");
        }
        let untouched = look_at(&canaries);
        Self { secret, secrets, canaries, untouched, abstract_name, abstract_socket, named_socket, tcp }
    }

    /// Tells a program where to look: whoever gets out need not search.
    pub fn fill(&self, code: &str) -> String {
        let secrets: Vec<_> = self.secrets.iter().map(|file| file.path().display().to_string()).collect();
        let port = self.tcp.local_addr().expect("it is bound").port();
        let socket = self.canaries.with_file_name("socket");
        code.replace("@SECRETS@", &secrets.join(" "))
            .replace("@SECRET@", &secrets[0])
            .replace("@BEGINNING@", BEGINNING)
            .replace("@CANARIES@", &self.canaries.display().to_string())
            .replace("@ABSTRACT@", &self.abstract_name)
            .replace("@SOCKET@", &socket.display().to_string())
            .replace("@PORT@", &port.to_string())
            .replace("@WORKER@", &std::process::id().to_string())
    }

    /// What was changed or reached.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if look_at(&self.canaries) != self.untouched {
            complaints.push("a canary was changed".into());
        }
        let reached = [
            ("an abstract socket", self.abstract_socket.accept().is_ok()),
            ("a socket", self.named_socket.accept().is_ok()),
            ("a port", self.tcp.accept().is_ok()),
        ];
        let reached = reached.iter().filter(|(_, reached)| *reached);
        complaints.extend(reached.map(|(what, _)| format!("{what} of the host was reached")));
        complaints
    }
}

fn look_at(canaries: &Path) -> Vec<Canary> {
    let mut seen = Vec::new();
    let mut ahead = vec![canaries.to_owned()];
    while let Some(path) = ahead.pop() {
        let metadata = fs::symlink_metadata(&path).expect("what was listed is there");
        if metadata.is_dir() {
            ahead.extend(fs::read_dir(&path).expect("a folder of ours").flatten().map(|entry| entry.path()));
        }
        seen.push(Canary {
            content: metadata.is_file().then(|| fs::read(&path).unwrap_or_default()),
            mode: metadata.mode(),
            owner: metadata.uid(),
            links: metadata.nlink(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            path,
        });
    }
    seen.sort_by(|one, other| one.path.cmp(&other.path));
    seen
}
