use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;

/// An archive as a hostile hand writes it: names and links are taken as they are.
struct Tar(Builder<Vec<u8>>);

impl Tar {
    /// With what makes it a root.
    fn new() -> Self {
        Self(Builder::new(Vec::new())).add(EntryType::Directory, "usr", "", 0o755, b"")
    }

    fn add(mut self, kind: EntryType, name: &str, link: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.add(EntryType::Regular, name, "", 0o644, content.as_bytes())
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, name, target, 0o777, b"")
    }

    fn hard_link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Link, name, target, 0o644, b"")
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// A folder of ours with something precious in it, beside the one that is unpacked to.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("root")).unwrap();
        fs::create_dir(place.path("precious")).unwrap();
        fs::write(place.path("precious/file"), "keep").unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn unpack(&self, tar: Tar) -> Result<Unpacked, ImportError> {
        let unpacked = unpack::unpack(tar.bytes().as_slice(), &self.path("root"), "the archive");
        let mut names: Vec<_> = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["precious", "root"]);
        let precious: Vec<_> = fs::read_dir(self.path("precious")).unwrap().collect();
        assert_eq!(precious.len(), 1);
        assert_eq!(fs::read_to_string(self.path("precious/file")).unwrap(), "keep");
        assert_eq!(fs::metadata(self.path("precious")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(self.path("precious/file")).unwrap().nlink(), 1);
        unpacked
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path("root").join(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path("root").join(path)).unwrap().permissions().mode() & 0o7777
    }
}

#[test]
fn a_root_is_unpacked_with_modes_times_and_links() {
    let place = Place::new();
    let tar = Tar::new()
        .add(EntryType::Directory, "./", "", 0o700, b"")
        .add(EntryType::Directory, "./shut", "", 0o555, b"")
        .file("./shut/inside", "1")
        .add(EntryType::Regular, "./usr/bin/tool", "", 0o755, b"tool")
        .symlink("./bin", "usr/bin")
        .hard_link("./usr/bin/same", "./usr/bin/tool")
        .hard_link("./usr/bin/tool", "./usr/bin/tool")
        .add(EntryType::Directory, "tmp", "", 0o1777, b"")
        .file("/absolute/name", "2");
    let unpacked = place.unpack(tar).unwrap();
    assert_eq!((unpacked.entries, unpacked.left_out), (9, 0));
    assert_eq!((place.read("shut/inside"), place.read("absolute/name")), ("1".into(), "2".into()));
    assert_eq!((place.read("bin/tool"), place.read("usr/bin/same")), ("tool".into(), "tool".into()));
    assert_eq!((place.mode("shut"), place.mode("tmp"), place.mode("usr/bin/tool")), (0o555, 0o1777, 0o755));
    assert_eq!(fs::metadata(place.path("root")).unwrap().permissions().mode() & 0o777, 0o755);
    for path in ["shut", "usr/bin/tool"] {
        assert_eq!(fs::metadata(place.path("root").join(path)).unwrap().mtime(), 1_000_000, "{path}");
    }
}

#[test]
fn nothing_is_written_through_links_that_lead_outside() {
    for (name, refused) in [
        ("absolute/planted", true),
        ("absolute/file", true),
        ("relative/planted", true),
        // Itself, it is replaced.
        ("file", false),
    ] {
        let place = Place::new();
        let outside = place.path("precious").display().to_string();
        let tar = Tar::new()
            .symlink("absolute", &outside)
            .symlink("relative", "../precious")
            .symlink("file", &format!("{outside}/file"))
            .file(name, "planted");
        assert_eq!(place.unpack(tar).is_err(), refused, "{name}");
    }
}

#[test]
fn a_link_is_followed_as_inside_the_root() {
    let place = Place::new();
    let tar = Tar::new()
        .add(EntryType::Directory, "precious", "", 0o755, b"")
        .symlink("up", "../../../../precious")
        .symlink("absolute", "/precious")
        .file("up/one", "1")
        .file("absolute/two", "2");
    place.unpack(tar).unwrap();
    assert_eq!((place.read("precious/one"), place.read("precious/two")), ("1".into(), "2".into()));
}

