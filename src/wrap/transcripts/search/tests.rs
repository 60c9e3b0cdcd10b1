//! Searches of this process for transcripts in a separate home.

use super::{super::EVENTS_MAX, *};
use crossbeam_channel::{Receiver, bounded};
use protocol::calendar;
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::Write as _,
    process::{Command, id},
    slice,
    time::SystemTime,
};
use terminal::{agents, transcript::Record};

/// A CLI's home with the directory `here`, where the CLI's agents work. Removed when dropped.
struct TestHome(PathBuf);

impl TestHome {
    fn new(name: &str) -> Self {
        let root = env::temp_dir().join(format!("ar-transcripts-{}-{name}", id()));
        fs::create_dir_all(root.join("here")).unwrap();
        Self(fs::canonicalize(root).unwrap())
    }

    fn search(&self, format: &str) -> Search {
        let here = self.0.join("here");
        let format = agents::format(format).unwrap();
        let search = Search::new(format, id(), Some(&here), clock::unix_ms()).unwrap();
        Search { home: self.0.clone(), ..search }
    }

    /// Creates a transcript of Codex.
    fn rollout(&self, name: &str, meta: &str) -> PathBuf {
        let here = self.0.join("here");
        let head = format!("{{\"payload\":{{\"cwd\":{here:?},{meta}}}}}\n");
        self.write(&format!("sessions/2026/11/20/{name}.jsonl"), &head)
    }

    /// Creates a transcript of Gemini CLI, of an agent at work in `here`.
    fn chat(&self, number: usize) -> PathBuf {
        let hash = self.project_hash();
        let head = format!("{{\"projectHash\":\"{hash}\",\"kind\":\"main\"}}\n");
        self.write(&format!("tmp/here/chats/session-{number}.jsonl"), &head)
    }

    /// Creates a transcript of Claude Code, with words from `ago` before now.
    fn session(&self, session: &str, words: &[(&str, u64)]) -> PathBuf {
        let line = |(word, ago_ms): &(&str, u64)| {
            let at = calendar::utc(clock::unix_ms() - ago_ms);
            let content = format!("{{\"content\":\"{word}\"}}");
            format!("{{\"type\":\"assistant\",\"timestamp\":\"{at}\",\"message\":{content}}}\n")
        };
        let lines: String = words.iter().map(line).collect();
        self.write(&format!("projects/here/{session}.jsonl"), &lines)
    }

