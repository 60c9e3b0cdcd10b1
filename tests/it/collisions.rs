//! Two agents that edit the same file are notified of each other, and lists show it.

use crate::wrap::send;
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use testkit::{
    claude,
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{output, until},
};

/// A program under the name of Claude Code that runs the hook of a tool with each input that a file
/// holds, and records the hook's output.
const EDITOR: &str = r#"
echo ready
count=1
while [ ! -e end ]; do
    input="$AGENT_RELAY_AGENT-$count"
    [ -e "$input" ] || { sleep 0.05; continue; }
    hook PostToolUse <"$input" >"$input.new"
    mv "$input.new" "$input.told"
    count=$((count + 1))
done
"#;

/// An agent that uses tools.
struct Editor<'a> {
    sandbox: &'a Sandbox,
    name: &'static str,
    terminal: Terminal,
    count: usize,
    /// All that its hooks have told it.
    told: String,
}

impl<'a> Editor<'a> {
    fn start(sandbox: &'a Sandbox, name: &'static str) -> Self {
        let program = claude::install_with_hooks(sandbox, EDITOR);
        let terminal = Terminal::wrap(sandbox, name, &[&program]);
        terminal.wait_for("ready");
        Self { sandbox, name, terminal, count: 0, told: String::new() }
    }

    /// Lets a hook report the use of a tool, and records its output.
    fn uses(&mut self, report: &Value) {
        self.count += 1;
        let directory = self.sandbox.directory();
        let file = |end: &str| directory.join(format!("{}-{}{end}", self.name, self.count));
        fs::write(file(".put"), report.to_string()).unwrap();
        fs::rename(file(".put"), file("")).unwrap();
        until("the hook has ended", || file(".told").exists());
        let printed = fs::read(file(".told")).unwrap();
        let printed: Value = serde_json::from_slice(&printed).unwrap_or_default();
        let text = printed["hookSpecificOutput"]["additionalContext"].as_str();
        self.told.extend(text.map(|text| format!("{text}\n")));
    }

    fn edits(&mut self, path: &Path) {
        self.uses(&edit(path));
    }

    /// Uses a tool that edits nothing until the agent gets this text.
    fn is_told(&mut self, text: &str) {
        until("the agent is told of the collision", || {
            self.uses(&json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}));
            self.told.contains(text)
        });
    }
}

fn edit(path: &Path) -> Value {
    json!({"tool_name": "Edit", "tool_input": {"file_path": path}})
}

/// Makes an empty file in a folder of the sandbox.
fn make(sandbox: &Sandbox, path: &str) -> PathBuf {
    let path = sandbox.directory().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    path
}

fn sentence(with: &str, path: &Path) -> String {
    let path = path.canonicalize().unwrap();
    let path = path.to_str().unwrap();
    format!("{with} and you have edited the same file within ten minutes: `{path}`.\n")
}

fn end(sandbox: &Sandbox, editors: Vec<Editor<'_>>) {
    fs::write(sandbox.directory().join("end"), "").unwrap();
    for editor in editors {
        assert_eq!(editor.terminal.finish(), 0);
    }
}

fn listed(sandbox: &Sandbox, words: &[&str]) -> String {
    let listed = sandbox.run([&["agents"], words].concat());
    String::from_utf8(listed.stdout).unwrap()
}

