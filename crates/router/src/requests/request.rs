//! Requests to `@relay`, and the parsing of their data.

use crate::send_request::Refusal;
use protocol::{
    code::NackCode,
    name::{NAME_BYTES_MAX, Name, RELAY},
    payload::MessagePayload,
    record::DeliveryRow,
    relay::{
        ActivityRequest, ForgetRequest, HistoryRequest, InboxRequest, MessageRequest, Page,
        PurgeRequest, REQUEST, RedeliverRequest, RenameRequest, ReportRequest, RequestName, Stop,
        TakeRequest, Tap,
    },
    text::{Quoted, short_id},
    typed,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The longest `data` of a request, which is held while the request waits.
const DATA_BYTES_MAX: usize = 2_048;

/// The most words of a search, each of which is looked for in every text that is read.
const SEARCH_WORDS_MAX: usize = 32;

/// The rows of a page if its request states no limit, and the most rows of a page.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1_000;

/// A request to `@relay`.
#[derive(Debug)]
pub(super) enum Request {
    Status,
    Agents(Page),
    Message(MessageRequest),
    Inbox(InboxRequest),
    Take(TakeRequest),
    History(HistoryRequest),
    DeadLetters(Page),
    Redeliver(RedeliverRequest),
    Forget(ForgetRequest),
    Rename(RenameRequest),
    Purge(PurgeRequest),
    Report(ReportRequest),
    Activity(ActivityRequest),
    Tap(Tap),
    Reload,
    /// Stops the daemon, with the reason that BYE states.
    Stop(&'static str),
}

impl Request {
    pub(super) fn parse(spoken: &MessagePayload<'_>) -> Result<Self, Refusal> {
        let invalid = |why| (NackCode::Invalid, why);
        if spoken.kind != REQUEST {
            return Err(invalid(format!("{RELAY} answers SENDs of kind {REQUEST:?}")));
        }
        let name = RequestName::parse(&spoken.body).ok_or_else(|| unknown(&spoken.body))?;
        Ok(match name {
            RequestName::Status => Self::Status,
            RequestName::Agents => Self::Agents(data(spoken)?),
            RequestName::Message => Self::Message(data(spoken)?),
            RequestName::Inbox => Self::Inbox(data(spoken)?),
            RequestName::Take => Self::Take(data(spoken)?),
            RequestName::History => Self::History(data(spoken)?),
            RequestName::DeadLetters => Self::DeadLetters(data(spoken)?),
            RequestName::Redeliver => Self::Redeliver(data(spoken)?),
            RequestName::Forget => Self::Forget(data(spoken)?),
            RequestName::Rename => Self::Rename(data(spoken)?),
            RequestName::Purge => Self::Purge(data(spoken)?),
            RequestName::Report => Self::Report(data(spoken)?),
            RequestName::Activity => Self::Activity(data(spoken)?),
            RequestName::Tap => Self::Tap(data(spoken)?),
            RequestName::Stop => Self::Stop(reason(&data::<Stop>(spoken)?)?),
            RequestName::Reload => Self::Reload,
        })
    }

    /// Whether the answer has rows, as many as fit into a frame.
    pub(super) const fn has_rows(&self) -> bool {
        match self {
            Self::Agents(_)
            | Self::Message(_)
            | Self::Inbox(_)
            | Self::History(_)
            | Self::DeadLetters(_) => true,
            Self::Status
            | Self::Take(_)
            | Self::Redeliver(_)
            | Self::Forget(_)
            | Self::Rename(_)
            | Self::Purge(_)
            | Self::Report(_)
            | Self::Activity(_)
            | Self::Tap(_)
            | Self::Reload
            | Self::Stop(_) => false,
        }
    }

    /// Returns the name of the request.
    pub(super) const fn name(&self) -> RequestName {
        match self {
            Self::Status => RequestName::Status,
            Self::Agents(_) => RequestName::Agents,
            Self::Message(_) => RequestName::Message,
            Self::Inbox(_) => RequestName::Inbox,
            Self::Take(_) => RequestName::Take,
            Self::History(_) => RequestName::History,
            Self::DeadLetters(_) => RequestName::DeadLetters,
            Self::Redeliver(_) => RequestName::Redeliver,
            Self::Forget(_) => RequestName::Forget,
            Self::Rename(_) => RequestName::Rename,
            Self::Purge(_) => RequestName::Purge,
            Self::Report(_) => RequestName::Report,
            Self::Activity(_) => RequestName::Activity,
            Self::Tap(_) => RequestName::Tap,
            Self::Reload => RequestName::Reload,
            Self::Stop(_) => RequestName::Stop,
        }
    }
}

/// Refuses a request that does not exist.
fn unknown(body: &str) -> Refusal {
    let (last, others) = RequestName::ALL.split_last().expect("there are requests");
    let others: Vec<_> = others.iter().map(|name| name.as_str()).collect();
    let others = others.join(", ");
    let message = format!("{} is no request; ask for {others} or {last}", Quoted(body));
    (NackCode::Invalid, message)
}

/// Returns the reason that BYE states.
fn reason(stop: &Stop) -> Result<&'static str, Refusal> {
    match stop.reason.as_deref() {
        None | Some("stop") => Ok("stop"),
        Some("upgrade") => Ok("upgrade"),
        Some(other) => Err((
            NackCode::Invalid,
            format!("the data of \"stop\": reason {} is neither stop nor upgrade", Quoted(other)),
        )),
    }
}

fn data<T: DeserializeOwned>(spoken: &MessagePayload<'_>) -> Result<T, Refusal> {
    let json = spoken.data.map_or("{}", RawValue::get);
    let refused =
        |why: String| (NackCode::Invalid, format!("the data of {:?}: {why}", spoken.body));
    if json.len() > DATA_BYTES_MAX {
        return Err(refused(format!("it may be {DATA_BYTES_MAX} bytes long")));
    }
    // serde would also accept a list of the members' values.
    if !json.starts_with('{') {
        return Err(refused("it is not an object".to_owned()));
    }
    typed::read(json).map_err(refused)
}

/// Parses the name that a request is about.
pub(super) fn name(text: &str) -> Result<Name, Refusal> {
    if text.starts_with('@') && text.len() <= NAME_BYTES_MAX {
        return Ok(Name::made_by_daemon(text));
    }
    Name::parse_any(text)
        .map_err(|why| (NackCode::Invalid, format!("{} is nobody's name: {why}", Quoted(text))))
}

/// Returns how many rows a page may have.
pub(super) fn rows_wanted(limit: Option<usize>) -> usize {
    limit.unwrap_or(ROWS).clamp(1, ROWS_MAX)
}

/// Parses a cursor: the number of the delivery that a page ended with.
pub(super) fn cursor(text: Option<&str>) -> Result<Option<u64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        (NackCode::Invalid, "a cursor is the `next_cursor` of the page before it".to_owned())
    })
}