    /// Gemini CLI's hash of the directory `here`.
    fn project_hash(&self) -> String {
        let digest = Sha256::digest(self.0.join("here").as_os_str().as_encoded_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

/// A line of a transcript of Gemini CLI: the agent says a word at this time.
fn reply(word: &str, at_ms: u64) -> String {
    let at = calendar::utc(at_ms);
    format!(
        "{{\"id\":\"{word}\",\"timestamp\":\"{at}\",\"type\":\"gemini\",\"content\":\"{word}\"}}\n"
    )
}

/// The replies among the pending events, each with the number of its transcript.
fn replies(events: &Receiver<Event>) -> Vec<(u32, String)> {
    let replies = events.try_iter().filter_map(|event| match event {
        Event::Recorded(TranscriptId(number), Record::Reply(text)) => Some((number, text)),
        _ => None,
    });
    replies.collect()
}

/// The replies among the pending events.
fn words(events: &Receiver<Event>) -> Vec<String> {
    replies(events).into_iter().map(|(_, word)| word).collect()
}

/// Names a transcript like a hook that reported this long ago, and searches for it.
fn name(search: &mut Search, path: &Path, ago_ms: u64, sender: &Sender<Event>) {
    let since_ms = clock::unix_ms() - ago_ms;
    search.name(Named { path: path.to_owned(), since_ms });
    look(search, sender);
}

/// Searches for transcripts, and reads all of them.
fn look(search: &mut Search, sender: &Sender<Event>) {
    search.make_due();
    assert!(search.look(sender).is_ok());
}

/// Appends to a file, and sets its modification time to this long after now.
fn append(path: &Path, text: &str, after_ms: u64) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_millis(after_ms)).unwrap();
}

impl Drop for TestHome {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn codex_subagents_are_not_read() {
    let home = TestHome::new("codex");
    let own = home.rollout("own", "\"source\":\"cli\"");
    let spawned = home.rollout("spawned", "\"source\":{\"subagent\":{\"thread_spawn\":{}}}");
    let _open = [&own, &spawned].map(|path| File::options().append(true).open(path).unwrap());
    let mut search = home.search("codex");
    assert_eq!(search.candidates(), slice::from_ref(&own));
    // Some systems do not list open files.
    if process::written_files(id()).is_some() {
        assert_eq!(search.open_files(), [own]);
    }
}

#[test]
fn gemini_subagents_are_not_read() {
    let home = TestHome::new("gemini");
    let head = |kind| {
        let hash = home.project_hash();
        format!("{{\"projectHash\":\"{hash}\",\"kind\":\"{kind}\"}}\n")
    };
    let own = home.write("tmp/here/chats/session-1.jsonl", &head("main"));
    home.write("tmp/here/chats/session-2.jsonl", &head("subagent"));
    assert_eq!(home.search("gemini").candidates(), [own]);
}

/// Another Gemini CLI has removed the file, and the file's own Gemini CLI continues to write.
#[test]
fn gemini_transcript_without_first_line_is_found_by_its_folder() {
    let home = TestHome::new("gemini-headless");
    let line = "{\"id\":\"1\",\"type\":\"user\",\"content\":[]}\n";
    let own = home.write("tmp/here/chats/session-1.jsonl", line);
    home.write("tmp/there/chats/session-2.jsonl", line);
    assert!(home.search("gemini").candidates().is_empty());
    let register = serde_json::json!({"projects": {home.0.join("here").to_str().unwrap(): "here"}});
    home.write("projects.json", &register.to_string());
    assert_eq!(home.search("gemini").candidates(), [own]);
}

#[test]
fn directory_named_like_a_transcript_is_not_read() {
    let home = TestHome::new("none");
    fs::create_dir_all(home.0.join("sessions/2026/11/20/directory.jsonl")).unwrap();
    let own = home.rollout("own", "\"source\":\"cli\"");
    assert_eq!(home.search("codex").candidates(), [own]);
}

#[test]
fn unowned_transcript_is_closed_first_and_no_line_is_read_twice() {
    let home = TestHome::new("room");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("gemini");
    let own = home.0.join("own.jsonl");
    let again = reply("again", search.started_ms);
    let (begun, rest) = again.split_at(20);
    fs::write(&own, reply("once", search.started_ms) + begun).unwrap();
    let add = |search: &mut Search, path: &Path, is_own| {
        assert!(search.add(path, is_own, &[path.to_owned()], &sender).is_ok());
    };
    add(&mut search, &own, true);
    let others = |search: &mut Search, count, is_own| {
        for number in 0..count {
            add(search, &home.0.join(format!("{count}-{number}.jsonl")), is_own);
        }
    };
    others(&mut search, FOLLOWED_MAX + 1, false);
    assert_eq!(search.followed.len(), FOLLOWED_MAX);
    assert_eq!(search.followed[0].path, own);
    let mut numbers: Vec<_> = search.followed.iter().map(|followed| followed.id.0).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), FOLLOWED_MAX);
    search.followed.truncate(1);
    others(&mut search, FOLLOWED_MAX, true);
    assert!(search.followed.iter().all(|followed| followed.path != own));
    // A transcript that is not the command's must not close one that is.
    add(&mut search, &home.0.join("unowned.jsonl"), false);
    assert!(search.followed.iter().all(|followed| followed.is_own));
    append(&own, rest, 0);
    add(&mut search, &own, true);
    let mut buffer = [0; 1024];
    assert!(search.followed.last_mut().unwrap().read(&mut buffer, &sender).is_ok());
    assert_eq!(replies(&events), [(0, "once".to_owned()), (0, "again".to_owned())]);
}

/// The command's own transcript may be the oldest, of a conversation that has long been idle.
#[test]
fn more_transcripts_than_the_limit_are_each_read_once() {
    let home = TestHome::new("many");
    let (sender, events) = bounded(64 * EVENTS_MAX);
    let mut search = home.search("gemini");
    let count = FOLLOWED_MAX + 8;
    let mut paths = Vec::new();
    for number in 0..count {
        let path = home.chat(number);
        let word = format!("word {number}");
        append(&path, &reply(&word, search.started_ms), 1000 * number as u64);
        paths.push(path);
        look(&mut search, &sender);
    }
    let received = replies(&events);
    let words = received.iter().map(|(_, word)| word.clone());
    assert!(words.eq((0..count).map(|number| format!("word {number}"))), "{received:?}");
    for round in 0..3 {
        look(&mut search, &sender);
        assert_eq!(replies(&events), [], "round {round}");
    }
    // A transcript that was closed and grows again keeps its id, since the terminal side identifies
    // it by that.
    for (index, word) in [(0, "again"), (count - 1, "still")] {
        append(&paths[index], &reply(word, search.started_ms), 1_000_000);
        look(&mut search, &sender);
        assert_eq!(replies(&events), [(received[index].0, word.to_owned())]);
    }
    assert_eq!(search.followed.len(), FOLLOWED_MAX);
}

