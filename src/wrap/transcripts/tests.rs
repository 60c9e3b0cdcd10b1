//! Which files are read, where nothing but files and this process are.

use super::*;
use std::{io::Write as _, process::id, slice};

/// A program's home, and a directory that its agents work in. They go with this value.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let root = env::temp_dir().join(format!("ar-transcripts-{}-{name}", id()));
        fs::create_dir_all(root.join("here")).unwrap();
        Self(fs::canonicalize(root).unwrap())
    }

    fn search(&self, format: Format) -> Search {
        let here = self.0.join("here");
        let search = Search::new(format, id(), Some(&here), clock::unix_ms()).unwrap();
        Search { home: self.0.clone(), ..search }
    }

    /// Makes a file of Codex's.
    fn rollout(&self, name: &str, meta: &str) -> PathBuf {
        let here = self.0.join("here");
        let head = format!("{{\"payload\":{{\"cwd\":{here:?},{meta}}}}}\n");
        self.write(&format!("sessions/2026/11/20/{name}.jsonl"), &head)
    }

    /// Makes a file of Gemini CLI's, of an agent at work here.
    fn chat(&self, number: usize) -> PathBuf {
        let hash = hash_of(&self.0.join("here"));
        let head = format!("{{\"projectHash\":\"{hash}\",\"kind\":\"main\"}}\n");
        self.write(&format!("tmp/here/chats/session-{number}.jsonl"), &head)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

/// What an agent says in one of Gemini CLI's files at this time.
fn said(word: &str, at_ms: u64) -> String {
    let at = calendar::utc(at_ms);
    format!(
        "{{\"id\":\"{word}\",\"timestamp\":\"{at}\",\"type\":\"gemini\",\"content\":\"{word}\"}}\n"
    )
}

/// All that was told of what agents said, and in which file.
fn replies(told: &Receiver<Told>) -> Vec<(u32, String)> {
    let replies = told.try_iter().filter_map(|told| match told {
        Told::Recorded(Number(number), Record::Reply(text)) => Some((number, text)),
        _ => None,
    });
    replies.collect()
}

/// Looks for files, too.
fn look(search: &mut Search, teller: &Sender<Told>) {
    search.searched_ms = None;
    assert!(search.look(teller).is_ok());
}

/// A file goes on, so long after now for whoever asks when it was changed.
fn append(path: &Path, text: &str, after_ms: u64) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_millis(after_ms)).unwrap();
}

