//! What a language runs on, and whether its toolchain is there: said before a run, and with what brings it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tribunal_shared::config::NativeSettings;
use tribunal_shared::language::{Language, Root};

use super::super::SandboxError;
use super::message::RootFolder;
use crate::rootfs;

const PATH: &str = "PATH";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What a program sees of the host. Elsewhere, in somebody's home or below `/opt`, a tool is of no use to it.
const SEEN_OF_THE_HOST: [&str; 5] = ["usr", "bin", "sbin", "lib", "lib64"];

pub struct Toolchain {
    pub root: RootFolder,
    /// The image's, or just where programs are.
    pub environment: Vec<(String, String)>,
}

impl Toolchain {
    pub fn of(language: &Language, settings: &NativeSettings) -> Result<Self, SandboxError> {
        let root = language.root.as_deref().unwrap_or(&settings.root);
        let root = Root::parse(root).map_err(|problem| SandboxError::failed("choosing a root", problem))?;
        let mut environment = vec![(PATH.to_owned(), DEFAULT_PATH.to_owned())];
        let root = match root {
            Root::Host => RootFolder::Host,
            Root::Folder(path) => RootFolder::Folder(path),
            Root::Image => {
                let imported = rootfs::find(&settings.roots, &language.image).ok_or_else(|| SandboxError::Unfit {
                    problem: format!("the image {} was not imported to {}", language.image, settings.roots.display()),
                    remedy: format!("Run `tribunal-worker rootfs import {}`", language.image),
                })?;
                environment.extend(imported.environment);
                RootFolder::Folder(imported.root)
            }
        };
        Ok(Self { root, environment })
    }

    /// Whether everything is there that the language needs.
    pub fn look_for(&self, language: &Language) -> Result<(), SandboxError> {
        let root = match &self.root {
            RootFolder::Host => Path::new("/"),
            RootFolder::Folder(path) => path,
        };
        // Said later, it holds.
        let path = self.environment.iter().rev().find(|(name, _)| name == PATH);
        look_for(language, root, path.map_or(DEFAULT_PATH, |(_, value)| value))
    }
}

/// Looks for each tool of a language in the folders of `path_variable`, below the folder that is `/` for its programs.
fn look_for(language: &Language, root: &Path, path_variable: &str) -> Result<(), SandboxError> {
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root_handle = fs::open(root, open, Mode::empty()).map_err(|error| SandboxError::Unfit {
        problem: format!("the root of {}, {}, cannot be opened: {error}", language.name(), root.display()),
        remedy: "Set sandbox.native.root, or the language's root, to a folder with a whole Linux in it".into(),
    })?;
    for tool in language.tools() {
        let folders = path_variable.split(':').filter(|folder| folder.starts_with('/'));
        let found: Vec<_> = folders.filter_map(|folder| find(&root_handle, &Path::new(folder).join(tool))).collect();
        let is_seen = |path: &PathBuf| root != Path::new("/") || is_seen_of_the_host(path);
        if !found.iter().any(is_seen) {
            return Err(missing(language, tool, root, found.first().map(PathBuf::as_path)));
        }
    }
    Ok(())
}

/// Where the executable file of this name really is, if there is one. The kernel follows links as it will for the
/// program: an absolute one starts at the root, and none leads out of it.
fn find(root: &OwnedFd, path: &Path) -> Option<PathBuf> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?;
    let stat = fs::fstat(&file).ok()?;
    // By anybody: a program runs as a user whom nobody knows.
    let executable = stat.st_mode & 0o001 != 0;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if executable && regular { real_path(&file).ok() } else { None }
}

fn real_path(file: &OwnedFd) -> Result<PathBuf, Errno> {
    use std::os::unix::ffi::OsStringExt;
    let link = fs::readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    Ok(std::ffi::OsString::from_vec(link.into_bytes()).into())
}

fn is_seen_of_the_host(path: &Path) -> bool {
    SEEN_OF_THE_HOST.iter().any(|folder| path.starts_with(Path::new("/").join(folder)))
}

