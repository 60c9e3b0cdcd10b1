//! `bench`: measurements of the running daemon and of the floor, in one run.
//!
//! The floor is a process that relays bytes and parses nothing. Speeds differ between machines and
//! change from moment to moment. So the daemon and the floor are measured alternately, and the
//! ratio of their medians counts.

mod acked;
mod floor;
pub mod measure;
pub mod route;

use super::{
    context::context,
    failure::{DONE, Failure},
    identity::Identity,
    join::endpoint_or_start,
    print::{Out, eprint_line},
    program::AS_AGENT_RELAY,
    request::{agent_row, call_with},
};
use argh::{ArgsInfo, FromArgs};
use client::home::{Context, HomeOptions};
use measure::Flood;
use platform::{clock, endpoint::Endpoint, paths};
use protocol::{
    calendar::time_limit,
    payload::Durability,
    relay::{ForgetRequest, RequestName},
};
use route::{Daemon, End, Template};
use serde::Serialize;
use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Messages in flight.
const WINDOW: u64 = 512;

/// Messages in flight to each receiver of a fan-out. A DELIVER has twice the bytes of a SEND, and
/// the messages in flight have to fit into each receiver's socket, as they do on the floor.
const FAN_OUT_WINDOW: u64 = 256;

/// Large messages in flight. By default a queue holds 16 MiB, and one sender may use 8 MiB of that.
const LARGE_WINDOW: u64 = 64;

const BODY_BYTES: usize = 256;
const LARGE_BODY_BYTES: usize = 64 * 1024;
const RECEIVERS: usize = 50;

/// The names of the agents. Each run uses the same, and has the daemon forget them at its end.
const SENDER: &str = "bench-a";
const RECEIVER: &str = "bench-b";

/// The name of a receiver of a fan-out.
fn receiver(number: usize) -> String {
    format!("bench-r{number}")
}

/// The longest wait until the daemon has seen all agents leave.
const LEAVE_MS: u64 = 5_000;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Turns of single messages for each turn of a flood. The first [`WARM_UP`] messages of each turn
/// are not counted.
const LATENCY_TURNS: usize = 10;
const WARM_UP: usize = 50;

/// Measure the running daemon, and a relay that parses nothing.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "bench",
    help_triggers("--help"),
    example = "agent-relay bench",
    example = "agent-relay bench --ack",
    example = "agent-relay bench --quick --json"
)]
pub(super) struct Bench {
    /// measure for a few seconds only, to see that it works
    #[argh(switch)]
    quick: bool,

    /// measure at-least-once messages, with an ACK each way
    #[argh(switch)]
    ack: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Bench {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let progress = |what: &str| eprint_line(format_args!("{what} …"));
        let mut context = context(options)?;
        let endpoint = endpoint_or_start(&mut context)?;
        let (endpoint, server) = (parse(&endpoint)?, context.server(&endpoint));
        let daemon = Daemon { endpoint, server };
        let extent = if self.quick { Extent::QUICK } else { Extent::FULL };
        let scratch = Scratch::make().map_err(Failure::because)?;
        let measure = if self.ack { measure_acked } else { measure };
        let report = measure(&daemon, extent, &scratch.0, &progress);
        forget_agents(&context);
        let report =
            report.map_err(|error| Failure::failed(format!("the measurement failed: {error}")))?;
        let mut out = Out::new();
        if self.json {
            out.json("bench", &report)?;
        } else {
            out.raw(&report.to_string())?;
        }
        Ok(DONE)
    }
}

/// Has the daemon forget the agents of the measurement. A name stays in the list if it has mail, or
/// if only the operator may have it forgotten and this process is not the operator's.
fn forget_agents(context: &Context) {
    let Ok(identity) = Identity::of_process(context) else { return };
    let Ok(client) = context.try_join(&|endpoint| identity.settings(endpoint)) else { return };
    let deadline = clock::monotonic_ms() + LEAVE_MS;
    let receivers = (0..RECEIVERS).map(receiver);
    for name in [SENDER.to_owned(), RECEIVER.to_owned()].into_iter().chain(receivers) {
        let is_here = || agent_row(&client, &name, |row| row.is_some_and(|row| row.here));
        // The daemon may not have read yet that the agent leaves.
        while is_here().unwrap_or(false) && clock::monotonic_ms() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        drop(call_with(&client, RequestName::Forget, &ForgetRequest { name }));
    }
}