#[test]
fn names_that_climb_are_refused() {
    for name in ["../planted", "usr/../../planted", "/../planted", "usr/.."] {
        let error = Place::new().unpack(Tar::new().file(name, "x")).unwrap_err().to_string();
        assert!(error.contains("..") && error.contains("the archive"), "{error}");
    }
}

#[test]
fn hard_links_reach_only_what_is_in_the_root() {
    let place = Place::new();
    let outside = place.path("precious/file");
    for target in ["../precious/file", outside.to_str().unwrap(), "missing", "/", "usr", "link"] {
        let tar = Tar::new().symlink("link", outside.to_str().unwrap()).hard_link("stolen", target);
        let unpacked = place.unpack(tar);
        // The link itself may be linked; what it points to may not.
        assert_eq!(unpacked.is_ok(), target == "link", "{target}");
        let _ = fs::remove_dir_all(place.path("root"));
        fs::create_dir(place.path("root")).unwrap();
    }
    // Through a link to a folder outside.
    let folder = place.path("precious");
    let tar = Tar::new().symlink("folder", folder.to_str().unwrap()).hard_link("stolen", "folder/file");
    assert!(place.unpack(tar).is_err());
}

#[test]
fn a_folder_in_place_of_a_link_changes_nothing_behind_it() {
    let place = Place::new();
    let outside = place.path("precious");
    let tar = Tar::new()
        .symlink("later", outside.to_str().unwrap())
        .add(EntryType::Directory, "later", "", 0o000, b"")
        .add(EntryType::Directory, "sooner", "", 0o000, b"")
        .symlink("usr/x", outside.to_str().unwrap());
    place.unpack(tar).unwrap();
    assert!(fs::symlink_metadata(place.path("root/later")).unwrap().is_dir());

    // A folder whose place a link takes afterwards: its mode is not given to what the link names.
    let place = Place::new();
    let tar = Tar::new()
        .add(EntryType::Directory, "precious", "", 0o700, b"")
        .file("file", "x")
        .symlink("file", place.path("precious").to_str().unwrap());
    place.unpack(tar).unwrap();
    assert!(fs::symlink_metadata(place.path("root/file")).unwrap().is_symlink());
}

#[test]
fn nothing_special_is_made_and_nobody_gains_by_what_is() {
    let place = Place::new();
    let tar = Tar::new()
        .add(EntryType::Char, "dev/null", "", 0o666, b"")
        .add(EntryType::Block, "dev/sda", "", 0o666, b"")
        .add(EntryType::Fifo, "fifo", "", 0o666, b"")
        .add(EntryType::Regular, "usr/su", "", 0o6755, b"su")
        .add(EntryType::Directory, "usr/group", "", 0o2755, b"");
    let unpacked = place.unpack(tar).unwrap();
    assert_eq!((unpacked.entries, unpacked.left_out), (3, 3));
    assert!(!place.path("root/dev/null").exists() && !place.path("root/fifo").exists());
    assert_eq!((place.mode("usr/su"), place.mode("usr/group")), (0o755, 0o755));
    if rustix::process::geteuid().is_root() {
        assert_eq!(fs::metadata(place.path("root/usr/su")).unwrap().uid(), 0);
    }
}

#[test]
fn of_several_entries_with_one_name_the_last_wins() {
    let place = Place::new();
    let tar = Tar::new().symlink("x", "usr").file("x", "1").file("x", "2").symlink("y", "x").symlink("y", "usr");
    place.unpack(tar).unwrap();
    assert_eq!(place.read("x"), "2");
    assert_eq!(fs::read_link(place.path("root/y")).unwrap(), Path::new("usr"));
}

#[test]
fn what_is_no_root_is_refused_with_a_way_out() {
    let plain = |name: &str| Tar(Builder::new(Vec::new())).file(name, "[]");
    let saved = Place::new().unpack(plain("manifest.json")).unwrap_err().to_string();
    assert!(saved.contains("docker save") && saved.contains("docker export"), "{saved}");
    let other = Place::new().unpack(plain("rootfs/usr/x")).unwrap_err().to_string();
    assert!(other.contains("neither usr nor bin"), "{other}");
}

fn settings(roots: &Path) -> Settings {
    let mut settings = Settings::defaults();
    settings.sandbox.native.roots = roots.to_owned();
    settings
}