/// The most ids of which a refusal tells.
const CANDIDATES_MAX: usize = 10;

/// Refuses the beginning of several ids.
pub(super) fn check_is_one(id: &str, rows: &[DeliveryRow]) -> Result<(), Refusal> {
    let uuid = Uuid::try_parse(id).ok();
    let is_whole = |row: &DeliveryRow| &*row.message.send_id == id || Some(row.delivery.id) == uuid;
    if rows.iter().any(is_whole) {
        return Ok(());
    }
    let mut sends: BTreeMap<_, Vec<&DeliveryRow>> = BTreeMap::new();
    for row in rows {
        sends.entry((row.message.sender, &*row.message.send_id)).or_default().push(row);
    }
    if sends.len() <= 1 {
        return Ok(());
    }
    let count = sends.len();
    let shown = candidates(sends.into_iter().map(|((_, send_id), rows)| match &*rows {
        [row] => row.delivery.id.to_string(),
        _ => send_id.to_owned(),
    }));
    let message = format!("{count} ids begin with {}, among them {shown}", Quoted(id));
    Err((NackCode::Invalid, message))
}

/// Refuses an id that SENDs of several agents have: whoever knows the id of another's SEND may use
/// it, too.
pub(super) fn check_one_sender(id: &str, rows: &[DeliveryRow]) -> Result<(), Refusal> {
    let senders: BTreeMap<u64, &DeliveryRow> =
        rows.iter().map(|row| (row.message.sender, row)).collect();
    if senders.len() <= 1 {
        return Ok(());
    }
    let (count, id) = (senders.len(), Quoted(id));
    let shown = candidates(senders.values().map(|row| row.delivery.id.to_string()));
    let message =
        format!("SENDs of {count} agents have the id {id}: name a delivery's, such as {shown}");
    Err((NackCode::Invalid, message))
}

/// Lists the first of the ids that a refusal offers.
fn candidates(ids: impl Iterator<Item = String>) -> String {
    let shown: Vec<_> = ids.take(CANDIDATES_MAX).map(|id| short_id(&id)).collect();
    shown.join(", ")
}

/// Refuses a search for too many words.
pub(super) fn check_search(text: &str) -> Result<(), Refusal> {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    match words.filter(|word| !word.is_empty()).count() > SEARCH_WORDS_MAX {
        true => {
            let why = format!("`search` has more than {SEARCH_WORDS_MAX} words: leave some out");
            Err((NackCode::Invalid, why))
        }
        false => Ok(()),
    }
}

pub(super) fn not_found(id: &str) -> Refusal {
    (
        NackCode::NotFound,
        format!("{} is not a message's id, or that message is no longer kept", Quoted(id)),
    )
}