impl Drop for Home {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn subagents_of_codex_are_not_read() {
    let home = Home::new("codex");
    let own = home.rollout("own", "\"source\":\"cli\"");
    let spawned = home.rollout("spawned", "\"source\":{\"subagent\":{\"thread_spawn\":{}}}");
    let _open = [&own, &spawned].map(|path| File::options().append(true).open(path).unwrap());
    let mut search = home.search(Format::Codex);
    assert_eq!(search.candidates(), slice::from_ref(&own));
    // Not every system tells.
    if process::written_files(id()).is_some() {
        assert_eq!(search.codex_has_open(), [own]);
    }
}

#[test]
fn subagents_of_gemini_cli_are_not_read() {
    let home = Home::new("gemini");
    let head = |kind| {
        let hash = hash_of(&home.0.join("here"));
        format!("{{\"projectHash\":\"{hash}\",\"kind\":\"{kind}\"}}\n")
    };
    let own = home.write("tmp/here/chats/session-1.jsonl", &head("main"));
    home.write("tmp/here/chats/session-2.jsonl", &head("subagent"));
    assert_eq!(home.search(Format::Gemini).candidates(), [own]);
}

/// Another Gemini CLI has removed the file, and its own goes on with it.
#[test]
fn a_file_of_gemini_cli_that_lost_its_first_line_is_known_by_its_folder() {
    let home = Home::new("gemini-headless");
    let line = "{\"id\":\"1\",\"type\":\"user\",\"content\":[]}\n";
    let own = home.write("tmp/here/chats/session-1.jsonl", line);
    home.write("tmp/there/chats/session-2.jsonl", line);
    assert!(home.search(Format::Gemini).candidates().is_empty());
    let register = serde_json::json!({"projects": {home.0.join("here").to_str().unwrap(): "here"}});
    home.write("projects.json", &register.to_string());
    assert_eq!(home.search(Format::Gemini).candidates(), [own]);
}

/// A file that has no end, or can't be read.
#[test]
fn the_end_is_not_waited_for_for_ever() {
    for talks in [true, false] {
        let (wake, _woken) = bounded(1);
        let (alive, _ended) = bounded(0);
        let (teller, told) = bounded(RECORDS_MAX);
        let (stop, stopped) = bounded::<()>(0);
        let thread = spawn("transcript", move || {
            while talks && teller.send(Told::Recorded(Number(0), Record::TurnOver)).is_ok() {}
            assert!(stopped.recv().is_err());
            drop(teller);
        });
        let follower = Follower { wake, alive, told, thread: thread.unwrap() };
        let mut heard = 0;
        follower.finish(50, |_| heard += 1);
        assert_eq!(heard > 0, talks);
        drop(stop);
    }
}

#[test]
fn what_is_no_file_is_not_read() {
    let home = Home::new("none");
    fs::create_dir_all(home.0.join("sessions/2026/11/20/directory.jsonl")).unwrap();
    let own = home.rollout("own", "\"source\":\"cli\"");
    assert_eq!(home.search(Format::Codex).candidates(), [own]);
}

#[test]
fn room_is_made_at_a_strangers_cost_and_nothing_is_read_twice() {
    let home = Home::new("room");
    let (teller, told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Gemini);
    let own = home.0.join("own.jsonl");
    fs::write(&own, said("once", search.started_ms)).unwrap();
    let add = |search: &mut Search, path: &Path, is_own| {
        assert!(search.add(path, is_own, &[path.to_owned()], &teller).is_ok());
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
    let mut numbers: Vec<_> = search.followed.iter().map(|followed| followed.number.0).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), FOLLOWED_MAX);
    search.followed.truncate(1);
    others(&mut search, FOLLOWED_MAX, true);
    assert!(search.followed.iter().all(|followed| followed.path != own));
    // A stranger's is not read at the cost of the command's.
    add(&mut search, &home.0.join("stranger.jsonl"), false);
    assert!(search.followed.iter().all(|followed| followed.is_own));
    append(&own, &said("again", search.started_ms), 0);
    add(&mut search, &own, true);
    let mut buffer = [0; 1024];
    assert!(search.followed.last_mut().unwrap().read(&mut buffer, &teller).is_ok());
    assert_eq!(replies(&told), [(0, "once".to_owned()), (0, "again".to_owned())]);
}

/// The command's own may be the oldest of them, and a conversation that nobody leads any more.
#[test]
fn of_more_files_than_are_followed_none_is_read_twice() {
    let home = Home::new("many");
    let (teller, told) = bounded(64 * RECORDS_MAX);
    let mut search = home.search(Format::Gemini);
    let count = FOLLOWED_MAX + 8;
    let mut paths = Vec::new();
    for number in 0..count {
        let path = home.chat(number);
        let word = format!("word {number}");
        append(&path, &said(&word, search.started_ms), 1000 * number as u64);
        paths.push(path);
        look(&mut search, &teller);
    }
    let heard = replies(&told);
    let words = heard.iter().map(|(_, word)| word.clone());
    assert!(words.eq((0..count).map(|number| format!("word {number}"))), "{heard:?}");
    for round in 0..3 {
        look(&mut search, &teller);
        assert_eq!(replies(&told), [], "round {round}");
    }
    // The bridge knows by its number whose it is.
    for (place, word) in [(0, "again"), (count - 1, "still")] {
        append(&paths[place], &said(word, search.started_ms), 1_000_000);
        look(&mut search, &teller);
        assert_eq!(replies(&told), [(heard[place].0, word.to_owned())]);
    }
    assert_eq!(search.followed.len(), FOLLOWED_MAX);
}

/// Until then it was another agent's.
#[test]
fn what_was_said_before_a_conversation_was_taken_up_is_anothers() {
    let home = Home::new("claude-resumed");
    let (teller, told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Claude);
    search.started_ms -= 60_000;
    let names = |session: &str| {
        let at = clock::unix_ms();
        let listed = format!("{{\"sessionId\":\"{session}\",\"startedAt\":{at}}}");
        home.write(&format!("sessions/{}.json", id()), &listed);
    };
    let says = |session: &str, words: &[(&str, u64)]| {
        let line = |(word, ago_ms): &(&str, u64)| {
            let at = calendar::utc(clock::unix_ms() - ago_ms);
            let content = format!("{{\"content\":\"{word}\"}}");
            format!("{{\"type\":\"assistant\",\"timestamp\":\"{at}\",\"message\":{content}}}\n")
        };
        let lines: String = words.iter().map(line).collect();
        home.write(&format!("projects/here/{session}.jsonl"), &lines);
    };
    let check = |search: &mut Search, expected: &[&str]| {
        look(search, &teller);
        let heard: Vec<_> = replies(&told).into_iter().map(|(_, word)| word).collect();
        assert_eq!(heard, expected);
    };
    names("a");
    check(&mut search, &[]);
    says("a", &[("before it began", 90_000), ("first", 30_000)]);
    check(&mut search, &["first"]);
    // Somebody else's.
    says("b", &[("another's", 30_000), ("its own", 0)]);
    names("b");
    check(&mut search, &["its own"]);
    names("c");
    check(&mut search, &[]);
    says("c", &[("anew", 0)]);
    check(&mut search, &["anew"]);
}

