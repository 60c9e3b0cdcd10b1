//! `ask`: put a question to an agent, and wait for its answer.

use super::{
    DONE, Failure, TIMED_OUT, argv,
    ask::{agent_name, importance, milliseconds},
    input,
    place::Asked,
    print::{Out, compact, foreign, foreign_line},
    send::{BODY_BYTES_MAX, join_as, not_delivered},
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

/// Ask an agent something, wait for its answer, and print it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "ask",
    help_triggers("--help"),
    example = "agent-relay ask Bob \"Which port does the server use?\"",
    example = "agent-relay ask --as Ann --timeout 5m Bob - < question.txt",
    note = "Without an answer in time, the exit code is 4; the question itself still reaches the agent.",
    note = "`agent-relay help send` says how each shell gives a text."
)]
pub(super) struct Ask {
    /// in whose name; without it you are @operator, and inside a wrapped agent that agent
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    from: Option<String>,

    /// where the key is of the name, if it has one; keys/NAME in the home where absent
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    key_file: Option<String>,

    /// how long to wait for the answer, at most 1h; 30s where absent
    #[argh(option, arg_name = "time", from_str_fn(milliseconds), default = "Sync::TIMEOUT_MS")]
    timeout: u64,

    /// how urgent, from 0 to 100; above 75 it is typed into an agent before what else waits
    #[argh(option, arg_name = "number", from_str_fn(importance))]
    importance: Option<u8>,

    /// print JSON
    #[argh(switch)]
    json: bool,

    /// the agent's name
    #[argh(positional, arg_name = "to", from_str_fn(argv::text))]
    to: String,

    /// the text; - reads standard input
    #[argh(positional, arg_name = "body", from_str_fn(argv::text))]
    body: String,
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
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        if self.timeout > Sync::TIMEOUT_MS_MAX {
            return Err(Failure::usage("--timeout is at most 1h"));
        }
        if [EVERYONE, RELAY].contains(&self.to.as_str()) {
            return Err(Failure::usage("a question goes to one agent: name it"));
        }
        let body = match self.body.as_str() {
            "-" => input::read_text(None, BODY_BYTES_MAX)?,
            body => body.to_owned(),
        };
        let client = join_as(self.from.as_deref(), self.key_file.as_deref(), asked)?;
        let mut question = Outgoing::message(self.to.as_str(), body);
        question.meta.importance = self.importance;
        let answer = client.ask(question, Duration::from_millis(self.timeout));
        let answer = answer.map_err(|error| match error {
            ClientError::Refused(nack) if nack.code == NackCode::SyncTimeout.as_str() => {
                Failure::new(TIMED_OUT, foreign_line(&nack.message))
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
        out.line(words(answer))
    }
}

/// What was answered, as a text that acts on no terminal.
pub(super) fn words(answer: &Answer) -> String {
    match (answer.body(), &answer.data, answer.response) {
        (Some(body), ..) => foreign(&body),
        (None, Some(data), _) => foreign(&compact(data)),
        (None, None, Some(true)) => "yes".to_owned(),
        (None, None, Some(false)) => "no".to_owned(),
        (None, None, None) => "(no words)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_as_a_harmless_text() {
        let shown = |response, data: Option<&str>| {
            let data = data.map(|data| RawValue::from_string(data.to_owned()).unwrap());
            words(&Answer { from: "Bob".to_owned(), response, data })
        };
        assert_eq!(shown(Some(true), Some(r#"{"body":"a\u001b[2J\nb","n":1}"#)), "a\\u{1b}[2J\nb");
        assert_eq!(shown(None, Some("{\"port\":\n80}")), "{\"port\": 80}");
        assert_eq!(shown(Some(true), None), "yes");
        assert_eq!(shown(Some(false), None), "no");
    }
}
