//! What is to be written to a file, and can wait until it must be there.

/// At most this much waits: more is no cheaper to write.
const MOST_BYTES: usize = 512 * 1024;

/// SQLite's own files take less than 128 KiB in one write: a page and a little more is all they expect.
const LARGEST_WRITE: usize = 124 * 1024;
/// What the system keeps files in; a write had better end where one of these does.
const SYSTEM_PAGE: i64 = 4096;

/// Octets that follow each other in a file.
#[derive(Default)]
pub(crate) struct Gathered {
    start: i64,
    bytes: Vec<u8>,
}

impl Gathered {
    /// Takes more along, if it follows what is there and is not too much. Otherwise what is there has
    /// to be written first; and what does not fit even then is not for gathering.
    pub(crate) fn take_along(&mut self, bytes: &[u8], at: i64) -> bool {
        if self.bytes.is_empty() {
            self.start = at;
        }
        let follows = i64::try_from(self.bytes.len()).is_ok_and(|have| self.start + have == at);
        let fits = self.bytes.len() + bytes.len() <= MOST_BYTES;
        if follows && fits {
            self.bytes.extend_from_slice(bytes);
        }
        follows && fits
    }

    /// What is there, and where it belongs; nothing if nothing waits.
    pub(crate) fn waiting(&self) -> Option<(&[u8], i64)> {
        (!self.bytes.is_empty()).then_some((&self.bytes, self.start))
    }

    /// Forgets what is there, and keeps the room for more.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// What is to be written, in pieces of a size that can be, each with its place.
pub(crate) fn pieces(mut bytes: &[u8], mut at: i64) -> impl Iterator<Item = (&[u8], i64)> {
    std::iter::from_fn(move || {
        let mut count = bytes.len();
        if count > LARGEST_WRITE {
            let beyond = (at + LARGEST_WRITE as i64).rem_euclid(SYSTEM_PAGE);
            count = LARGEST_WRITE - beyond as usize;
        }
        let (piece, rest) = bytes.split_at(count);
        let place = at;
        bytes = rest;
        at += count as i64;
        (!piece.is_empty()).then_some((piece, place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_taken_along_and_nothing_else() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.waiting(), None);
        assert!(gathered.take_along(b"head", 32));
        assert!(gathered.take_along(b"page", 36));
        for elsewhere in [32, 36, 39, 41, 100] {
            assert!(!gathered.take_along(b"x", elsewhere));
        }
        assert_eq!(gathered.waiting(), Some((&b"headpage"[..], 32)));
        gathered.clear();
        assert_eq!(gathered.waiting(), None);
        assert!(gathered.take_along(b"first", 0));
        assert_eq!(gathered.waiting(), Some((&b"first"[..], 0)));
    }

    #[test]
    fn no_more_than_so_much_waits() {
        let mut gathered = Gathered::default();
        assert!(!gathered.take_along(&vec![0; MOST_BYTES + 1], 0));
        assert_eq!(gathered.waiting(), None);
        assert!(gathered.take_along(&vec![0; MOST_BYTES], 0));
        assert!(!gathered.take_along(b"x", MOST_BYTES as i64));
    }

    #[test]
    fn pieces_are_small_enough_and_all_there_is() {
        let bytes: Vec<u8> = (0..MOST_BYTES).map(|at| (at % 251) as u8).collect();
        for (count, start) in [
            (MOST_BYTES, 56),
            (LARGEST_WRITE, 1),
            (LARGEST_WRITE + 1, 32),
            (7, 0),
            (0, 9),
        ] {
            let mut next = start;
            let mut all = Vec::new();
            for (piece, at) in pieces(&bytes[..count], start) {
                assert_eq!(at, next);
                assert!(piece.len() <= LARGEST_WRITE);
                next += piece.len() as i64;
                assert!(next % SYSTEM_PAGE == 0 || next == start + count as i64);
                all.extend_from_slice(piece);
            }
            assert!(all == bytes[..count]);
        }
    }
}
