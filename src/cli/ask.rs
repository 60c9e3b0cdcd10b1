//! `ask`: ask an agent a question, and print its answer.

use super::{
    context::GlobalOptions,
    escape::{escaped, escaped_text},
    failure::{DONE, Failure, TIMED_OUT},
    print::{Out, compact},
    send::{join_as, not_delivered, text_or_input},
    values::{agent_name, importance, milliseconds},
    wrapped::hops,
};
use crate::{
    client::{Answer, ClientError, Outgoing},
    protocol::{
        code::NackCode,
        name::{EVERYONE, RELAY},
        payload::Sync,
    },
};
use argh::{ArgsInfo, FromArgs};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// Ask an agent a question, wait for its answer, and print it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "ask",
    help_triggers("--help"),
    example = "agent-relay ask Bob \"Which port does the server use?\"",
    example = "agent-relay ask --as Ann --timeout 5m Bob - < question.txt",
    note = "Without an answer in time the exit code is 4; the question still reaches the agent.",
    note = "`agent-relay help send` shows how to give a longer text."
)]
pub(super) struct Ask {
    /// the name to send as; default: @operator, or in a wrapped agent its name
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    from: Option<String>,

    /// the file with the name's key, if it has one; default: keys/NAME in the home
    #[argh(option, arg_name = "file")]
    key_file: Option<String>,

    /// the time to wait for the answer, at most 1h; default: 30s
    #[argh(option, arg_name = "time", from_str_fn(milliseconds), default = "Sync::TIMEOUT_MS")]
    timeout: u64,

    /// the importance, from 0 to 100; above 75 it is typed in before others that wait
    #[argh(option, arg_name = "number", from_str_fn(importance))]
    importance: Option<u8>,

    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the agent's name
    #[argh(positional, arg_name = "agent")]
    to: String,

    /// the text; - or nothing reads standard input
    #[argh(positional, arg_name = "body")]
    body: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

impl Ask {
    pub(super) fn run(self, options: &GlobalOptions) -> Result<i32, Failure> {
        if self.timeout > Sync::TIMEOUT_MS_MAX {
            return Err(Failure::usage("--timeout is at most 1h"));
        }
        if [EVERYONE, RELAY].contains(&self.to.as_str()) {
            return Err(Failure::usage("a question goes to one agent").hint("give its name"));
        }
        let body = text_or_input(self.body.as_deref(), "ask", &self.to)?;
        let client = join_as(self.from.as_deref(), self.key_file.as_deref(), options)?;
        let mut question = Outgoing::message(self.to.as_str(), body);
        question.meta.importance = self.importance;
        question.meta.hops = hops(&self.to);
        let answer = client.ask(question, Duration::from_millis(self.timeout));
        let answer = answer.map_err(|error| match error {
            ClientError::Refused(nack) if nack.code == NackCode::SyncTimeout.as_str() => {
                Failure::new(TIMED_OUT, escaped(&nack.message))
            }
            ClientError::Refused(nack) => not_delivered(&client, &self.to, &nack),
            other => other.into(),
        })?;
        self.report(&answer)?;
        Ok(DONE)
    }

    fn report(&self, answer: &Answer) -> Result<(), Failure> {
        let mut out = Out::new();
        let Answer { from, response, data } = answer;
        if self.json {
            let report = Report { from, response: *response, data: data.as_deref() };
            return out.json("answer", &report);
        }
        out.line(answer_text(answer))
    }
}

/// The text of an answer, escaped.
pub(super) fn answer_text(answer: &Answer) -> String {
    match (answer.body(), &answer.data, answer.response) {
        (Some(body), ..) => escaped_text(&body),
        (None, Some(data), _) => escaped_text(&compact(data)),
        (None, None, Some(true)) => "yes".to_owned(),
        (None, None, Some(false)) => "no".to_owned(),
        (None, None, None) => "(no text)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_shown_as_escaped_text() {
        let shown = |response, data: Option<&str>| {
            let data = data.map(|data| RawValue::from_string(data.to_owned()).unwrap());
            answer_text(&Answer { from: "Bob".to_owned(), response, data })
        };
        assert_eq!(shown(Some(true), Some(r#"{"body":"a\u001b[2J\nb","n":1}"#)), "a\\u{1b}[2J\nb");
        assert_eq!(shown(None, Some("{\"port\":\n80}")), "{\"port\": 80}");
        assert_eq!(shown(Some(true), None), "yes");
        assert_eq!(shown(Some(false), None), "no");
    }
}
