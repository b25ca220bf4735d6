//! SQLite's way to the operating system, with our own log files.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};

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

/// Whether nothing is written to the log between the last sync of a commit and the moment others are
/// told of it. Where a loss of power may spoil what stands beside a write, SQLite fills up the sector
/// behind a commit, and part of that comes after the sync.
pub(crate) fn commits_end_with_a_sync(connection: &Connection) -> bool {
    // To ask and not to set it.
    let mut is_safe: c_int = -1;
    // SAFETY: the connection is open, and what is asked for is written to an int.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE,
            (&raw mut is_safe).cast(),
        )
    };
    code == ffi::SQLITE_OK && is_safe == 1
}

/// Our VFS, and the default one when it was registered.
#[repr(C)]
struct Vfs {
    base: ffi::sqlite3_vfs,
    default: *mut ffi::sqlite3_vfs,
}

/// Registers a copy of the default, which differs in how it opens files.
fn register() -> c_int {
    // SAFETY: the default is found once SQLite is initialised, is valid for ever, and is only read.
    // SQLite wants ours to live as long: it is leaked, once. It begins with what SQLite knows of it.
    unsafe {
        let code = ffi::sqlite3_initialize();
        if code != ffi::SQLITE_OK {
            return code;
        }
        let default = ffi::sqlite3_vfs_find(ptr::null());
        if default.is_null() {
            return ffi::SQLITE_ERROR;
        }
        let mut base = *default;
        base.pNext = ptr::null_mut();
        base.zName = NAME.as_ptr();
        base.szOsFile += log_file::BYTES_BEFORE_INNER;
        base.xOpen = Some(open);
        let ours = Box::leak(Box::new(Vfs { base, default }));
        ffi::sqlite3_vfs_register(ptr::from_mut(ours).cast(), 0)
    }
}

/// Opens a file as the default does; a log comes inside of one of ours.
///
/// # Safety
///
/// As SQLite calls it: `file` has room for `szOsFile` octets.
unsafe extern "C" fn open(
    ours: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: ours is the one that was registered, and the default lives as long. The rest is handed
    // on as it came, with the room that the default asks for.
    unsafe {
        let default = (*ours.cast::<Vfs>()).default;
        let Some(open) = default.as_ref().and_then(|default| default.xOpen) else {
            return ffi::SQLITE_CANTOPEN;
        };
        if flags & ffi::SQLITE_OPEN_WAL == 0 {
            return open(default, name, file, flags, flags_out);
        }
        log_file::open(file, |inner| open(default, name, inner, flags, flags_out))
    }
}