/// The argument after [`AS_AGENT_RELAY`] that makes this program the floor.
pub(super) const FLOOR: &str = "bench-floor";

/// Runs the floor.
pub(super) fn floor(endpoint: &str) -> Result<i32, Failure> {
    let endpoint = parse(endpoint)?;
    let mut out = Out::new();
    floor::serve(&endpoint, || out.line("ready"))?;
    Ok(DONE)
}

fn parse(endpoint: &str) -> Result<Endpoint, Failure> {
    Endpoint::parse(endpoint.as_ref()).map_err(|error| Failure::usage(error.to_string()))
}

/// A directory for the floor's socket, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("agent-relay-bench-{}", process::id()));
        paths::make_private_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprint_line(format_args!("{} is not removed: {error}", self.0.display()));
        }
    }
}

/// The number and the lengths of the measurements.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Turns of each measurement, on either path.
    turns: usize,
    /// Single messages timed in a turn.
    messages: usize,
    /// The duration of a flood.
    flood: Duration,
    /// The duration of the flood that measures the sustained rate, if there is one.
    sustained: Option<Duration>,
}

impl Extent {
    /// Settings for a run of about half a minute.
    const FULL: Self = Self {
        turns: 5,
        messages: 400,
        flood: Duration::from_millis(600),
        sustained: Some(Duration::from_secs(8)),
    };
    /// Settings for a few seconds, to see that the benchmark works.
    const QUICK: Self =
        Self { turns: 2, messages: 50, flood: Duration::from_millis(100), sustained: None };
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: &'static str,
    unit: &'static str,
    /// The figure of the floor.
    floor: f64,
    /// The figure of the daemon.
    daemon: f64,
    /// The daemon's figure divided by the floor's.
    ratio: f64,
    goal: Goal,
}

/// A bound for the ratio, or for the daemon's figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Goal {
    /// No bound.
    None,
    RatioAtMost(f64),
    RatioAtLeast(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_reached(self, figure: &Figure) -> bool {
        match self {
            Self::None => true,
            Self::RatioAtMost(bound) => figure.ratio <= bound,
            Self::RatioAtLeast(bound) => figure.ratio >= bound,
            Self::AtLeast(bound) => figure.daemon >= bound,
            Self::AtMost(bound) => figure.daemon <= bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::RatioAtMost(bound) => write!(f, "ratio <= {bound}"),
            Self::RatioAtLeast(bound) => write!(f, "ratio >= {bound}"),
            Self::AtLeast(bound) => write!(f, "daemon >= {bound}"),
            Self::AtMost(bound) => write!(f, "daemon <= {bound}"),
        }
    }
}

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
struct Report {
    figures: Vec<Figure>,
    /// The duration of each flood, in milliseconds.
    burst_ms: u64,
    /// The duration of the sustained flood.
    #[serde(skip_serializing_if = "Option::is_none")]
    sustained_ms: Option<u64>,
}

impl Report {
    fn of(figures: Vec<Figure>, burst: Duration, sustained: Option<Duration>) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { figures, burst_ms: ms(burst), sustained_ms: sustained.map(ms) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<34}{:>12}{:>12}{:>9}  goal", "", "floor", "daemon", "ratio")?;
        for figure in &self.figures {
            let name = format!("{} ({})", figure.name, figure.unit);
            write!(f, "{name:<34}{:>12.1}{:>12.1}", figure.floor, figure.daemon)?;
            write!(f, "{:>9.2}", figure.ratio)?;
            if !matches!(figure.goal, Goal::None) {
                let word = if figure.goal.is_reached(figure) { "reached" } else { "missed" };
                write!(f, "  {}: {word}", figure.goal)?;
            }
            writeln!(f)?;
        }
        write!(f, "Floods are bursts of {}", time_limit(self.burst_ms))?;
        match self.sustained_ms {
            Some(ms) => writeln!(f, "; the sustained one took {}.", time_limit(ms)),
            None => writeln!(f, "."),
        }
    }
}