fn missing(language: &Language, tool: &str, root: &Path, elsewhere: Option<&Path>) -> SandboxError {
    let name = language.name();
    if root != Path::new("/") {
        return SandboxError::Unfit {
            problem: format!("{tool}, which {name} needs, is not in {}", root.display()),
            remedy: format!("Import an image that has it, or give {name} another root (languages.{name}.root)"),
        };
    }
    let place = match elsewhere {
        None => String::new(),
        Some(path) => format!(" where programs can see it, but only at {}", path.display()),
    };
    let remedy = match &language.package {
        Some(package) => format!("Run `apt-get install {package}`"),
        None => format!("Install {tool} below /usr"),
    };
    SandboxError::Unfit {
        problem: format!("{tool}, which {name} needs, is not installed{place}"),
        remedy: format!("{remedy}, or give {name} another root (languages.{name}.root)"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use tempfile::TempDir;
    use tribunal_shared::config::Settings;

    use super::*;

    const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

    #[test]
    fn an_imported_image_brings_its_own_path() {
        let roots = tempfile::tempdir().unwrap();
        let settings = NativeSettings { root: "image".into(), roots: roots.path().into(), cgroup: "x".into() };
        let (java, folder) = (java(), rootfs::folder_for(roots.path(), &java().image));
        let problem = Toolchain::of(&java, &settings).err().unwrap().to_string();
        assert!(problem.contains("tribunal-worker rootfs import openjdk:17-slim"), "{problem}");

        fs::create_dir_all(folder.join("root/opt/jdk/bin")).unwrap();
        fs::write(folder.join("environment"), "JAVA_HOME=/opt/jdk\nPATH=/opt/jdk/bin:/bin\n").unwrap();
        let toolchain = Toolchain::of(&java, &settings).unwrap();
        assert!(toolchain.look_for(&java).unwrap_err().to_string().starts_with("javac"));
        for tool in ["javac", "java"] {
            let path = folder.join("root/opt/jdk/bin").join(tool);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        toolchain.look_for(&java).unwrap();
    }

    fn java() -> Arc<Language> {
        Settings::defaults().languages().get("java").unwrap()
    }

    fn root() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::create_dir_all(root.path().join("etc/alternatives")).unwrap();
        root
    }

    fn install(root: &TempDir, path: &str, mode: u32) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn problem(root: &Path) -> String {
        look_for(&java(), root, PATH).unwrap_err().to_string()
    }

    #[test]
    fn a_tool_is_found_through_links_as_a_program_would_find_it() {
        let root = root();
        install(&root, "opt/jdk/bin/javac", 0o755);
        install(&root, "opt/jdk/bin/java", 0o755);
        symlink("/etc/alternatives/javac", root.path().join("usr/bin/javac")).unwrap();
        symlink("../../../opt/jdk/bin/javac", root.path().join("etc/alternatives/javac")).unwrap();
        symlink("/opt/jdk/bin/java", root.path().join("usr/bin/java")).unwrap();
        look_for(&java(), root.path(), PATH).unwrap();
    }

    #[test]
    fn what_is_missing_is_named_with_the_root() {
        let root = root();
        install(&root, "usr/bin/javac", 0o755);
        let said = problem(root.path());
        assert!(said.starts_with("java, which java needs, is not in "), "{said}");
        assert!(said.contains(&root.path().display().to_string()) && said.contains("languages.java.root"), "{said}");
    }

    #[test]
    fn what_cannot_be_executed_by_anybody_is_not_there() {
        for mode in [0o644, 0o750] {
            let root = root();
            install(&root, "usr/bin/javac", mode);
            assert!(problem(root.path()).starts_with("javac"), "{mode:o}");
        }
        let root = root();
        fs::create_dir(root.path().join("usr/bin/javac")).unwrap();
        assert!(problem(root.path()).starts_with("javac"));
    }

    #[test]
    fn no_link_leads_out_of_the_root_or_round_for_ever() {
        let root = root();
        install(&root, "usr/bin/java", 0o755);
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let up = format!("../../../../../../..{}", outside.path().display());
        for target in [outside.path().to_str().unwrap(), &up, "javac", "/proc/self/exe"] {
            let link = root.path().join("usr/bin/javac");
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            assert!(problem(root.path()).starts_with("javac"), "{target}");
        }
    }

    #[test]
    fn on_the_host_the_package_is_named() {
        let said = look_for(&java(), Path::new("/"), "/nowhere").unwrap_err().to_string();
        assert_eq!(
            said,
            "javac, which java needs, is not installed. Run `apt-get install default-jdk-headless`, or give java \
             another root (languages.java.root)"
        );
    }

    #[test]
    fn on_the_host_only_what_programs_see_counts() {
        let bash = Settings::defaults().languages().get("bash").unwrap();
        look_for(&bash, Path::new("/"), "/usr/bin:/bin").unwrap();

        let home = root();
        install(&home, "javac", 0o755);
        let said = look_for(&java(), Path::new("/"), home.path().to_str().unwrap()).unwrap_err().to_string();
        let place = format!("but only at {}", home.path().join("javac").display());
        assert!(said.contains(&place) && said.contains("apt-get install"), "{said}");
    }

    #[test]
    fn a_root_that_is_not_there_is_named() {
        assert!(problem(Path::new("/no/such/root")).contains("/no/such/root"));
    }
}
