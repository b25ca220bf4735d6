//! Brings the database to the present schema.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::{output, wiring};

pub(crate) fn run(global: &Global) -> anyhow::Result<Exit> {
    let settings = wiring::load_config(global, None)?.settings;
    // Opening a store migrates it.
    wiring::open_store(&settings)?;
    output::line(&format!(
        "{} is up to date",
        settings.sqlite_path()?.display()
    ));
    Ok(Exit::Ok)
}
