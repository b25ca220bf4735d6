//! Files in `tests/golden` that say what comes out, octet by octet.
//!
//! `UPDATE_GOLDEN=1 cargo test -p posthaste --test it calendar` writes them anew. Read the
//! difference before you commit it: it is what mail readers will see.

use std::path::Path;

/// Compares with a file, or writes it.
pub(crate) fn compare(name: &str, content: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, content).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        content == expected,
        "not as in {}; it is\n{content}",
        path.display()
    );
}
