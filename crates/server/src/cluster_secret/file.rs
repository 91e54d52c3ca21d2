//! Files that hold a cluster secret: read only where nobody else can read or have written them, written whole
//! or not at all.

use rustix::fs::OFlags;
use rustix::process::geteuid;
use sidle_handshake::{ClusterSecret, ParseSecretError, TEXT_BYTES_MAX};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The owner may read and write it.
const MODE: u32 = 0o600;
/// The access that only the owner may have.
const OTHERS: u32 = 0o077;
/// Write access for everybody, forbidden on a folder that a neighbour names. (With a group for each user,
/// folders are often open to that group.)
const ALL_WRITE: u32 = 0o002;

/// Why a file with a cluster secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the cluster secret in {}: {fault}", path.display())]
pub struct SecretFileError {
    path: PathBuf,
    fault: Fault,
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system refused access.
    #[error("{0}")]
    Refused(#[from] io::Error),
    /// A folder, a device, a pipe.
    #[error("it is no regular file")]
    NoFile,
    /// Another user owns it.
    #[error("it belongs to another user: copy it as the user that runs the node")]
    OtherOwner,
    /// Others can read it, so it is no secret.
    #[error("others can read or write it: `chmod 600` it, and draw a new one if somebody may have read it")]
    Exposed,
    /// A way to it leads through a symbolic link, or it has another name.
    #[error("it is a link: the file itself has to stand there")]
    Link,
    /// A folder on the way to it is open to other users.
    #[error("others can change the folder that it is in")]
    ExposedFolder,
    /// Something else is in it.
    #[error(
        "{0}. Copy it from a node of the cluster, or create one with \
         `sidle server --create-cluster-secret FILE`"
    )]
    Malformed(#[from] ParseSecretError),
    /// It must be new, and exists already.
    #[error("it exists already, and is left as it is")]
    Exists,
}

impl SecretFileError {
    /// Whether there is no such file.
    pub(super) fn is_missing(&self) -> bool {
        matches!(&self.fault, Fault::Refused(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

fn at(path: &Path) -> impl FnOnce(Fault) -> SecretFileError {
    move |fault| SecretFileError { path: path.to_owned(), fault }
}

/// Reads a file that the operator named; links may lead to it.
pub(super) fn read(path: &Path) -> Result<ClusterSecret, SecretFileError> {
    open(path, OFlags::empty()).and_then(read_opened).map_err(at(path))
}

/// Reads a file that is no link.
pub(super) fn read_strictly(path: &Path) -> Result<ClusterSecret, SecretFileError> {
    open(path, OFlags::NOFOLLOW).and_then(read_opened).map_err(at(path))
}

/// Reads a file named by a stranger: only if this user alone can have put it there,
/// under this very name, so that it leads nowhere else.
pub(super) fn read_of_neighbour(path: &Path) -> Result<ClusterSecret, SecretFileError> {
    let checked = || {
        if path.canonicalize()? != path {
            return Err(Fault::Link);
        }
        let folder = fs::metadata(path.parent().ok_or(Fault::NoFile)?)?;
        if folder.uid() != geteuid().as_raw() || folder.permissions().mode() & ALL_WRITE != 0 {
            return Err(Fault::ExposedFolder);
        }
        let file = open(path, OFlags::NOFOLLOW)?;
        let facts = file.metadata()?;
        if facts.is_file() && facts.nlink() != 1 {
            return Err(Fault::Link);
        }
        read_opened(file)
    };
    checked().map_err(at(path))
}

fn open(path: &Path, flags: OFlags) -> Result<File, Fault> {
    // Opening a pipe would wait for a writer.
    let flags = (flags | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags as i32).open(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        if is_link { Fault::Link } else { Fault::Refused(error) }
    })
}

/// All checks are of the opened file, not of what may be at its path by now.
fn read_opened(file: File) -> Result<ClusterSecret, Fault> {
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(Fault::NoFile);
    }
    if facts.uid() != geteuid().as_raw() {
        return Err(Fault::OtherOwner);
    }
    if facts.permissions().mode() & OTHERS != 0 {
        return Err(Fault::Exposed);
    }
    let mut text = Vec::with_capacity(TEXT_BYTES_MAX);
    file.take(TEXT_BYTES_MAX as u64).read_to_end(&mut text)?;
    Ok(ClusterSecret::parse(&text)?)
}

/// Writes the file, in the place of one that is there, whole or not at all.
pub(super) fn write(path: &Path, secret: &ClusterSecret) -> Result<(), SecretFileError> {
    let fresh = write_beside(path, secret).map_err(at(path))?;
    let replace = || -> io::Result<()> {
        fs::rename(&fresh, path)?;
        sync_folder(path)
    };
    replace().map_err(Fault::Refused).map_err(at(path))
}

/// Writes a file that is not there yet, whole or not at all.
pub(super) fn create(path: &Path, secret: &ClusterSecret) -> Result<(), SecretFileError> {
    let fresh = write_beside(path, secret).map_err(at(path))?;
    // Unlike a renamed file, a link replaces nothing.
    let linked = fs::hard_link(&fresh, path);
    let removed = fs::remove_file(&fresh);
    let finish = || -> Result<(), Fault> {
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Fault::Exists),
            linked => linked?,
        }
        removed?;
        Ok(sync_folder(path)?)
    };
    finish().map_err(at(path))
}

