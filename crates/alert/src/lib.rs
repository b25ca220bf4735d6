//! Tells a team that emails died: Slack, PagerDuty, signed webhooks.