/// Another agent led the conversation until the command resumed it.
#[test]
fn records_from_before_a_session_was_resumed_are_skipped() {
    let home = TestHome::new("claude-resumed");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("claude");
    search.started_ms -= 60_000;
    let names = |session: &str| {
        let at = clock::unix_ms();
        let listed = format!("{{\"sessionId\":\"{session}\",\"startedAt\":{at}}}");
        home.write(&format!("sessions/{}.json", id()), &listed);
    };
    let says = |session, words: &[(&str, u64)]| drop(home.session(session, words));
    let check = |search: &mut Search, expected: &[&str]| {
        look(search, &sender);
        assert_eq!(words(&events), expected);
    };
    names("a");
    check(&mut search, &[]);
    says("a", &[("before it began", 90_000), ("first", 30_000)]);
    check(&mut search, &["first"]);
    // Another agent's conversation, which the command resumes.
    says("b", &[("another's", 30_000), ("its own", 0)]);
    names("b");
    check(&mut search, &["its own"]);
    names("c");
    check(&mut search, &[]);
    says("c", &[("anew", 0)]);
    check(&mut search, &["anew"]);
}

/// The system lists open files by their real paths, which are unknown until the home exists.
#[test]
fn home_that_is_created_later_is_found_by_its_real_path() {
    if process::written_files(id()).is_none() {
        return; // Not every system lists open files.
    }
    let home = TestHome::new("later");
    let root = home.0.clone();
    let (sender, _events) = bounded(EVENTS_MAX);
    let mut search = home.search("codex");
    search.home = root.join("here/../later");
    look(&mut search, &sender);
    let later = TestHome(root.join("later"));
    let here = root.join("here");
    let head = format!("{{\"payload\":{{\"cwd\":{here:?}}}}}\n");
    let own = later.write("sessions/2026/11/20/own.jsonl", &head);
    let _open = File::options().append(true).open(&own).unwrap();
    look(&mut search, &sender);
    assert!(search.followed.iter().any(|followed| followed.is_own && followed.path == own));
}

/// The other agent's transcript was read before, since it might have been the command's.
#[test]
fn records_read_of_another_agent_do_not_count_when_the_command_resumes_its_session() {
    if process::written_files(id()).is_none() {
        return; // Not every system lists open files.
    }
    let home = TestHome::new("codex-resumed");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("codex");
    search.started_ms -= 60_000;
    let says = |path: &Path, word: &str, ago_ms: u64| {
        let at = calendar::utc(clock::unix_ms() - ago_ms);
        let line = |kind: &str, payload: String| {
            let line = format!(
                "{{\"timestamp\":\"{at}\",\"type\":\"{kind}\",\"payload\":{{{payload}}}}}\n"
            );
            append(path, &line, 0);
        };
        line("event_msg", "\"type\":\"user_message\",\"message\":\"?\"".to_owned());
        let content = format!("\"content\":[{{\"text\":\"{word}\"}}]");
        line("response_item", format!("\"type\":\"message\",\"role\":\"assistant\",{content}"));
    };
    let open = |path: &Path| File::options().append(true).open(path).unwrap();
    let [own, other] = ["own", "other"].map(|name| home.rollout(name, "\"source\":\"cli\""));
    says(&other, "another's", 30_000);
    look(&mut search, &sender);
    let of_other = replies(&events);
    assert_eq!(of_other.len(), 1);
    says(&own, "first", 20_000);
    let first = open(&own);
    look(&mut search, &sender);
    let received = replies(&events);
    assert_eq!(received[0].1, "first");
    drop(first);
    let _second = open(&other);
    says(&other, "its own", 0);
    look(&mut search, &sender);
    let mut owned = Vec::new();
    let mut received = Vec::new();
    for event in events.try_iter() {
        match event {
            Event::Owned(id) => owned.push(id),
            Event::Recorded(id, Record::Reply(text)) => received.push((id, text)),
            _ => {}
        }
    }
    assert_eq!(owned.len(), 1);
    assert_ne!(owned[0], TranscriptId(of_other[0].0));
    received.retain(|(id, _)| owned.contains(id));
    assert_eq!(received, [(owned[0], "its own".to_owned())]);
}