/// Writes the secret to a file beside `path`, and returns its name.
fn write_beside(path: &Path, secret: &ClusterSecret) -> Result<PathBuf, Fault> {
    let mut name = path.file_name().ok_or(Fault::NoFile)?.to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    // One that a crash left behind.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&fresh)?;
    file.write_all(secret.to_text().as_bytes())?;
    file.sync_all()?;
    Ok(fresh)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn secret() -> ClusterSecret {
        ClusterSecret::from_random(std::array::from_fn(|index| index as u8))
    }

    /// A folder of this user's with a secret in it, without links on the way.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("cluster.secret");
        write(&path, &secret()).unwrap();
        (folder, path)
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    type Read = fn(&Path) -> Result<ClusterSecret, SecretFileError>;
    const READERS: [Read; 3] = [read, read_strictly, read_of_neighbour];

    fn refused_by_all(path: &Path, word: &str) {
        for read in READERS {
            let refused = read(path).unwrap_err().to_string();
            assert!(refused.contains(word) && refused.contains(&path.display().to_string()), "{refused}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (folder, path) = folder();
        for read in READERS {
            assert_eq!(read(&path).unwrap(), secret());
        }
        write(&path, &secret()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_crash_left_behind_is_in_nobodys_way() {
        let (folder, path) = folder();
        fs::write(folder.path().join("cluster.secret.new"), "half").unwrap();
        write(&path, &secret()).unwrap();
        assert_eq!(read(&path).unwrap(), secret());
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused() {
        let (_folder, path) = folder();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666, 0o644, 0o610] {
            chmod(&path, mode);
            refused_by_all(&path, "chmod 600");
        }
        chmod(&path, 0o400);
        assert!(READERS.iter().all(|read| read(&path).is_ok()));
    }

    #[test]
    fn a_file_with_something_else_in_it_is_refused() {
        let (_folder, path) = folder();
        let text = secret().to_text();
        for wrong in ["", "sidle", &text[..60], &format!("{text}{text}"), &"x".repeat(1 << 20)] {
            fs::write(&path, wrong).unwrap();
            refused_by_all(&path, "--create-cluster-secret");
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let (folder, path) = folder();
        let inner = path.with_file_name("inner");
        fs::create_dir(&inner).unwrap();
        refused_by_all(&inner, "no regular file");
        let pipe = path.with_file_name("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            refused_by_all(&pipe, "no regular file");
        }
        let missing = read(&folder.path().join("missing")).unwrap_err();
        assert!(missing.is_missing());
    }

    #[test]
    fn links_are_for_operators_only() {
        let (folder, path) = folder();
        let link = path.with_file_name("link");
        symlink(&path, &link).unwrap();
        assert_eq!(read(&link).unwrap(), secret());
        for read in [read_strictly, read_of_neighbour] {
            assert!(read(&link).unwrap_err().to_string().contains("is a link"));
        }
        let inner = path.parent().unwrap().join("inner");
        fs::create_dir(&inner).unwrap();
        let linked_folder = folder.path().canonicalize().unwrap().join("linked");
        symlink(&inner, &linked_folder).unwrap();
        write(&inner.join("cluster.secret"), &secret()).unwrap();
        let through = linked_folder.join("cluster.secret");
        assert!(read_of_neighbour(&through).unwrap_err().to_string().contains("is a link"));
        let second_name = path.with_file_name("second");
        fs::hard_link(&path, &second_name).unwrap();
        assert!(read_of_neighbour(&path).unwrap_err().to_string().contains("is a link"));
    }

    #[test]
    fn a_folder_that_others_can_change_is_not_believed() {
        let (folder, path) = folder();
        chmod(folder.path(), 0o777);
        assert!(read_of_neighbour(&path).unwrap_err().to_string().contains("folder"));
        assert!(read_strictly(&path).is_ok());
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let (_folder, path) = folder();
        let is_root = geteuid().is_root();
        // Only root can give files away.
        if is_root && std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            refused_by_all(&path, "another user");
        }
    }
}
