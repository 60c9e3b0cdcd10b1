//! Which files are read, where nothing but files and this process are.

use super::*;
use std::{process::id, slice};

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

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
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
    search.started_ms -= 1000;
    let own = home.0.join("own.jsonl");
    let said = |word: &str, at_ms| {
        let at = calendar::utc(at_ms);
        format!(
            "{{\"id\":\"{word}\",\"timestamp\":\"{at}\",\"type\":\"gemini\",\"content\":\"{word}\"}}\n"
        )
    };
    let once = said("once", search.started_ms);
    fs::write(&own, &once).unwrap();
    assert!(search.add(own.clone(), true, &teller).is_ok());
    let others = |search: &mut Search, count, is_own| {
        for number in 0..count {
            let path = home.0.join(format!("{count}-{number}.jsonl"));
            assert!(search.add(path, is_own, &teller).is_ok());
        }
    };
    others(&mut search, FOLLOWED_MAX + 1, false);
    assert_eq!(search.followed.len(), FOLLOWED_MAX);
    assert_eq!(search.followed[0].path, own);
    let mut numbers: Vec<_> = search.followed.iter().map(|followed| followed.number.0).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), FOLLOWED_MAX);
    search.followed.truncate(1);
    let mut buffer = [0; 1024];
    assert!(search.followed[0].read(&mut buffer, &teller).is_ok());
    others(&mut search, FOLLOWED_MAX, true);
    assert!(search.followed.iter().all(|followed| followed.path != own));
    assert!(search.add(own.clone(), true, &teller).is_ok());
    fs::write(&own, once + &said("again", search.left[&own])).unwrap();
    assert!(search.followed.last_mut().unwrap().read(&mut buffer, &teller).is_ok());
    drop(teller);
    let replies = told.iter().filter_map(|told| match told {
        Told::Recorded(_, Record::Reply(text)) => Some(text),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), ["once", "again"]);
}