#[test]
fn other_processes_are_not_looked_at_while_nothing_happens() {
    let home = TestHome::new("idle");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("gemini");
    let other = home.chat(1);
    let is_looked_at = |search: &mut Search| {
        look(search, &sender);
        events.try_iter().any(|event| matches!(event, Event::Searched { .. }))
    };
    assert!(is_looked_at(&mut search));
    // Wine's clock begins at zero when its server starts.
    while clock::monotonic_ms() < UNDECIDED_MS {
        std::thread::sleep(Duration::from_millis(10));
    }
    search.active_ms = clock::monotonic_ms() - UNDECIDED_MS;
    assert!(!is_looked_at(&mut search));
    append(&other, "more\n", 0);
    assert!(is_looked_at(&mut search));
    assert!(is_looked_at(&mut search));
}

/// Records that were read before are not read again.
#[test]
fn records_are_read_after_the_clock_was_set_back() {
    const HOUR_MS: u64 = 3_600_000;
    let home = TestHome::new("clock");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("gemini");
    let since_ms = search.started_ms;
    let chat = home.chat(1);
    append(&chat, &reply("before", since_ms), 0);
    look(&mut search, &sender);
    assert_eq!(replies(&events), [(0, "before".to_owned())]);
    // The test cannot set the system's clock, so it shifts the search's offset.
    let (now, ahead_ms) = (clock::monotonic_ms(), search.wall_ahead_ms);
    search.follow_clock(now, now + ahead_ms - HOUR_MS);
    append(&chat, &reply("after", since_ms - HOUR_MS), 0);
    look(&mut search, &sender);
    assert_eq!(replies(&events), [(0, "after".to_owned())]);
    // A difference of 100 ms is the time between the two readings, not a step back of the clock.
    search.follow_clock(now, now + search.wall_ahead_ms - 100);
    append(&chat, &reply("long ago", since_ms - HOUR_MS - 50), 0);
    look(&mut search, &sender);
    assert_eq!(replies(&events), []);
}

#[test]
fn transcript_that_a_hook_names_is_read_once_it_is_there() {
    let home = TestHome::new("named-later");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("claude");
    name(&mut search, &home.0.join("projects/here/a.jsonl"), 0, &sender);
    assert!(search.followed.is_empty());
    let path = home.session("a", &[("first", 0)]);
    look(&mut search, &sender);
    let is_owned = |event: &Event| matches!(event, Event::Owned(TranscriptId(0)));
    assert!(events.try_iter().any(|event| is_owned(&event)));
    append(&path, &fs::read_to_string(home.session("b", &[("second", 0)])).unwrap(), 0);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["first", "second"]);
}

/// Another agent's words in a conversation, before or after the command leads it, do not count.
#[test]
fn transcript_that_a_hook_names_replaces_the_older_one() {
    let home = TestHome::new("named-again");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("claude");
    search.started_ms -= 60_000;
    let a = home.session("a", &[("of a", 30_000)]);
    name(&mut search, &a, 40_000, &sender);
    assert_eq!(words(&events), ["of a"]);
    let b = home.session("b", &[("another's", 30_000)]);
    name(&mut search, &b, 0, &sender);
    home.session("a", &[("of a", 30_000), ("another's", 20_000)]);
    home.session("b", &[("another's", 30_000), ("of b", 0)]);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["of b"]);
    assert_eq!(search.followed.len(), 1);
    name(&mut search, &a, 0, &sender);
    assert_eq!(words(&events), [""; 0]);
    let line = fs::read_to_string(home.session("c", &[("of a again", 0)])).unwrap();
    append(&a, &line, 0);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["of a again"]);
}

#[test]
fn no_candidate_is_looked_for_once_a_hook_names_the_transcript() {
    let home = TestHome::new("named-codex");
    let (sender, events) = bounded(EVENTS_MAX);
    let mut search = home.search("codex");
    let [own, other] = ["own", "other"].map(|name| home.rollout(name, "\"source\":\"cli\""));
    look(&mut search, &sender);
    assert_eq!(search.followed.len(), 2);
    for _ in 0..2 {
        name(&mut search, &own, 0, &sender);
        append(&other, "more\n", 0);
        look(&mut search, &sender);
        let paths: Vec<_> = search.followed.iter().map(|followed| &followed.path).collect();
        assert_eq!(paths, [&own]);
    }
    let owned = events.try_iter().filter(|event| matches!(event, Event::Owned(_)));
    assert_eq!(owned.count(), 1);
}