/// Measures at-most-once messages. `progress` is called with the name of each measurement.
fn measure(
    daemon: &Daemon,
    extent: Extent,
    scratch: &Path,
    progress: &dyn Fn(&str),
) -> io::Result<Report> {
    let floor = Floor::start(scratch)?;
    let topic = format!("bench.{}", process::id());
    let mut below = Route { from: End::connect(&floor.endpoint)?, to: vec![] };
    below.to.push(End::connect(&floor.endpoint)?);
    let mut direct = Route {
        from: End::join(daemon, SENDER, WINDOW)?,
        to: vec![End::join(daemon, RECEIVER, WINDOW)?],
    };
    let mut figures = Vec::new();

    progress("one-way latency");
    let mut template = Template::new(Some(RECEIVER), None, BODY_BYTES);
    figures.extend(latencies(&mut below, &mut direct, &mut template, extent)?);

    progress("flood");
    let flood = floods(&mut below, &mut direct, &mut template, [WINDOW; 2], extent)?;
    figures.push(Figure::of("flood, 256 bytes, 1 to 1", "k/s", flood, Goal::RatioAtLeast(0.22)));

    progress("64-KiB bodies");
    let mut large = Template::new(Some(RECEIVER), None, LARGE_BODY_BYTES);
    let large = floods(&mut below, &mut direct, &mut large, [LARGE_WINDOW; 2], extent)?;
    figures.push(Figure::of("flood, 64 KiB, 1 to 1", "k/s", large, Goal::AtLeast(20.0)));

    progress("fan-out");
    direct.to.drain(..).try_for_each(End::leave)?;
    for number in 0..RECEIVERS {
        let mut end = End::join(daemon, &receiver(number), WINDOW)?;
        end.subscribe(&topic)?;
        direct.to.push(end);
    }
    let mut template = Template::new(None, Some(&topic), BODY_BYTES);
    let windows = [WINDOW, FAN_OUT_WINDOW];
    let fan_out = floods(&mut below, &mut direct, &mut template, windows, extent)?;
    let goal = Goal::RatioAtLeast(0.55);
    figures.push(Figure::of("fan-out, 256 bytes, 1 to 50", "k/s", fan_out, goal));
    direct.leave()?;
    Ok(Report::of(figures, extent.flood, None))
}

