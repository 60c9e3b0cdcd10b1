//! Tables of members, tags and codes that are written by hand, since their texts say more than the
//! code's comments. Their first columns are compared with the code.

use super::{
    CONFIGURATION, PROTOCOL, RELAY_API, WRAPPER,
    comments::{Documented, members},
    constant, first_of_path, part, rows, ticked, ticks,
};
use protocol::{activity::Activity, relay::REPORTS};
use std::{collections::BTreeSet, process::Command};
use terminal::agents::AGENTS;

const AGENTS_PAGE: &str = include_str!("../../../docs/AGENTS.md");
const GUIDE: &str = include_str!("../../../docs/GUIDE.md");
const MCP: &str = include_str!("../../../docs/MCP.md");
const PAYLOAD: &str = "crates/protocol/src/payload.rs";
const RELAY: &str = "crates/protocol/src/relay.rs";
const CONTROL: &str = "crates/protocol/src/control.rs";

/// A table, by its document and the beginning of its heading, and the struct that has its members.
type MemberTable = (&'static str, &'static str, &'static str, &'static str);

const MEMBER_TABLES: [MemberTable; 17] = [
    (PROTOCOL, "| ERROR's payload |", PAYLOAD, "ErrorPayload"),
    (PROTOCOL, "| member | kind | meaning |", PAYLOAD, "MessagePayload"),
    (PROTOCOL, "| HELLO's payload |", PAYLOAD, "Hello"),
    (PROTOCOL, "| `capabilities` | kind |", PAYLOAD, "Capabilities"),
    (PROTOCOL, "| WELCOME's payload |", PAYLOAD, "Welcome"),
    (PROTOCOL, "| `delivery` | kind |", "crates/protocol/src/deliver.rs", "Delivery"),
    (PROTOCOL, "| `payload_meta` | kind |", PAYLOAD, "Meta"),
    (PROTOCOL, "| ACK's payload, ", PAYLOAD, "Ack"),
    (PROTOCOL, "| NACK's payload, ", PAYLOAD, "Nack"),
    (PROTOCOL, "| `sync` | kind |", PAYLOAD, "Sync"),
    (PROTOCOL, "| BUSY's payload |", PAYLOAD, "Busy"),
    (RELAY_API, "| `data` | unit |", RELAY, "Status"),
    (RELAY_API, "| `data` | kind | meaning |\n|---|---|---|\n| `id`, `to` |", RELAY, "Unread"),
    (RELAY_API, "| `data` | meaning |\n|---|---|\n| `activity` |", RELAY, "ActivityRequest"),
    (RELAY_API, "| `data` | kind | meaning |\n|---|---|---|\n| `id`, `seq` |", RELAY, "TapCopy"),
    (RELAY_API, "| `data` | kind | meaning |\n|---|---|---|\n| `kind` |", RELAY, "Change"),
    (PROTOCOL, "| WELCOME's payload |", PAYLOAD, "Server"),
];

/// The members that a table leaves out, since the text explains them.
const ELSEWHERE: [(&str, &str); 2] = [("Nack", "retry_after_ms"), ("Meta", "hops")];

#[test]
fn member_tables_have_the_members_of_the_code() {
    for (document, heading, path, item) in MEMBER_TABLES {
        let cells = first_cells(document, heading);
        let shown = cells.iter().flat_map(|cell| ticked(cell));
        let shown: BTreeSet<_> = match item {
            "Server" => shown.filter_map(|name| name.strip_prefix("server.")).collect(),
            _ => shown.map(first_of_path).collect(),
        };
        let fields = members(path, item);
        let names: BTreeSet<_> = fields.iter().map(|field| wire_name(item, field)).collect();
        let left_out = |name: &&String| !ELSEWHERE.contains(&(item, name));
        let names: BTreeSet<_> = names.iter().filter(left_out).map(String::as_str).collect();
        assert_eq!(shown, names, "{heading} {item}");
    }
}

#[test]
fn requests_and_answers_of_wrappers_are_those_of_the_code() {
    for (heading, item) in [("| request |", "Request"), ("| answer |", "Answer")] {
        let shown: BTreeSet<_> = first_cells(WRAPPER, heading)
            .iter()
            .flat_map(|cell| cell.split(", ").map(str::to_lowercase))
            .collect();
        let variants = members(CONTROL, item).into_iter().map(|variant| variant.name);
        let variants = variants.filter(|name| name.starts_with(char::is_uppercase));
        assert_eq!(shown, variants.map(|name| name.to_lowercase()).collect(), "{item}");
    }
}

