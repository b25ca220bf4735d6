//! What operators do to messages, with an audit entry each.

use posthaste_core::message::{MessageAction, MessageId};
use posthaste_core::port::{Actor, MessageActed, StoreResult};

use super::super::SqliteStore;
use super::super::act::audit;
use super::super::writer::Flush;
use super::count::record;
use super::row;
use crate::message::{Moves, act, audited, count};

impl SqliteStore {
    pub(in crate::sqlite) async fn act_on_each(
        &self,
        ids: Vec<MessageId>,
        action: MessageAction,
        actor: &Actor,
    ) -> StoreResult<Vec<MessageActed>> {
        let actor = actor.name.clone();
        self.writer
            .run(move |flush| {
                ids.iter()
                    .map(|id| act_on(flush, *id, action, &actor))
                    .collect()
            })
            .await
    }
}

fn act_on(
    flush: &Flush<'_>,
    id: MessageId,
    action: MessageAction,
    actor: &str,
) -> rusqlite::Result<MessageActed> {
    let known = row::load(flush, id)?;
    let (acted, next) = act(known.as_ref().map(|(_, state)| state), action, flush.now());
    if let (Some((number, before)), Some(next)) = (known, next) {
        row::save(flush, number, &next)?;
        let mut moves = Moves::new();
        count(&mut moves, Some(before.status), Some(next.status));
        record(flush, &moves)?;
    }
    if let Some(result) = audited(&acted) {
        audit(flush, actor, action.name(), &id.to_string(), result)?;
    }
    Ok(acted)
}
