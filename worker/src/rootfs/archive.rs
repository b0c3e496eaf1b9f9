//! What a tarball is packed in.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;

use super::ImportError;

/// The first bytes of what we do not unpack, with who does.
const PACKED_OTHERWISE: [(&[u8], &str); 3] = [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2")];
const GZIP: &[u8] = b"\x1f\x8b";

/// The plain tar archive. How it is packed is seen from its first bytes: a name may lie, and stdin has none.
pub fn decompressed<'a>(mut bytes: impl Read + 'a, what: &str) -> Result<Box<dyn Read + 'a>, ImportError> {
    let mut head = Vec::new();
    let read = bytes.by_ref().take(6).read_to_end(&mut head);
    read.map_err(|source| ImportError::Unreadable { what: what.to_owned(), source })?;
    if let Some((_, packer)) = PACKED_OTHERWISE.iter().find(|(magic, _)| head.starts_with(magic)) {
        let problem = format!(
            "it is packed with {packer}, and only gzip is understood. \
             Try `{packer} -dc FILE | tribunal-worker rootfs import - --name NAME`"
        );
        return Err(ImportError::Refused { what: what.to_owned(), problem });
    }
    let packed = head.starts_with(GZIP);
    let whole = Cursor::new(head).chain(bytes);
    Ok(if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}