#[test]
fn words_in_tables_are_those_of_the_code() {
    let activities: BTreeSet<_> = Activity::ALL.iter().map(|activity| activity.as_str()).collect();
    let states = rows(part(GUIDE, "### ", "What an agent does"));
    let shown = states.filter_map(|row| ticked(row[1]).first().copied());
    assert_eq!(shown.collect::<BTreeSet<_>>(), activities);
    let words = |document, heading| {
        let cells = first_cells(document, heading).into_iter();
        cells.map(|cell| ticked(cell)[0]).collect::<Vec<_>>()
    };
    assert_eq!(words(part(RELAY_API, "## ", "report\n"), "| `state` | means |"), REPORTS);

    let tools = include_str!("../../../src/mcp/tools.rs");
    let (_, tools) = tools.split_once("TOOLS: ").expect("the tools");
    let (tools, _) = tools.split_once("\n];").expect("they end");
    let tools: Vec<_> = tools.split("        name: \"").skip(1).collect();
    let tools = tools.iter().map(|rest| rest.split_once('"').expect("a name").0);
    assert_eq!(words(MCP, "| tool |"), tools.collect::<Vec<_>>());
}

#[test]
fn abilities_of_agent_clis_are_those_of_the_code() {
    for agent in AGENTS {
        let mut table = rows(part(AGENTS_PAGE, "## ", "At a glance"));
        let row = table.find(|row| row[0] == ticks(agent.name)).expect("a row of each agent CLI");
        let is = |cell: usize, word| row[cell] == word;
        let shown = [is(4, "its transcript"), is(6, "yes"), is(7, "yes")];
        let known = [agent.transcript.is_some(), agent.mcp.is_some(), agent.resume.is_some()];
        assert_eq!(shown, known, "{}: transcript, MCP, restore", agent.name);
    }
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_agent-relay")).args(["help", "all"]).output();
    let help = String::from_utf8(help.expect("the program runs").stdout).expect("text");
    let (_, codes) = help.split_once("\nExit codes:\n").expect("the exit codes");
    let codes = codes.lines().filter_map(|line| line.split_whitespace().next());
    let codes: Vec<_> = codes.collect();
    assert_eq!(first_cells(CONFIGURATION, "| exit code |"), codes);
}

#[test]
fn limits_of_the_mcp_server_are_those_of_the_code() {
    let pages = include_str!("../../../src/mcp/pages.rs");
    let calls = include_str!("../../../src/cli/mcp/calls.rs");
    let server = include_str!("../../../src/cli/mcp.rs");
    let limits = [
        constant(pages, "PAGE_BYTES"),
        constant(pages, "TEXTS_MAX"),
        constant(calls, "OUTPUT_BYTES_MAX"),
        constant(include_str!("../../../src/mcp.rs"), "CALLS_MAX"),
        constant(server, "LINE_BYTES_MAX"),
    ];
    let shown = rows(part(MCP, "## ", "Limits")).map(|row| row[1].to_owned());
    let number = |cell: String| {
        let digits = cell.find(|c: char| !c.is_ascii_digit()).unwrap_or(cell.len());
        cell[..digits].parse::<u64>().expect("a number")
    };
    assert_eq!(shown.map(number).collect::<Vec<_>>(), limits);
}

/// The first cells of the tables whose heading begins so. Of a heading with a first row, only the
/// table that begins with that row.
fn first_cells(document: &'static str, heading: &str) -> Vec<&'static str> {
    let opening = format!("\n{heading}");
    let tables = document.match_indices(&opening).map(|(at, _)| {
        let table = &document[at + 1..];
        table.split_once("\n\n").map_or(table, |(table, _)| table)
    });
    let cells: Vec<_> = tables.flat_map(|table| rows(table).map(|row| row[0])).collect();
    assert!(!cells.is_empty(), "no table {heading:?}");
    cells
}

/// The name of a member on the wire.
fn wire_name(item: &str, field: &Documented) -> String {
    let at = field.code.iter().position(|word| word == "rename");
    let renamed = at.map(|at| field.code[at + 2].trim_matches('"').to_owned());
    // `Sync` is the only struct in camel case.
    let camel = || match item {
        "Sync" => {
            let mut words = field.name.split('_');
            let first = words.next().unwrap_or_default().to_owned();
            words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
        }
        _ => field.name.clone(),
    };
    renamed.unwrap_or_else(camel)
}
