//! The adapters for providers' HTTP APIs, each against a local server that expects the documented
//! request and gives the documented answers.

mod check;
mod config;
mod failure;
mod letter;
mod mailgun;
mod postmark;
mod recipient;
mod resend;
mod sendgrid;
mod server;
mod ses;
mod template;