/// A file has one path, whatever links it is reached by. Reports are repeated until they have
/// worked, since a hook gives up when its wrapper is slow.
#[test]
fn collision_is_told_to_both_once() {
    let sandbox = Sandbox::new();
    let [mut ann, mut bob] = ["Ann", "Bob"].map(|name| Editor::start(&sandbox, name));
    let file = make(&sandbox, "project/a file");
    let link = sandbox.directory().join("link");
    let mut linking = sandbox.program("ln");
    linking.arg("-s").arg(sandbox.directory().join("project")).arg(&link);
    assert!(output(linking).status.success());
    let shown = sandbox.directory().canonicalize().unwrap().join("project/a?file");
    let told = |with: &str| {
        let shown = shown.to_str().unwrap();
        format!("{with} and you have edited the same file within ten minutes: `{shown}`.\n")
    };
    until("Bob is told", || {
        ann.edits(&file);
        bob.edits(&link.join("a file"));
        bob.told.contains(&told("Ann"))
    });
    ann.is_told(&told("Bob"));
    let all = listed(&sandbox, &[]);
    let note = "note: Ann edits the same file as Bob: ";
    assert!(all.contains(note) && all.contains("note: Bob edits the same file as Ann: "), "{all}");
    let row: Value = serde_json::from_str(listed(&sandbox, &["Ann", "--json"]).trim()).unwrap();
    let path = file.canonicalize().unwrap();
    let collision = &row["collisions"][0];
    assert_eq!((&collision["with"], &collision["path"]), (&json!("Bob"), &json!(path)), "{row}");
    let mut top = Terminal::command_in(&sandbox, Size { rows: 30, cols: 140 }, &["top"]);
    top.wait_for("same file as Ann");
    top.wait_for("same file as Bob: project/a file");
    top.press("q");
    assert_eq!(top.finish(), 0);

    // Another file of the same name, as in another worktree, is another one.
    let (other, others) = (make(&sandbox, "project/b"), make(&sandbox, "worktree/b"));
    for _ in 0..2 {
        ann.edits(&other);
        bob.edits(&others);
        ann.edits(&file);
        bob.edits(&file);
    }
    assert_eq!((ann.told.clone(), bob.told.clone()), (told("Bob"), told("Ann")));
    end(&sandbox, vec![ann, bob]);
}

/// A subagent's edits count as its agent's, and the agent is notified of collisions.
#[test]
fn subagents_edit_for_their_agent() {
    let sandbox = Sandbox::new();
    let [mut ann, mut bob] = ["Ann", "Bob"].map(|name| Editor::start(&sandbox, name));
    let file = make(&sandbox, "file");
    let mut of_subagent = edit(&file);
    of_subagent["agent_id"] = "s-1".into();
    until("Bob is told", || {
        ann.uses(&of_subagent);
        bob.edits(&file);
        bob.told.contains(&sentence("Ann", &file))
    });
    assert_eq!(ann.told, "", "the subagent is told nothing");
    ann.is_told(&sentence("Bob", &file));
    end(&sandbox, vec![ann, bob]);
}

/// A wrapper that does not answer does not keep others from being notified.
#[test]
fn stopped_wrapper_hides_no_collision() {
    let sandbox = Sandbox::new();
    let [abe, mut ann, mut bob] = ["Abe", "Ann", "Bob"].map(|name| Editor::start(&sandbox, name));
    let signal = |name: &str| {
        let mut kill = sandbox.program("sh");
        kill.args(["-c", &format!("kill -{name} {}", abe.terminal.pty.pid())]);
        assert!(output(kill).status.success());
    };
    signal("STOP");
    let file = make(&sandbox, "file");
    until("Bob is told", || {
        ann.edits(&file);
        bob.edits(&file);
        bob.told.contains(&sentence("Ann", &file))
    });
    signal("CONT");
    end(&sandbox, vec![abe, ann, bob]);
}

#[test]
fn collisions_can_be_turned_off() {
    let sandbox = Sandbox::with_config("collisions = false");
    let [mut ann, mut bob] = ["Ann", "Bob"].map(|name| Editor::start(&sandbox, name));
    let mut cid = sandbox.join("Cid");
    let file = make(&sandbox, "file");
    for message in ["one", "two"] {
        send(&mut cid, "Ann", message);
        send(&mut cid, "Bob", message);
        for editor in [&mut ann, &mut bob] {
            until("the hook works", || {
                editor.edits(&file);
                !std::mem::take(&mut editor.told).is_empty()
            });
            editor.edits(&file);
            assert_eq!(editor.told, "");
        }
    }
    let rows = listed(&sandbox, &["--json"]);
    assert!(rows.contains("\"Ann\"") && !rows.contains("collisions"), "{rows}");
    end(&sandbox, vec![ann, bob]);
}