async fn import_file(roots: &Path, bytes: &[u8], force: bool) -> Result<PathBuf, ImportError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let source = Source::Tarball(file.path().to_owned());
    let imported = import(&source, "an/image:1", force, &settings(roots), &Arc::default()).await;
    imported.map(|(folder, _)| folder)
}

#[tokio::test]
async fn a_root_is_replaced_only_by_force_and_always_whole() {
    let roots = tempfile::tempdir().unwrap();
    let folder = import_file(roots.path(), &Tar::new().file("version", "1").bytes(), false).await.unwrap();
    assert_eq!(folder, roots.path().join("an_image_1"));
    let version = || fs::read_to_string(folder.join("root/version")).unwrap();

    let error = import_file(roots.path(), &Tar::new().file("version", "2").bytes(), false).await.unwrap_err();
    assert!(matches!(error, ImportError::Exists { .. }) && error.to_string().contains("--force"), "{error}");
    let broken = Tar::new().file("version", "2").file("../out", "x").bytes();
    assert!(import_file(roots.path(), &broken, true).await.is_err());
    let mut cut = Tar::new().file("version", "2").file("long", &"x".repeat(5000)).bytes();
    cut.truncate(3000);
    assert!(import_file(roots.path(), &cut, true).await.is_err());
    assert_eq!(version(), "1");

    import_file(roots.path(), &Tar::new().file("version", "3").bytes(), true).await.unwrap();
    assert_eq!(version(), "3");
    assert_eq!(fs::read_dir(roots.path()).unwrap().count(), 1, "nothing else is left");
    let listed = list(&settings(roots.path()).sandbox.native).unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "an_image_1"));
}

#[tokio::test]
async fn gzip_is_unpacked_and_the_others_are_named() {
    let roots = tempfile::tempdir().unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&Tar::new().file("file", "x").bytes()).unwrap();
    let folder = import_file(roots.path(), &packed.finish().unwrap(), false).await.unwrap();
    assert_eq!(fs::read_to_string(folder.join("root/file")).unwrap(), "x");

    let error = import_file(roots.path(), b"\xfd7zXZ\0\0\0\0", true).await.unwrap_err().to_string();
    assert!(error.contains("xz -dc"), "{error}");
    assert!(import_file(roots.path(), b"no archive at all", true).await.is_err());
}

#[tokio::test]
async fn an_import_that_is_stopped_leaves_nothing_and_one_that_was_killed_is_cleared_away() {
    let roots = tempfile::tempdir().unwrap();
    let left = roots.path().join(".importing-killed");
    fs::create_dir_all(left.join("root/usr")).unwrap();
    let living = roots.path().join(".importing-living");
    fs::create_dir(&living).unwrap();
    let lock = File::open(&living).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();

    let file = roots.path().join("x.tar");
    fs::write(&file, Tar::new().bytes()).unwrap();
    let watch = Arc::new(Watch::default());
    watch.stop.cancel();
    let stopped = import(&Source::Tarball(file), "x", false, &settings(roots.path()), &watch).await;
    assert!(matches!(stopped, Err(ImportError::Interrupted)), "{stopped:?}");
    let mut names: Vec<_> = fs::read_dir(roots.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".importing-living", "x.tar"]);
}

#[test]
fn every_image_has_a_folder_and_none_is_outside() {
    let name = |image| folder_for(Path::new("/roots"), image);
    assert_eq!(name("golang:1.21-alpine"), Path::new("/roots/golang_1.21-alpine"));
    assert_eq!(name("host:5000/a/b@sha256:0"), Path::new("/roots/host_5000_a_b_sha256_0"));
    assert_eq!(name(".."), Path::new("/roots/_."));
    assert_eq!(name("../../etc"), Path::new("/roots/_._.._etc"));
    assert_eq!(name("/etc"), Path::new("/roots/_etc"));
}

#[test]
fn links_in_the_way_of_the_roots_folder_itself_are_the_operators() {
    // The roots folder is the operator's own and may well be a link; only what an archive brings is not trusted.
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("disk")).unwrap();
    symlink("disk", place.path().join("roots")).unwrap();
    let unfinished = Unfinished::create(&place.path().join("roots")).unwrap();
    unfinished.finish(&place.path().join("roots/x"), false).unwrap();
    assert!(place.path().join("disk/x/root").is_dir());
}
