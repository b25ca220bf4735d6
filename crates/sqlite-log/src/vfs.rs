//! SQLite's way to the operating system, with our own log files.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi;

use crate::log_file;

const NAME: &CStr = c"posthaste";

/// The name to open a file with. The first time, SQLite is told of it.
pub(crate) fn name() -> rusqlite::Result<&'static CStr> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    match *REGISTERED.get_or_init(register) {
        ffi::SQLITE_OK => Ok(NAME),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

/// Registers a copy of the default, which differs in how it opens files.
fn register() -> c_int {
    // SAFETY: the default is found once SQLite is initialised, is valid for ever, and is only read.
    // SQLite wants ours to live as long: it is leaked, once.
    unsafe {
        let code = ffi::sqlite3_initialize();
        if code != ffi::SQLITE_OK {
            return code;
        }
        let default = ffi::sqlite3_vfs_find(ptr::null());
        if default.is_null() {
            return ffi::SQLITE_ERROR;
        }
        let ours = Box::leak(Box::new(*default));
        ours.pNext = ptr::null_mut();
        ours.zName = NAME.as_ptr();
        ours.szOsFile += log_file::BYTES_BEFORE_INNER;
        ours.xOpen = Some(open);
        ffi::sqlite3_vfs_register(ours, 0)
    }
}

/// Opens a file as the default does; a log comes inside of one of ours.
///
/// # Safety
///
/// As SQLite calls it: `file` has room for `szOsFile` octets.
unsafe extern "C" fn open(
    _ours: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: the default was there when ours was registered, and nobody removes it. The rest is
    // handed on as it came, with the room that the default asks for.
    unsafe {
        let default = ffi::sqlite3_vfs_find(ptr::null());
        let Some(open) = default.as_ref().and_then(|default| default.xOpen) else {
            return ffi::SQLITE_CANTOPEN;
        };
        if flags & ffi::SQLITE_OPEN_WAL == 0 {
            return open(default, name, file, flags, flags_out);
        }
        log_file::open(file, |inner| open(default, name, inner, flags, flags_out))
    }
}
