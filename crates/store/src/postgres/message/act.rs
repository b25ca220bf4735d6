//! What operators do to messages, with an audit entry each.

use std::collections::HashMap;

use deadpool_postgres::ClientWrapper;
use posthaste_core::message::{MessageAction, MessageId, MessageState};
use posthaste_core::port::{Actor, MessageActed, StoreResult};

use super::super::PostgresStore;
use super::super::books::{INSERT_AUDIT, Pipeline, values};
use super::super::error::Trouble;
use super::super::listener::NOTIFY;
use super::Patience;
use super::count::send_moves;
use super::row::{set_state, state_arrays, state_names, state_values};
use crate::message::{Moves, act, audited, count};

const UPDATE: &str = concat!(
    "UPDATE retry_queue q SET ",
    set_state!(),
    ", token = u.token FROM unnest(",
    state_arrays!(),
    ", $12::uuid[]) AS u (",
    state_names!(""),
    ", message_id) WHERE q.message_id = u.message_id"
);

impl PostgresStore {
    pub(in crate::postgres) async fn act_on_each(
        &self,
        ids: Vec<MessageId>,
        action: MessageAction,
        actor: &Actor,
    ) -> StoreResult<Vec<MessageActed>> {
        let mut patience = Patience::default();
        loop {
            let acted = self.messages.run(async |client: &ClientWrapper| {
                self.act_within(client, &ids, action, actor, &patience)
                    .await
            });
            let acted = acted.await;
            if let Some((acted, is_news)) = patience.judge(acted)? {
                if is_news {
                    self.bell.ring();
                }
                return Ok(acted);
            }
        }
    }

    /// Acts in one transaction. Says what became of each, and whether anything changed.
    async fn act_within(
        &self,
        client: &ClientWrapper,
        ids: &[MessageId],
        action: MessageAction,
        actor: &Actor,
        patience: &Patience,
    ) -> Result<(Vec<MessageActed>, bool), Trouble> {
        client.batch_execute("BEGIN").await?;
        let mut known = self.known(client, ids).await?;
        let mut changed = HashMap::<MessageId, MessageState>::new();
        let mut moves = Moves::new();
        let mut audit = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let before = known.states.get(id);
            let (acted, next) = act(before, action, known.now);
            if let Some(next) = next {
                count(
                    &mut moves,
                    before.map(|state| state.status),
                    Some(next.status),
                );
                changed.insert(*id, next.clone());
                known.states.insert(*id, next);
            }
            if let Some(result) = audited(&acted) {
                let entry = [&actor.name, action.name(), &id.to_string(), result];
                for (column, value) in audit.iter_mut().zip(entry) {
                    column.push(value.to_owned());
                }
            }
            answers.push(acted);
        }
        let mut pipeline = Pipeline::new(client);
        if !changed.is_empty() {
            let mut values = state_values(&changed.values().collect::<Vec<_>>());
            values.extend(values![changed.keys().map(|id| id.0).collect::<Vec<_>>()]);
            pipeline.send(UPDATE, values).await?;
            if let Some((channel, us)) = self.bell.inside() {
                pipeline.send(NOTIFY, values![channel, us]).await?;
            }
        }
        let [actors, actions, subjects, results] = audit;
        if !actors.is_empty() {
            let values = values![actors, actions, subjects, results, known.now];
            pipeline.send(INSERT_AUDIT, values).await?;
        }
        send_moves(&mut pipeline, &moves).await?;
        patience.commits();
        pipeline.commit();
        pipeline.finish().await?;
        Ok((answers, !changed.is_empty()))
    }
}
