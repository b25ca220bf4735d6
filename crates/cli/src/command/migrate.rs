//! Brings the database to the present schema.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::output;
use crate::wiring::{self, Opener};

pub(crate) async fn run(global: &Global) -> anyhow::Result<Exit> {
    let settings = wiring::load_config(global, None)?.settings;
    // Opening a store migrates it.
    wiring::open_store(&settings, Opener::Command).await?;
    output::line(&format!("{} is up to date", settings.database()?));
    Ok(Exit::Ok)
}
