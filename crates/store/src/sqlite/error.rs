//! SQLite's errors in the words of the port.

use posthaste_core::port::StoreError;
use rusqlite::ErrorCode;

pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::CannotOpen) => {
            StoreError::Unavailable(error.to_string())
        }
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied,
        ) => StoreError::CannotWrite(error.to_string()),
        _ => StoreError::Failed(error.to_string()),
    }
}