#[test]
fn file_other_than_the_agents_transcript_is_not_read() {
    let home = TestHome::new("named-others");
    let (sender, _events) = bounded(EVENTS_MAX);
    let spawned = home.rollout("spawned", "\"source\":{\"subagent\":{\"thread_spawn\":{}}}");
    let own = home.session("own", &[]);
    fs::create_dir_all(home.0.join("projects/here/directory.jsonl")).unwrap();
    let long = "a/".repeat(4096) + "a.jsonl";
    for (format, path) in [
        ("codex", spawned.clone()),
        ("codex", own.clone()),
        ("claude", spawned),
        ("claude", home.write("projects/here/own/subagents/agent-1.jsonl", "")),
        ("claude", home.write("projects/above.jsonl", "")),
        ("claude", home.write("projects/here/own.json", "")),
        ("claude", home.0.join("projects/here/directory.jsonl")),
        ("claude", home.0.join("projects/here/../../sessions/2026/11/20/spawned.jsonl")),
        ("claude", PathBuf::from("own.jsonl")),
        ("claude", home.0.join(long)),
    ] {
        let mut search = home.search(format);
        name(&mut search, &path, 0, &sender);
        assert!(search.named.is_none() && !search.is_named_by_hooks, "{format} {path:?}");
    }
    let mut search = home.search("claude");
    name(&mut search, &own, 0, &sender);
    assert!(search.is_named_by_hooks);
}

/// A user may keep transcripts on another disk.
#[test]
fn transcripts_behind_a_link_to_their_folder_are_read() {
    let home = TestHome::new("linked");
    let (sender, events) = bounded(EVENTS_MAX);
    for folder in ["projects", "sessions"] {
        let elsewhere = home.0.join(format!("disk/{folder}"));
        fs::create_dir_all(&elsewhere).unwrap();
        let linked = Command::new("ln").arg("-s").args([&elsewhere, &home.0.join(folder)]).status();
        assert!(linked.unwrap().success());
    }
    let mut search = home.search("codex");
    home.rollout("linked", "\"source\":\"cli\"");
    look(&mut search, &sender);
    assert_eq!(search.followed.len(), 1);
    let mut search = home.search("claude");
    search.started_ms -= 60_000;
    let listed = format!("{{\"sessionId\":\"a\",\"startedAt\":{}}}", clock::unix_ms());
    home.write(&format!("sessions/{}.json", id()), &listed);
    home.session("a", &[("read", 0)]);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["read"]);
}

/// A file that others may have written does not count, however it was found.
#[test]
fn file_that_others_can_change_is_not_read() {
    let home = TestHome::new("writable");
    let (sender, events) = bounded(EVENTS_MAX);
    let run = |program: &str, first: &str, paths: &[&Path]| {
        assert!(Command::new(program).arg(first).args(paths).status().unwrap().success());
    };
    let line = |word: &str| fs::read_to_string(home.session("line", &[(word, 0)])).unwrap();
    let mut search = home.search("claude");
    search.started_ms -= 60_000;
    let listed = format!("{{\"sessionId\":\"a\",\"startedAt\":{}}}", clock::unix_ms());
    home.write(&format!("sessions/{}.json", id()), &listed);
    let own = home.session("a", &[("first", 0)]);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["first"]);
    run("chmod", "666", &[&own]);
    append(&own, &line("forged"), 0);
    look(&mut search, &sender);
    run("chmod", "644", &[&own]);
    append(&own, &line("second"), 0);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["second"]);
    let elsewhere = home.write("elsewhere.jsonl", &line("by a link"));
    fs::remove_file(&own).unwrap();
    run("ln", "-s", &[&elsewhere, &own]);
    look(&mut search, &sender);
    fs::remove_file(&own).unwrap();
    home.write("projects/here/a.jsonl", &line("third"));
    look(&mut search, &sender);
    assert_eq!(words(&events), ["third"]);
    let forged = home.write("forged.jsonl", &(line("a long forged word") + &line("another")));
    run("chmod", "666", &[&forged]);
    fs::rename(&forged, &own).unwrap();
    look(&mut search, &sender);
    run("chmod", "644", &[&own]);
    append(&own, &line("fourth"), 0);
    look(&mut search, &sender);
    assert_eq!(words(&events), ["fourth"]);
    let mut search = home.search("codex");
    let rollout = home.rollout("writable", "\"source\":\"cli\"");
    run("chmod", "666", &[&rollout]);
    look(&mut search, &sender);
    assert!(search.followed.is_empty());
    run("chmod", "644", &[&rollout]);
    look(&mut search, &sender);
    assert_eq!(search.followed.len(), 1);
}

#[test]
fn relative_home_is_below_the_directory_of_the_command() {
    let home = &agents::format("copilot").unwrap().home;
    for (value, path) in [("copilot", "/project/copilot"), ("/copilot", "/copilot")] {
        let found = path_of(home, Some(value.into()), Path::new("/project")).unwrap();
        assert_eq!(found, Path::new(path));
    }
}