/// Measures at-least-once messages. They are compared with messages through the floor that get no
/// ACK.
fn measure_acked(
    daemon: &Daemon,
    extent: Extent,
    scratch: &Path,
    progress: &dyn Fn(&str),
) -> io::Result<Report> {
    let floor = Floor::start(scratch)?;
    let mut below = Route { from: End::connect(&floor.endpoint)?, to: vec![] };
    below.to.push(End::connect(&floor.endpoint)?);
    let mut from = End::join(daemon, SENDER, WINDOW)?;
    let mut to = End::join(daemon, RECEIVER, WINDOW)?;
    let mut plain = Template::new(Some(RECEIVER), None, BODY_BYTES);
    let first_id = clock::unix_ms() * 1_000;
    let mut template = Template::acknowledged(RECEIVER, BODY_BYTES, first_id);

    progress("acceptance");
    let mut times = [Vec::new(), Vec::new()];
    let mut durability = String::new();
    for _ in 0..extent.turns * LATENCY_TURNS {
        let messages = extent.messages / 4;
        times[0].extend(measure::latency(
            |bytes| below.from.write(bytes),
            &mut below.to[0],
            &mut plain,
            messages,
        )?);
        acked::acceptance(&mut from, &mut to, &mut template, WARM_UP / 10)?;
        let turn = acked::acceptance(&mut from, &mut to, &mut template, messages)?;
        times[1].extend(turn.0);
        durability = turn.1;
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let at = |part: f64| {
        let at = |times: &[u64]| times[((times.len() - 1) as f64 * part) as usize] as f64;
        (at(&times[0]), at(&times[1]))
    };
    let is_process = durability == Durability::Process.as_str();
    let soon = if is_process { Goal::AtMost(200.0) } else { Goal::None };
    let mut figures = vec![
        Figure::of("accepted p50, 256 bytes", "us", at(0.5), soon),
        Figure::of("accepted p99", "us", at(0.99), Goal::None),
    ];

    progress("flood");
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..extent.turns {
        let flood = measure::flood(&below.from, &mut below.to, &mut plain, WINDOW, extent.flood)?;
        rates[0].push(flood.rate());
        let rate = acked::flood(&mut from, &mut to, &mut template, WINDOW, extent.flood)?;
        rates[1].push(rate);
    }
    let [floor, through] = rates;
    let rates = (median(floor), median(through));
    let goal = Goal::AtLeast(if is_process { 100.0 } else { 50.0 });
    figures.push(Figure::of("flood with ACK both ways", "k/s", rates, goal));
    if let Some(time) = extent.sustained {
        progress("sustained flood");
        let floor = measure::flood(&below.from, &mut below.to, &mut plain, WINDOW, extent.flood)?;
        let rate = acked::flood(&mut from, &mut to, &mut template, WINDOW, time)?;
        figures.push(Figure::of("the same, sustained", "k/s", (floor.rate(), rate), goal));
    }
    progress(&format!("the daemon's durability is {durability:?}"));
    [from, to].into_iter().try_for_each(End::leave)?;
    Ok(Report::of(figures, extent.flood, extent.sustained))
}

/// A sender and its receivers.
struct Route {
    from: End,
    to: Vec<End>,
}

impl Route {
    fn leave(self) -> io::Result<()> {
        self.from.leave()?;
        self.to.into_iter().try_for_each(End::leave)
    }
}

fn latencies(
    below: &mut Route,
    daemon: &mut Route,
    template: &mut Template,
    extent: Extent,
) -> io::Result<Vec<Figure>> {
    let mut times = [Vec::new(), Vec::new()];
    // Many short turns, so that both paths are measured under the same conditions: all times change
    // by a factor whenever the system moves threads between processors.
    for _ in 0..extent.turns * LATENCY_TURNS {
        for (path, times) in [&mut *below, &mut *daemon].into_iter().zip(&mut times) {
            let to = &mut path.to[0];
            measure::latency(|bytes| path.from.write(bytes), to, template, WARM_UP)?;
            times.extend(measure::latency(
                |bytes| path.from.write(bytes),
                to,
                template,
                extent.messages,
            )?);
        }
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let figure = |name, part: f64, goal| {
        let at = |times: &[u64]| times[((times.len() - 1) as f64 * part) as usize] as f64;
        Figure::of(name, "us", (at(&times[0]), at(&times[1])), goal)
    };
    Ok(vec![
        figure("one-way p50, 256 bytes", 0.5, Goal::RatioAtMost(1.2)),
        figure("one-way p99", 0.99, Goal::RatioAtMost(3.0)),
        figure("one-way p99.9", 0.999, Goal::None),
    ])
}

/// Floods both paths alternately, with the window of each. Returns the medians of their rates.
fn floods(
    below: &mut Route,
    daemon: &mut Route,
    template: &mut Template,
    windows: [u64; 2],
    extent: Extent,
) -> io::Result<(f64, f64)> {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..extent.turns {
        for (at, path) in [&mut *below, &mut *daemon].into_iter().enumerate() {
            let (from, to) = (&path.from, &mut path.to);
            let flood = measure::flood(from, to, template, windows[at], extent.flood)?;
            check(&flood, path.to.len())?;
            rates[at].push(flood.rate());
        }
    }
    let [floor, through] = rates;
    Ok((median(floor), median(through)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn check(flood: &Flood, receivers: usize) -> io::Result<()> {
    let wanted = flood.sent * receivers as u64;
    if flood.received < wanted {
        let lost = wanted - flood.received;
        return Err(io::Error::other(format!("{lost} of {wanted} messages did not arrive")));
    }
    Ok(())
}

impl Figure {
    /// A figure in thousands: microseconds of nanoseconds, k/s of messages a second.
    fn of(name: &'static str, unit: &'static str, (floor, daemon): (f64, f64), goal: Goal) -> Self {
        let (floor, daemon) = (floor / 1e3, daemon / 1e3);
        Self { name, unit, floor, daemon, ratio: daemon / floor, goal }
    }
}

/// The process of the floor, killed when dropped.
struct Floor {
    endpoint: Endpoint,
    process: Child,
}

impl Floor {
    fn start(scratch: &Path) -> io::Result<Self> {
        let endpoint = Endpoint::inside(scratch, "floor")?;
        let process = Command::new(env::current_exe()?)
            .args([AS_AGENT_RELAY, FLOOR, endpoint.as_text()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut floor = Self { endpoint, process };
        floor.await_ready()?;
        Ok(floor)
    }

    /// Waits until the process prints that it listens.
    fn await_ready(&mut self) -> io::Result<()> {
        use io::BufRead;
        let out = self.process.stdout.take().expect("the output is piped");
        let mut line = String::new();
        io::BufReader::new(out).read_line(&mut line)?;
        if line.trim() == "ready" {
            return Ok(());
        }
        Err(io::Error::other("the floor's process ended before it listened"))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // A floor with connections ends when they end. The kill is for a floor without connections.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