/// The system tells open files by their real names, which are not known before the home is there.
#[test]
fn a_home_that_is_made_later_is_known_by_its_real_name() {
    if process::written_files(id()).is_none() {
        return; // Not every system tells.
    }
    let home = Home::new("later");
    let root = home.0.clone();
    let (teller, _told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Codex);
    search.home = root.join("here/../later");
    look(&mut search, &teller);
    let later = Home(root.join("later"));
    let here = root.join("here");
    let head = format!("{{\"payload\":{{\"cwd\":{here:?}}}}}\n");
    let own = later.write("sessions/2026/11/20/own.jsonl", &head);
    let _open = File::options().append(true).open(&own).unwrap();
    look(&mut search, &teller);
    assert!(search.followed.iter().any(|followed| followed.is_own && followed.path == own));
}

/// It was read all the while, since it might have been the command's.
#[test]
fn what_was_read_of_a_stranger_is_not_the_commands_own_when_it_takes_it_up() {
    if process::written_files(id()).is_none() {
        return; // Not every system tells.
    }
    let home = Home::new("codex-resumed");
    let (teller, told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Codex);
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
    look(&mut search, &teller);
    let of_stranger = replies(&told);
    assert_eq!(of_stranger.len(), 1);
    says(&own, "first", 20_000);
    let first = open(&own);
    look(&mut search, &teller);
    let heard = replies(&told);
    assert_eq!(heard[0].1, "first");
    drop(first);
    let _second = open(&other);
    says(&other, "its own", 0);
    look(&mut search, &teller);
    let mut owned = Vec::new();
    let mut heard = Vec::new();
    for told in told.try_iter() {
        match told {
            Told::Owned(number) => owned.push(number),
            Told::Recorded(number, Record::Reply(text)) => heard.push((number, text)),
            _ => {}
        }
    }
    assert_eq!(owned.len(), 1);
    assert_ne!(owned[0], Number(of_stranger[0].0));
    heard.retain(|(number, _)| owned.contains(number));
    assert_eq!(heard, [(owned[0], "its own".to_owned())]);
}

#[test]
fn who_else_is_at_work_is_not_asked_where_nothing_happens() {
    let home = Home::new("idle");
    let (teller, told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Gemini);
    let other = home.chat(1);
    let is_asked = |search: &mut Search| {
        look(search, &teller);
        told.try_iter().any(|told| matches!(told, Told::Searched { .. }))
    };
    assert!(is_asked(&mut search));
    search.stirred_ms -= UNDECIDED_MS;
    assert!(!is_asked(&mut search));
    append(&other, "more\n", 0);
    assert!(is_asked(&mut search));
    assert!(is_asked(&mut search));
}

/// What was said before that comes again at no time.
#[test]
fn what_is_said_after_the_clock_was_set_back_is_heard() {
    const HOUR_MS: u64 = 3_600_000;
    let home = Home::new("clock");
    let (teller, told) = bounded(RECORDS_MAX);
    let mut search = home.search(Format::Gemini);
    let since_ms = search.started_ms;
    let chat = home.chat(1);
    append(&chat, &said("before", since_ms), 0);
    look(&mut search, &teller);
    assert_eq!(replies(&told), [(0, "before".to_owned())]);
    // The real clock was not set.
    let (now, ahead_ms) = (clock::monotonic_ms(), search.ahead_ms);
    search.compare_clocks(now, now + ahead_ms - HOUR_MS);
    append(&chat, &said("after", since_ms - HOUR_MS), 0);
    look(&mut search, &teller);
    assert_eq!(replies(&told), [(0, "after".to_owned())]);
    // Nor is it set by being read a little later.
    search.compare_clocks(now, now + search.ahead_ms - 100);
    append(&chat, &said("long ago", since_ms - HOUR_MS - 50), 0);
    look(&mut search, &teller);
    assert_eq!(replies(&told), []);
}
