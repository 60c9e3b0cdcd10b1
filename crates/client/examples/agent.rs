//! An agent that joins the daemon under a name.
//!
//! ```text
//! agent NAME                  prints messages and answers questions, until a message says "stop"
//! agent NAME ask TO TEXT      asks a question, and prints the answer
//! agent NAME send TO TEXT     sends a message, and waits until the daemon has it
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program talks to a person")]

use client::{Client, ConnectionState, Event, Outgoing, Settings, home::HomeOptions};
use serde_json::{json, value::to_raw_value};
use std::{env, error::Error, time::Duration};

/// The time that `ask` waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        [name] => serve(&join(name)?),
        [name, "ask", to, text] => ask(&join(name)?, to, text),
        [name, "send", to, text] => send(&join(name)?, to, text),
        _ => Err("usage: agent NAME [ask TO TEXT | send TO TEXT]".into()),
    }
}

/// Joins the daemon that the environment or the home directory names.
fn join(name: &str) -> Result<Client, Box<dyn Error>> {
    let context = HomeOptions::default().context()?;
    // `local` tries to reconnect without end.
    let settings = |endpoint: &str| Settings { local: true, ..Settings::agent(endpoint, name) };
    Ok(context.try_join(&settings)?)
}

/// Prints messages and answers questions until a message says "stop".
fn serve(client: &Client) -> Result<(), Box<dyn Error>> {
    println!("joined as {}", client.name());
    for event in client.events() {
        match event {
            Event::Delivered(delivery) => {
                // `{:?}` escapes control characters in what another agent wrote.
                println!("{} says {:?}", delivery.from, delivery.body);
                if delivery.sync.is_some() {
                    let data = to_raw_value(&json!({"body": "8080"}))?;
                    client.answer(&delivery, true, Some(&data))?;
                } else {
                    client.acknowledge(&delivery.id);
                }
                if delivery.body == "stop" {
                    break;
                }
            }
            Event::State(ConnectionState::Ready(_)) => println!("connected again"),
            Event::Refused { nack, .. } => eprintln!("{:?} ({})", nack.message, nack.code),
            // No event follows.
            Event::Ended(ended) => return Err(ended.to_string().into()),
            _ => {}
        }
    }
    // When the client is dropped, the acknowledgement is written, and then BYE.
    Ok(())
}

fn ask(client: &Client, to: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let answer = client.ask(Outgoing::message(to, text), ANSWER_TIMEOUT)?;
    println!("{} answers {:?}", answer.from, answer.body().unwrap_or_default());
    Ok(())
}

fn send(client: &Client, to: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let id = client.send(Outgoing::message(to, text))?;
    for event in client.events() {
        match event {
            Event::Accepted { send_id, away, .. } if send_id == id => {
                println!("{}", if away { "accepted; the recipient is away" } else { "accepted" });
                break;
            }
            Event::Refused { send_id, nack } if send_id == id => {
                return Err(format!("{} ({})", nack.message, nack.code).into());
            }
            Event::Ended(ended) => return Err(ended.to_string().into()),
            // Messages that arrive meanwhile are not acknowledged, so the daemon keeps them.
            _ => {}
        }
    }
    Ok(())
}
