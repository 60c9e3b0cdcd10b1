//! `agents --why`: the facts that a wrapper knows about its terminal, and its decision.

use crate::cli::{
    failure::{DONE, Failure},
    print::Out,
    table::Column,
    wrapped::{self, ANSWER},
};
use client::home::HomeOptions;
use protocol::{
    control::{Answer, Request},
    text::escaped,
};

/// The columns of the facts.
const COLUMNS: [Column; 3] = [Column::whole("FACT"), Column::whole("KNOWN"), Column::whole("BY")];

/// Prints the decision of the agent's wrapper, and the facts behind it.
pub(super) fn run(options: &HomeOptions, name: &str, json: bool) -> Result<i32, Failure> {
    let wrapper = wrapped::connect(options, name)?;
    let answer = wrapper.request(&Request::Why, ANSWER);
    let Answer::Why(known) = answer.map_err(|error| wrapped::explain(name, &error))? else {
        return Err(Failure::failed(format!("the wrapper of {name} gave another answer")));
    };
    let mut out = Out::new();
    if json {
        out.json("why", &known)?;
        return Ok(DONE);
    }
    out.line(format!("{name} ({}): {}", escaped(&known.stage), escaped(&known.decision)))?;
    let facts = known.facts.iter();
    let rows = facts.map(|fact| [&fact.name, &fact.value, &fact.source].map(|text| escaped(text)));
    out.table(&COLUMNS, rows.map(Vec::from).collect(), "")?;
    for notice in &known.notices {
        out.broken(&format!("a notice waits: {}", escaped(notice)))?;
    }
    Ok(DONE)
}
