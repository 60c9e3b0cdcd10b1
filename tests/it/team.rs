//! Teams: the agents of a project, and their groups.

use crate::wrap::{expect_message, wrap_line_reader, wrap_line_reader_with};
use platform::pty::Size;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use testkit::{
    claude,
    sandbox::Sandbox,
    terminal::{Terminal, environment},
    waiting::{assert_success, output, until},
};

/// A program under the name of Claude Code that notes its directory and its arguments, and begins a
/// conversation that is named after its directory.
const CLAUDE: &str = r#"
echo "$(pwd): $@" >> "$HOME/started"
echo ready
if [ -e "$HOME/broken" ]; then
    until [ -e "$HOME/leave" ]; do sleep 0.05; done
    exit 3
fi
name=$(basename "$(pwd)")
until cat "$HOME"/home/agents/*.json | grep -q "id-$name"; do
    echo '{"session_id":"id-'$name'","prompt":"Work."}' | hook UserPromptSubmit
done
while ! [ -e "$HOME/end" ]; do sleep 0.05; done
"#;

/// A sandbox with the repository `shop` and this agents.toml. `CLAUDE` in it is replaced by the
/// path of a fake Claude Code.
fn shop(agents: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, CLAUDE);
    let shop = shop_of(&sandbox);
    fs::create_dir_all(shop.join("web")).unwrap();
    git(&sandbox, &shop, &["init", "--quiet", "-b", "main"]);
    fs::write(shop.join("web/page"), "first\n").unwrap();
    fs::write(shop.join("agents.toml"), agents.replace("CLAUDE", &program)).unwrap();
    git(&sandbox, &shop, &["add", "."]);
    git(&sandbox, &shop, &["commit", "--quiet", "-m", "first"]);
    sandbox
}

fn shop_of(sandbox: &Sandbox) -> PathBuf {
    sandbox.directory().join("shop")
}

/// The file with another text.
fn change(sandbox: &Sandbox, change: impl FnOnce(&str) -> String) {
    let file = shop_of(sandbox).join("agents.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, change(&text)).unwrap();
}

#[track_caller]
fn git(sandbox: &Sandbox, directory: &Path, arguments: &[&str]) -> String {
    let mut git = sandbox.program("git");
    let name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    git.args(name).args(arguments).current_dir(directory);
    let ended = output(git);
    assert_success(&ended);
    String::from_utf8(ended.stdout).unwrap()
}

fn command_in(sandbox: &Sandbox, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.current_dir(directory);
    command
}

/// Runs `agent-relay` in the repository.
fn in_shop(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    output(command_in(sandbox, &shop_of(sandbox), arguments))
}

/// The standard output of a command that succeeds in the repository.
#[track_caller]
fn done(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ended = in_shop(sandbox, arguments);
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

/// The exit code of a command that fails, and its standard error.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String) {
    let ended = in_shop(sandbox, arguments);
    assert!(!ended.status.success(), "{arguments:?}: {ended:?}");
    (ended.status.code().unwrap(), String::from_utf8(ended.stderr).unwrap())
}

/// The directories and arguments of the agents' starts, without those of hooks and of the brief.
fn started(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.directory().join("started")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let words = line.split(' ').filter(|word| !word.contains("settings"));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// Waits until the conversation of each of these agents is recorded.
#[track_caller]
fn await_conversations(sandbox: &Sandbox, names: &[&str]) {
    for name in names {
        let record = sandbox.home().join(format!("agents/{name}.json"));
        until("the conversation is recorded", || {
            fs::read_to_string(&record).is_ok_and(|text| text.contains("\"id-"))
        });
    }
}

fn rows(json: &str) -> Vec<Value> {
    json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const DAY: &str = r#"
[[agent]]
name = "web"
command = ["CLAUDE", "--model", "opus", "ignored"]
directory = "web"
worktree = true
prompt = "Fix the \u001b[31mtests."
topics = ["build.>"]
groups = ["reviewers"]
needs = ["api"]

[[agent]]
name = "api"
command = "CLAUDE"
groups = ["Reviewers", "back"]
"#;

#[test]
fn team_is_started_stopped_and_goes_on() {
    let sandbox = shop(DAY);
    let shop = shop_of(&sandbox);
    let tree = sandbox.directory().join("shop.worktrees/web");
    // Nothing in the file is run before the person has agreed to it.
    let (code, asked) = refused(&sandbox, &["team", "up"]);
    assert_eq!((code, asked.ends_with("there is no terminal to ask at; give --yes\n")), (2, true));
    let (at, trees) = (shop.display(), tree.display());
    let program = sandbox.directory().join("claude");
    let program = program.display();
    let plan = format!(
        "{at}/agents.toml asks for this:\n  api: {program}\n    in {at}\n    in @Reviewers, @back\n  \
         web: {program} --model opus ignored\n    in {trees}/web\n    a worktree of git on the branch \
         agents/web\n    after api\n    in @reviewers\n    gets messages on build.>\n    first prompt:\n      \
         | Fix the \\u{{1b}}[31mtests.\n"
    );
    assert!(asked.starts_with(&plan), "{asked}\n{plan}");
    assert!(!tree.exists() && started(&sandbox).is_empty());

    let up = done(&sandbox, &["team", "up", "--yes"]);
    let lines: Vec<_> = up.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["api", "web"], "{up}");
    await_conversations(&sandbox, &["api", "web"]);
    let first = [format!("{at}:"), format!("{trees}/web: --model opus ignored")];
    assert_eq!(started(&sandbox), first);
    let waiting = done(&sandbox, &["inbox", "--as", "web"]);
    assert!(waiting.contains("tests.") && waiting.contains("@operator"), "{waiting}");
    assert_eq!(git(&sandbox, &tree, &["branch", "--show-current"]), "agents/web\n");

    // Running agents are left alone, also if the command runs in a subdirectory or in the worktree.
    let again = output(command_in(&sandbox, &tree.join("web"), &["team", "up"]));
    assert_eq!(String::from_utf8_lossy(&again.stdout), "api runs already\nweb runs already\n");
    let status = rows(&done(&sandbox, &["team", "status", "--json"]));
    let states: Vec<_> = status.iter().map(|row| (&row["name"], &row["running"])).collect();
    assert_eq!(states, [(&"api".into(), &true.into()), (&"web".into(), &true.into())]);
    assert_eq!(status[1]["directory"], tree.join("web").to_str().unwrap());

    assert_eq!(done(&sandbox, &["team", "down"]), "web ended\napi ended\n");
    assert_eq!(done(&sandbox, &["team", "down"]), "no agent of the team ran\n");
    let status = done(&sandbox, &["team", "status"]);
    assert_eq!(status.matches("has ended").count(), 2, "{status}");
    let (_, why) = refused(&sandbox, &["send", "@reviewers", "hello"]);
    assert!(why.contains("there is no group @reviewers"), "{why}");

    // The agents continue their conversations, without another first prompt.
    let up = done(&sandbox, &["team", "up"]);
    assert!(up.starts_with("api goes on (process ") && up.contains("\nweb goes on "), "{up}");
    until("both run again", || started(&sandbox).len() == 4);
    let later =
        [format!("{at}: --resume id-shop"), format!("{trees}/web: --resume id-web --model opus")];
    assert_eq!(started(&sandbox)[2..], later);
    let waiting = done(&sandbox, &["inbox", "--as", "web"]);
    assert_eq!(waiting.matches("tests.").count(), 1, "{waiting}");

    // A file that has changed is shown once more.
    done(&sandbox, &["team", "down"]);
    change(&sandbox, |text| text.replace("opus", "haiku"));
    let (_, asked) = refused(&sandbox, &["team", "up", "--json"]);
    assert!(asked.contains("agents.toml has changed, and asks for this:"), "{asked}");
    let fresh = rows(&done(&sandbox, &["team", "up", "--yes", "--json", "--fresh"]));
    let states: Vec<_> = fresh.iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["started", "started"], "{fresh:?}");
    until("both run", || started(&sandbox).len() == 6);
    assert_eq!(started(&sandbox)[5], format!("{trees}/web: --model haiku ignored"));
    done(&sandbox, &["team", "down"]);
}

#[test]
fn file_is_agreed_to_at_a_terminal() {
    let sandbox = shop("[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\n");
    let relay = env!("CARGO_BIN_EXE_agent-relay");
    let (endpoint, home) = (sandbox.endpoint(), sandbox.home());
    let options = ["--endpoint", endpoint.as_text(), "--home", home.to_str().unwrap()];
    let command = [&[relay], &options[..], &["team", "up"]].concat();
    for (answer, code, said) in
        [("\r", 1, "nothing was started"), ("y\r", 0, "api runs (process "), ("", 0, "already")]
    {
        let size = Size { cols: 100, rows: 40 };
        let mut terminal =
            Terminal::start(&command, &environment(&sandbox), &shop_of(&sandbox), size);
        if !answer.is_empty() {
            terminal.wait_for("Start 1 agent? [y/N]");
            assert!(terminal.text().contains("  api: "), "{}", terminal.text());
            terminal.press(answer);
        }
        terminal.wait_for(said);
        assert_eq!(terminal.finish(), code);
    }
    done(&sandbox, &["stop", "api"]);
}

#[test]
fn group_reaches_each_of_its_agents() {
    let sandbox = shop(DAY);
    done(&sandbox, &["team", "up", "--yes"]);
    let mut zed = sandbox.join("Zed");
    // A person's command can address them from any directory, together with other names.
    let sent = rows(&done(&sandbox, &["send", "@REVIEWERS,Zed,web", "look", "--json"]));
    let names: Vec<_> = sent.iter().map(|row| row["to"].as_str().unwrap()).collect();
    assert_eq!(names, ["api", "web", "Zed"]);
    expect_message(&mut zed, "@operator", "look");
    // It is one message, wherever people see it.
    let history = done(&sandbox, &["history"]);
    assert_eq!(history.matches("look").count(), 1, "{history}");
    assert!(history.contains("@operator -> api, web +1"), "{history}");
    let read = done(&sandbox, &["read", sent[1]["id"].as_str().unwrap()]);
    assert!(read.starts_with("@operator -> api, web +1\napi: "), "{read}");
    assert!(read.contains(", web: ") && read.contains(", Zed: "), "{read}");
    assert_eq!(done(&sandbox, &["history", "--json"]).matches("look").count(), 3);
    // A sender is not a recipient of its own group message.
    let sent = rows(&done(&sandbox, &["send", "--as", "Eve", "@back", "hm", "--json"]));
    assert_eq!(sent.len(), 1);
    let (code, why) = refused(&sandbox, &["send", "@nobody", "hello"]);
    assert_eq!(code, 2);
    assert!(why.contains("there is no group @nobody, but @back, @reviewers"), "{why}");

    let listed = done(&sandbox, &["agents"]);
    assert!(listed.ends_with("\ngroups: @back (api), @reviewers (api, web)\n"), "{listed}");

    // The brief mentions groups, if there are any.
    let told = |name| done(&sandbox, &["brief", name]).contains("`@GROUP`");
    assert!(told("Eve"));
    let eve = wrap_line_reader_with(&sandbox, &["-n", "Eve", "--brief"], &[]);
    eve.wait_for("- `@GROUP` as the recipient");

    // From an agent that prints.
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    ann.press("say @reviewers from Ann\r");
    for name in ["api", "web"] {
        until("the message waits", || {
            let waiting = done(&sandbox, &["inbox", "--as", name]);
            waiting.contains("from Ann")
        });
    }
    let history = done(&sandbox, &["history", "--search", "Ann"]);
    assert!(history.contains("Ann -> api, web"), "{history}");
    ann.press("say @back twice\r");
    until("the message waits", || done(&sandbox, &["inbox", "--as", "api"]).contains("twice"));
    assert!(!done(&sandbox, &["inbox", "--as", "web"]).contains("twice"));
    ann.press("say @nobody lost\r");
    ann.wait_for("there is no group @nobody");
    // The last message is sent although the program ends at once.
    ann.press("say @back last words\rexit\r");
    assert_eq!(ann.finish(), 0);
    until("it waits", || done(&sandbox, &["inbox", "--as", "api"]).contains("last words"));

    // Commands about agents take groups, too.
    assert_eq!(done(&sandbox, &["hold", "@reviewers", "api"]).matches("are held").count(), 2);
    assert_eq!(done(&sandbox, &["release", "@back"]).lines().count(), 1);
    assert_eq!(done(&sandbox, &["stop", "@reviewers"]), "api ended\nweb ended\n");
    done(&sandbox, &["team", "down"]);
    assert!(!told("Eve"));
}

#[test]
fn agents_topics_are_subscribed() {
    let sandbox = shop(DAY);
    done(&sandbox, &["team", "up", "--yes"]);
    let sent = done(&sandbox, &["send", "--topic", "build.linux", "*", "green"]);
    assert!(sent.ends_with("for 1 recipient\n"), "{sent}");
    assert!(done(&sandbox, &["inbox", "--as", "web"]).contains("green"));
    done(&sandbox, &["team", "down"]);
    let wrong = in_shop(&sandbox, &["run", "Ann", "--topic", "a..b", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn worktree_with_changes_is_kept() {
    let sandbox = shop(DAY);
    let tree = sandbox.directory().join("shop.worktrees/web");
    done(&sandbox, &["team", "up", "--yes"]);
    fs::write(tree.join("web/new"), "mine\n").unwrap();
    let (code, why) = refused(&sandbox, &["team", "down", "--worktrees"]);
    assert_eq!(code, 1);
    assert!(why.contains("contains modified or untracked files"), "{why}");
    assert!(why.contains("; it stays; commit what is in it first"), "{why}");
    assert_eq!(fs::read_to_string(tree.join("web/new")).unwrap(), "mine\n");
    git(&sandbox, &tree, &["add", "."]);
    git(&sandbox, &tree, &["commit", "--quiet", "-m", "mine"]);
    done(&sandbox, &["team", "down", "--worktrees"]);
    assert!(!tree.parent().unwrap().exists());

    // A later worktree is on the same branch, with its commits.
    done(&sandbox, &["team", "up"]);
    assert_eq!(fs::read_to_string(tree.join("web/new")).unwrap(), "mine\n");
    done(&sandbox, &["team", "down", "--worktrees"]);

    // An existing directory at the path is not changed.
    fs::create_dir_all(&tree).unwrap();
    let (_, why) = refused(&sandbox, &["team", "up"]);
    assert!(why.contains("is no worktree of"), "{why}");
    assert!(tree.exists());
    done(&sandbox, &["team", "down"]);
}

#[test]
fn agent_that_fails_holds_up_only_those_that_need_it() {
    let sandbox = shop(
        "[[agent]]\nname = 'web'\ncommand = 'CLAUDE'\nneeds = ['API']\n\
         [[agent]]\nname = 'api'\ncommand = './no-such-program'\n\
         [[agent]]\nname = 'other'\ncommand = 'CLAUDE'\ndirectory = 'web'\n",
    );
    let ended = in_shop(&sandbox, &["team", "up", "--yes"]);
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    let up = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(why.contains("no-such-program"), "{why}");
    assert!(why.contains("web is not started, since it needs API"), "{why}");
    assert!(up.starts_with("other runs ") && up.lines().count() == 1, "{up}");
    assert!(!ended.status.success());
    assert_eq!(done(&sandbox, &["team", "down"]), "other ended\n");
}

#[test]
fn conversation_that_cannot_go_on_is_a_failure() {
    let sandbox = shop("[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\n");
    done(&sandbox, &["team", "up", "--yes"]);
    await_conversations(&sandbox, &["api"]);
    done(&sandbox, &["team", "down"]);
    let signs = ["broken", "leave"].map(|sign| sandbox.directory().join(sign));
    signs.iter().for_each(|sign| fs::write(sign, "").unwrap());
    let (code, why) = refused(&sandbox, &["team", "up"]);
    assert_eq!(code, 1);
    assert!(why.contains("api ended at once, with code 3"), "{why}");
    fs::remove_file(&signs[0]).unwrap();
    assert!(done(&sandbox, &["team", "up"]).starts_with("api goes on "));
    done(&sandbox, &["team", "down"]);
}

#[test]
fn agents_get_the_options_of_the_file() {
    let sandbox = shop(
        "[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\nmcp = true\nbrief = true\n\
         [[agent]]\nname = 'web'\ncommand = 'sh'\nmcp = true\n",
    );
    let ended = in_shop(&sandbox, &["team", "up", "--yes"]);
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(why.contains("    is told how to send messages\n    with the tools"), "{why}");
    assert!(why.contains("web: --mcp does not apply to sh: "), "{why}");
    assert_eq!(ended.status.code(), Some(2));
    await_conversations(&sandbox, &["api"]);
    let record = fs::read_to_string(sandbox.home().join("agents/api.json")).unwrap();
    assert!(record.contains(r#""options":["--brief","--mcp"]"#), "{record}");
    done(&sandbox, &["team", "down"]);
}

#[test]
fn unknown_programs_have_one_note() {
    let sandbox = shop(
        "[[agent]]\nname = 'api'\ncommand = ['sleep', '600']\n\
         [[agent]]\nname = 'web'\ncommand = ['sleep', '600']\n\
         [[agent]]\nname = 'own'\ncommand = ['sleep', '600']\naccepts_text = true\n",
    );
    let ended = in_shop(&sandbox, &["team", "up", "--yes"]);
    assert_success(&ended);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.contains("messages to api, web will wait unless they start an agent CLI"),
        "{said}"
    );
    assert_eq!(said.matches("will wait").count(), 1, "{said}");
    done(&sandbox, &["team", "down"]);
}

#[test]
fn first_prompt_that_still_waits_is_not_sent_twice() {
    let sandbox = shop("[[agent]]\nname = 'web'\ncommand = 'CLAUDE'\nprompt = 'Begin.'\n");
    let signs = ["broken", "leave"].map(|sign| sandbox.directory().join(sign));
    fs::write(&signs[0], "").unwrap();
    assert!(done(&sandbox, &["team", "up", "--yes"]).starts_with("web runs "));
    let waiting = || done(&sandbox, &["inbox", "--as", "web"]).matches("Begin.").count();
    assert_eq!(waiting(), 1);
    // It ends before it has begun a conversation.
    fs::write(&signs[1], "").unwrap();
    done(&sandbox, &["wait", "web", "ended"]);
    fs::remove_file(&signs[0]).unwrap();
    assert!(done(&sandbox, &["team", "up"]).starts_with("web runs "));
    assert_eq!(waiting(), 1);
    // Its file may be gone, such as on another branch.
    fs::rename(shop_of(&sandbox).join("agents.toml"), shop_of(&sandbox).join("old")).unwrap();
    assert_eq!(done(&sandbox, &["team", "down"]), "web ended\n");
}

/// A killed `team up`, as by Ctrl-C, has started an agent and has not sent its first prompt.
#[test]
fn first_prompt_outlives_a_killed_command() {
    let sandbox = shop(
        "[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\nprompt = 'Begin.'\n\
         [[agent]]\nname = 'web'\ncommand = 'CLAUDE'\nworktree = true\n",
    );
    let [hooked, go, over] = ["hooked", "go", "over"].map(|sign| sandbox.directory().join(sign));
    // The command waits for git between the start of the first agent and its prompt.
    let hook = shop_of(&sandbox).join(".git/hooks/post-checkout");
    let waits = "#!/bin/sh\ntouch \"$HOME/hooked\"\n\
                 until [ -e \"$HOME/go\" ]; do sleep 0.05; done\ntouch \"$HOME/over\"\n";
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, waits).unwrap();
    let mut chmod = sandbox.program("chmod");
    chmod.arg("+x").arg(&hook);
    assert_success(&output(chmod));
    let mut up = command_in(&sandbox, &shop_of(&sandbox), &["team", "up", "--yes"]);
    let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the first agent runs", || hooked.exists() && started(&sandbox).len() == 1);
    up.kill().unwrap();
    up.wait().unwrap();
    fs::write(&go, "").unwrap();
    until("git has ended", || over.exists());
    await_conversations(&sandbox, &["api"]);
    let prompts = || done(&sandbox, &["inbox", "--as", "api"]).matches("Begin.").count();
    assert_eq!(prompts(), 0);
    // The next command gives it to the agent that runs, and only once.
    assert!(done(&sandbox, &["team", "up"]).starts_with("api runs already\nweb runs "));
    assert_eq!(prompts(), 1);
    done(&sandbox, &["team", "up"]);
    assert_eq!(prompts(), 1);
    // It is also not sent twice if a command was killed directly after it had sent the prompt.
    let record = fs::read_dir(sandbox.home().join("teams")).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(record.path()).unwrap();
    let owing = text.replacen(r#","prompt":"#, r#","owes_prompt":true,"prompt":"#, 1);
    assert_ne!(owing, text);
    fs::write(record.path(), owing).unwrap();
    done(&sandbox, &["team", "up"]);
    assert_eq!(prompts(), 1);
    assert_eq!(fs::read_to_string(record.path()).unwrap(), text);
    done(&sandbox, &["team", "down"]);
}

#[test]
fn directory_that_is_like_a_repository_runs_no_hook() {
    let file =
        "[[agent]]\nname = 'web'\ncommand = 'CLAUDE'\ndirectory = 'vendor'\nworktree = true\n";
    let sandbox = shop(file);
    let vendor = shop_of(&sandbox).join("vendor");
    fs::create_dir_all(&vendor).unwrap();
    git(&sandbox, &vendor, &["init", "--quiet", "--bare", "."]);
    for (key, value) in [("core.bare", "false"), ("core.worktree", ".")] {
        git(&sandbox, &vendor, &["--git-dir", ".", "config", key, value]);
    }
    git(&sandbox, &vendor, &["--git-dir", ".", "commit", "--quiet", "--allow-empty", "-m", "x"]);
    let hook = vendor.join("hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\ntouch \"$HOME/ran\"\n").unwrap();
    let mut chmod = sandbox.program("chmod");
    chmod.arg("+x").arg(&hook);
    assert_success(&output(chmod));
    let (_, why) = refused(&sandbox, &["team", "up", "--yes"]);
    assert!(why.contains("cannot use bare repository"), "{why}");
    assert!(!sandbox.directory().join("ran").exists());
}

#[test]
fn agent_gets_another_place_in_its_project() {
    let sandbox = shop("[[agent]]\nname = 'web'\ncommand = 'CLAUDE'\nprompt = 'Begin.'\n");
    let shop = shop_of(&sandbox);
    done(&sandbox, &["team", "up", "--yes"]);
    await_conversations(&sandbox, &["web"]);
    change(&sandbox, |text| format!("{text}worktree = true\n"));
    let (_, why) = refused(&sandbox, &["team", "up", "--yes"]);
    let still =
        format!("web still runs in {}; end it first: `agent-relay stop web`", shop.display());
    assert!(why.contains(&still), "{why}");
    done(&sandbox, &["stop", "web"]);
    // Its conversation belongs to the other directory.
    assert!(done(&sandbox, &["team", "up"]).starts_with("web runs "));
    let record = sandbox.home().join("agents/web.json");
    until("the record is that of the worktree", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("shop.worktrees"))
    });
    done(&sandbox, &["team", "down"]);
    change(&sandbox, |text| text.replace("worktree = true\n", ""));
    assert!(done(&sandbox, &["team", "up", "--yes"]).starts_with("web runs "));
    done(&sandbox, &["team", "down"]);
    let tree = sandbox.directory().join("shop.worktrees/web");
    let places = [&shop, &tree, &shop].map(|place| format!("{}:", place.display()));
    until("the last one has started", || started(&sandbox).len() == 3);
    assert_eq!(started(&sandbox), places);
}

#[test]
fn agent_of_another_project_keeps_its_name() {
    let file = "[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\ngroups = ['g']\n";
    let sandbox = shop(file);
    let program = sandbox.directory().join("claude");
    let program = program.to_str().unwrap();
    let elsewhere = sandbox.directory().to_str().unwrap();
    done(&sandbox, &["spawn", "api", "--cwd", elsewhere, "--", program]);
    await_conversations(&sandbox, &["api"]);
    let (_, why) = refused(&sandbox, &["team", "up", "--yes"]);
    let other = format!("api is the name of an agent that runs in {elsewhere}; choose another");
    assert!(why.contains(&other), "{why}");
    // Nor does the group of this project reach it.
    let (_, why) = refused(&sandbox, &["stop", "@g"]);
    assert!(why.contains("there is no group @g"), "{why}");
    assert_eq!(done(&sandbox, &["team", "down"]), "no agent of the team ran\n");
    // That holds after its end, too, since its conversation and its mail wait for it.
    done(&sandbox, &["stop", "api"]);
    let (_, why) = refused(&sandbox, &["team", "up"]);
    assert!(why.contains("is the name of an agent in"), "{why}");
    done(&sandbox, &["purge", "--forget", "--yes", "api"]);
    assert!(done(&sandbox, &["team", "up"]).starts_with("api runs "));
    done(&sandbox, &["team", "down"]);
}

#[test]
fn name_with_mail_for_another_agent_is_not_reused() {
    let sandbox = shop(
        "[[agent]]\nname = 'api'\ncommand = 'CLAUDE'\n\
         [[agent]]\nname = 'web'\ncommand = 'CLAUDE'\ndirectory = 'web'\n",
    );
    // Clients without a wrapper: no record tells which agents have these names.
    for name in ["api", "web"] {
        drop(sandbox.join(name));
    }
    done(&sandbox, &["send", "api", "for the other one"]);
    let ended = in_shop(&sandbox, &["team", "up", "--yes"]);
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    let expected = "1 message waits for another agent named api; choose another name, or \
                    `agent-relay purge api`";
    assert!(!ended.status.success() && why.contains(expected), "{why}");
    let up = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(up.starts_with("web runs ") && up.lines().count() == 1, "{up}");
    done(&sandbox, &["purge", "--yes", "api"]);
    let up = done(&sandbox, &["team", "up"]);
    assert!(up.starts_with("api runs ") && up.ends_with("web runs already\n"), "{up}");
    // Mail of the team's own agent is no obstacle.
    done(&sandbox, &["team", "down"]);
    done(&sandbox, &["send", "api", "for this one"]);
    done(&sandbox, &["team", "up"]);
    done(&sandbox, &["team", "down"]);
}

#[test]
fn wrong_file_or_none_is_named() {
    let sandbox = shop("[[agent]]\nname = 'api'\n");
    let (code, why) = refused(&sandbox, &["team", "up", "--yes"]);
    let file = shop_of(&sandbox).join("agents.toml");
    let expected = format!("agent-relay: {}:1: [[agent]] has no `command`\n", file.display());
    assert_eq!((code, why), (1, expected));
    change(&sandbox, |_| "[[agent]]\nname = 'a'\ncommand = 'x'\ndirectory = 'gone'\n".to_owned());
    let (_, why) = refused(&sandbox, &["team", "status"]);
    assert!(
        why.contains("agents.toml: the directory of a does not exist: ") && why.contains("gone"),
        "{why}"
    );
    let none = sandbox.run(["team", "up"]);
    let why = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(why.contains("there is no agents.toml in "), "{why}");
}
