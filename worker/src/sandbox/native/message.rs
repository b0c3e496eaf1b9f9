//! What the worker and its zygotes say to each other: one JSON text for each message, with descriptors beside it, over a
//! socket that keeps messages apart.

use std::ffi::CStr;
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Defence;

/// The longest message. Commands and environments come from the settings, and are short.
const LONGEST: usize = 16 * 1024;
const MOST_DESCRIPTORS: usize = 16;

/// The first message to a zygote: what all its runs have in common.
#[derive(Serialize, Deserialize)]
pub struct Birth {
    pub root: RootFolder,
    pub tmp_mb: u64,
    /// Empty, but in tests.
    pub without: Vec<Defence>,
}

/// What programs see as `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RootFolder {
    Host,
    Folder(PathBuf),
}

#[derive(Serialize, Deserialize)]
pub enum Order {
    /// To the zygote: have the next sandbox ready. With the descriptors that lead into its cgroups, or with none if they
    /// are the same as the last time.
    Prepare(Prepare),
    /// To process 1: with the descriptors stdin, stdout, stderr and workspace (a mount that hangs nowhere).
    Run(Run),
    /// To process 1: end the run now.
    Kill,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Prepare {
    pub entrance: Entrance,
    /// Host user and group of the program.
    pub user: u32,
}

/// How a process gets into a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entrance {
    /// Version 1: it writes itself into `tasks` files.
    Join,
    /// Version 2: it is born there.
    Birth,
}

#[derive(Serialize, Deserialize)]
pub struct Run {
    pub command: Words,
    /// `NAME=value`.
    pub environment: Words,
    pub wall_ms: u64,
    pub tmp_mb: u64,
    pub file_mb: u64,
    pub memory_mb: u64,
    /// The workspace is for compiling.
    pub writable: bool,
}

/// Words as the kernel wants them, each with a NUL byte at its end, all in one piece: a process that was just made pays
/// for every piece of memory that it asks for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words(String);

impl Words {
    /// `None` if one of them has a NUL byte in it.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut text = String::new();
        for word in words {
            if word.contains('\0') {
                return None;
            }
            text.push_str(word);
            text.push('\0');
        }
        Some(Self(text))
    }

    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.0.split_inclusive('\0').filter_map(|word| CStr::from_bytes_with_nul(word.as_bytes()).ok())
    }
}

#[derive(Serialize, Deserialize)]
pub enum Answer {
    /// The first sandbox of a zygote is ready; the others do not say so.
    Ready,
    Ended(Ended),
    /// Ours, not the program's.
    Failed {
        doing: String,
        errno: i32,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    pub how: How,
    pub wall_ns: u64,
    /// CPU time that went into the making of the sandbox, in the program's cgroup.
    pub preparing_ns: u64,
    pub max_rss_kb: u64,
    /// Killed by its timer.
    pub timed_out: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum How {
    Exited(i32),
    Signaled(i32),
    NotStarted(i32),
}

/// A step of ours that did not succeed.
#[derive(Debug)]
pub struct Failure {
    pub doing: String,
    pub errno: Errno,
}

impl Failure {
    pub fn new(doing: impl Into<String>, errno: Errno) -> Self {
        Self { doing: doing.into(), errno }
    }
}

/// To be put behind a step: `step().map_err(failed("doing this"))`.
pub fn failed<E: Into<std::io::Error>>(doing: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure::new(doing, Errno::from_io_error(&error.into()).unwrap_or(Errno::IO))
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Failed { doing: failure.doing, errno: failure.errno.raw_os_error() }
    }
}

pub fn send(socket: impl AsFd, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > LONGEST {
        return Err(Error::new(ErrorKind::InvalidInput, "the command and its environment are too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Error::new(ErrorKind::InvalidInput, "too many descriptors for one message"));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// `None` when the other side is gone.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> Result<Option<(T, Vec<OwnedFd>)>> {
    // Its length is asked for first: a buffer for the longest would cost each new process more than the question.
    let length = loop {
        match recv(&socket, &mut [0; 0], RecvFlags::PEEK | RecvFlags::TRUNC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?.1,
        }
    };
    let mut text = vec![0; length.min(LONGEST)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut text)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let descriptors = beside
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
            _ => Vec::new(),
        })
        .collect();
    if received.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&text[..received.bytes])?, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_as_they_went_in() {
        let words = Words::new(["./a", "", "ü b"]).unwrap();
        assert_eq!(words.iter().collect::<Vec<_>>(), [c"./a", c"", c"ü b"]);
        assert_eq!(Words::new([]).unwrap().iter().count(), 0);
        assert_eq!(Words::new(["a\0b"]), None);
    }
}
