//! One log that is open: gathers what is written to it, and leaves the rest to the file inside.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use crate::gathered::{Gathered, pieces};

/// What SQLite has of it. The file inside, which the default way made, follows behind it.
#[repr(C, align(8))]
struct LogFile {
    base: sqlite3_file,
    gathered: *mut Gathered,
}

/// How much room is needed before the file inside.
pub(crate) const BYTES_BEFORE_INNER: c_int = size_of::<LogFile>() as c_int;

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // The later ones are for shared memory and for reading through a mapping, which a log has not.
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Makes a file ours, inside of which another is opened.
///
/// # Safety
///
/// `file` has room for [`BYTES_BEFORE_INNER`] and for the file inside, and nobody else uses it.
pub(crate) unsafe fn open(
    file: *mut sqlite3_file,
    open_inner: impl FnOnce(*mut sqlite3_file) -> c_int,
) -> c_int {
    // SAFETY: there is room for both. SQLite closes what has methods, also if opening it failed; then
    // the one inside is closed here, and ours is left without.
    unsafe {
        let inner = inner(file);
        (*inner).pMethods = ptr::null();
        let ours = file.cast::<LogFile>();
        (*ours).base.pMethods = ptr::null();
        let code = open_inner(inner);
        if code == ffi::SQLITE_OK {
            (*ours).gathered = Box::into_raw(Box::default());
            (*ours).base.pMethods = &raw const METHODS;
        } else if let Some(close) = methods(inner).and_then(|methods| methods.xClose) {
            close(inner);
        }
        code
    }
}

/// # Safety
///
/// `file` is one of ours, or about to be.
const unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: it stands behind ours, in the same piece of memory, as aligned as ours.
    unsafe { file.cast::<LogFile>().add(1).cast() }
}

/// # Safety
///
/// The file has methods, or null instead.
unsafe fn methods<'a>(file: *mut sqlite3_file) -> Option<&'a sqlite3_io_methods> {
    // SAFETY: methods are static.
    unsafe { (*file).pMethods.as_ref() }
}

/// # Safety
///
/// `file` is open, one of ours, and used by no other thread meanwhile; what is given is used up before
/// the next call.
unsafe fn gathered<'a>(file: *mut sqlite3_file) -> &'a mut Gathered {
    // SAFETY: made when it was opened, freed when it is closed.
    unsafe { &mut *(*file.cast::<LogFile>()).gathered }
}

/// Writes what was gathered. If that fails it is forgotten: the commit fails that it is of, and the
/// next one writes the same place again.
///
/// # Safety
///
/// As above.
unsafe fn write_gathered(file: *mut sqlite3_file) -> c_int {
    // SAFETY: as above.
    unsafe {
        let gathered = gathered(file);
        let Some((bytes, at)) = gathered.waiting() else {
            return ffi::SQLITE_OK;
        };
        let code = write_inner(file, bytes, at);
        gathered.clear();
        code
    }
}

/// Writes to the file inside, in pieces that it takes.
///
/// # Safety
///
/// As above.
unsafe fn write_inner(file: *mut sqlite3_file, bytes: &[u8], at: sqlite3_int64) -> c_int {
    for (piece, at) in pieces(bytes, at) {
        // SAFETY: as above; a piece is no longer than what it is a piece of.
        let code = unsafe {
            let inner = inner(file);
            match methods(inner).and_then(|methods| methods.xWrite) {
                Some(write) => write(inner, piece.as_ptr().cast(), piece.len() as c_int, at),
                None => ffi::SQLITE_IOERR_WRITE,
            }
        };
        if code != ffi::SQLITE_OK {
            return code;
        }
    }
    ffi::SQLITE_OK
}

// SAFETY of all that follows: SQLite calls them with a file of ours that is open, from one thread at a
// time, and with memory as large as it says. What the file inside is asked for comes after what was
// gathered, as if it had been written at once.

// What is left here when it is closed is of no commit, and of nobody who holds the lock any more.
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let ours = file.cast::<LogFile>();
        drop(Box::from_raw((*ours).gathered));
        (*ours).base.pMethods = ptr::null();
        let inner = inner(file);
        match methods(inner).and_then(|methods| methods.xClose) {
            Some(close) => close(inner),
            None => ffi::SQLITE_IOERR_CLOSE,
        }
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    at: sqlite3_int64,
) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    unsafe {
        let bytes = slice::from_raw_parts(bytes.cast::<u8>(), count);
        if gathered(file).take_along(bytes, at) {
            return ffi::SQLITE_OK;
        }
        let code = write_gathered(file);
        if code != ffi::SQLITE_OK || gathered(file).take_along(bytes, at) {
            return code;
        }
        write_inner(file, bytes, at)
    }
}

/// What the file inside says once everything that was gathered is in it.
macro_rules! after_writing {
    ($name:ident, $method:ident, $otherwise:expr $(, $argument:ident: $kind:ty)*) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> c_int {
            unsafe {
                let code = write_gathered(file);
                if code != ffi::SQLITE_OK {
                    return code;
                }
                let inner = inner(file);
                match methods(inner).and_then(|methods| methods.$method) {
                    Some(method) => method(inner $(, $argument)*),
                    None => $otherwise,
                }
            }
        }
    };
}

after_writing!(read, xRead, ffi::SQLITE_IOERR_READ, into: *mut c_void, count: c_int, at: sqlite3_int64);
after_writing!(truncate, xTruncate, ffi::SQLITE_IOERR_TRUNCATE, size: sqlite3_int64);
after_writing!(sync, xSync, ffi::SQLITE_IOERR_FSYNC, flags: c_int);
after_writing!(file_size, xFileSize, ffi::SQLITE_IOERR_FSTAT, size: *mut sqlite3_int64);
after_writing!(lock, xLock, ffi::SQLITE_IOERR_LOCK, level: c_int);
after_writing!(unlock, xUnlock, ffi::SQLITE_IOERR_UNLOCK, level: c_int);
after_writing!(check_reserved_lock, xCheckReservedLock, ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, result: *mut c_int);
after_writing!(file_control, xFileControl, ffi::SQLITE_NOTFOUND, operation: c_int, argument: *mut c_void);

// These two say something of the device, and no code of an error.

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let inner = inner(file);
        match methods(inner).and_then(|methods| methods.xSectorSize) {
            Some(method) => method(inner),
            None => 0,
        }
    }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let inner = inner(file);
        match methods(inner).and_then(|methods| methods.xDeviceCharacteristics) {
            Some(method) => method(inner),
            None => 0,
        }
    }
}
