//! Whole screens of `top`.

use super::*;
use crate::cli::top::{
    action::{Action, Step},
    editor::Edit,
    model::{
        Update,
        tests::{NOW, agent, dialog, message},
    },
};
use expect_test::{Expect, expect};
use ratatui::{Terminal, backend::TestBackend, buffer::Cell};

fn model(columns: u16, rows: u16, has_colours: bool) -> Model {
    let mut model = Model::new(columns, rows, has_colours, NOW);
    model.update(Update::Joined("/tmp/agent-relay.sock".to_owned()));
    let mut agents = vec![
        agent("Ann", Need::Nothing, "working"),
        agent("Dora", Need::Nothing, "away"),
        agent("Bob", Need::Message, "idle"),
        agent("Cid", Need::Permission, "waits for permission"),
        agent(&"N".repeat(64), Need::Nothing, "idle"),
    ];
    agents[2].waiting = 3;
    agents[2].why = Some(("a line is half typed: send it off".to_owned(), Some(NOW - 180_000)));
    agents[0].is_held = true;
    model.update(Update::Agents(agents));
    for (number, to, text) in [
        (1, "Bob", "The parser is done. Can you take the tests?"),
        (2, "*", "中文字中文字 and \\u{1b}[2J, then \\u{202e} right to left: שלום"),
        (3, OPERATOR, &"long ".repeat(60)),
    ] {
        model.update(Update::Messages(vec![message(number, to, text)]));
    }
    let letter =
        Message { why: Some("EXPIRED".to_owned()), ..message(9, "Dora", "are you there?") };
    model.update(Update::Letters(vec![letter]));
    model.update(Update::Mailbox(2, vec![message(3, OPERATOR, "all green\n\n  2 passed")]));
    let screen = ["", "> run the tests", "  12 passed", "────────────"].map(str::to_owned);
    model.update(Update::Preview("Cid".to_owned(), Ok(screen.to_vec())));
    model
}

fn buffer(model: &Model, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The rows of a screen, without blanks at their ends. The second column of a wide character
/// is left out.
fn rows(buffer: &Buffer) -> Vec<String> {
    let Rect { width, height, .. } = buffer.area;
    let row = |y: u16| {
        let (mut row, mut x) = (String::new(), 0);
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            let columns = unicode_width::UnicodeWidthStr::width(symbol).max(1);
            x += u16::try_from(columns).unwrap();
        }
        row.trim_end().to_owned()
    };
    (0..height).map(row).collect()
}

fn check(model: &Model, columns: u16, lines: u16, expected: Expect) {
    let (rows, mut text) = (rows(&buffer(model, columns, lines)), String::new());
    for same in rows.chunk_by(|row, next| row == next) {
        text.push_str(&format!("{}\n", same[0]));
        if same.len() > 1 {
            text.push_str(&format!("({} more rows like that)\n", same.len() - 1));
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn screen_of_80_columns() {
    check(
        &model(80, 24, true),
        80,
        24,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent…
               NAME         PROGRAM  WHERE       STATE               FOR  MAIL  WHY
            !  Cid          claude   web (main)  waits for permiss…  5 s
            !  Bob          claude   web (main)  idle                5 s  3     3 min: a li…
               Ann          claude   web (main)  working, held       5 s
               NNNNNNNNNN…  claude   web (main)  idle                5 s
            1 away without mail: Dora
            Cid: ~/src/web; its messages are typed

            MESSAGES
            12:00:01 00000001  Ann -> Bob: The parser is done. Can you take the tests?
            12:00:02 00000002  Ann -> *: 中文字中文字 and \u{1b}[2J, then \u{202e} right to…
            12:00:03 00000003  Ann -> @operator: long long long long long long long long lo…

            (9 more rows like that)
            Enter attach  n next  m send  h hold  s stop  a new  i inbox  ? help  q quit
        "#]],
    );
}

/// Twelve connected agents: one asks, two work, and one is away without mail.
fn twelve(columns: u16, rows: u16) -> Model {
    let mut model = Model::new(columns, rows, true, NOW);
    model.update(Update::Joined("/tmp/agent-relay.sock".to_owned()));
    let mut agents: Vec<_> =
        (1..=12).map(|number| agent(&format!("web-{number:02}"), Need::Nothing, "idle")).collect();
    agents[3] = Agent {
        dialog: Some(dialog(0)),
        ..agent("web-04", Need::Permission, "waits for permission")
    };
    agents[6] = agent("web-07", Need::Nothing, "working");
    agents[8] = agent("web-09", Need::Nothing, "working");
    agents.push(agent("api", Need::Nothing, "away"));
    model.update(Update::Agents(agents));
    model.update(Update::Messages(vec![message(1, "web-02", "The parser is done.")]));
    model
}

#[test]
fn twelve_agents_and_a_question_fit() {
    check(
        &twelve(80, 24),
        80,
        24,
        expect![[r#"
            13 agents, 12 here  1 waits for you  /tmp/agent-relay.sock
               NAME    PROGRAM  WHERE       STATE               FOR  MAIL  WHY
            !  web-04  claude   web (main)  waits for permiss…  5 s        Bash command · r…
               web-07  claude   web (main)  working             5 s
               web-09  claude   web (main)  working             5 s
               web-01  claude   web (main)  idle                5 s
               web-02  claude   web (main)  idle                5 s
               web-03  claude   web (main)  idle                5 s
               web-05  claude   web (main)  idle                5 s
               web-06  claude   web (main)  idle                5 s
               web-08  claude   web (main)  idle                5 s
               web-10  claude   web (main)  idle                5 s
               web-11  claude   web (main)  idle                5 s
               web-12  claude   web (main)  idle                5 s
            1 away without mail: api
            web-04: ~/src/web; its messages are typed
              Bash command · rm -r target · Do you want to proceed?
              1 Yes
              2 Yes, and always allow rm
              3 No
            MESSAGES
            12:00:01 00000001  Ann -> web-02: The parser is done.

            1-9 answer  n next  Enter attach  m send  h hold  Tab messages  ? help  q quit
        "#]],
    );
}

#[test]
fn twelve_agents_and_a_question_in_a_large_terminal() {
    check(
        &twelve(140, 40),
        140,
        40,
        expect![[r#"
        13 agents, 12 here  1 waits for you  /tmp/agent-relay.sock
           NAME    PROGRAM  WHERE       STATE                 FOR  MAIL  WHY                │ SCREEN of web-04
        !  web-04  claude   web (main)  waits for permission  5 s        Bash command · rm …│
           web-07  claude   web (main)  working               5 s                           │
           web-09  claude   web (main)  working               5 s                           │
           web-01  claude   web (main)  idle                  5 s                           │
           web-02  claude   web (main)  idle                  5 s                           │
           web-03  claude   web (main)  idle                  5 s                           │
           web-05  claude   web (main)  idle                  5 s                           │
           web-06  claude   web (main)  idle                  5 s                           │
           web-08  claude   web (main)  idle                  5 s                           │
           web-10  claude   web (main)  idle                  5 s                           │
           web-11  claude   web (main)  idle                  5 s                           │
           web-12  claude   web (main)  idle                  5 s                           │
        1 away without mail: api                                                            │
        web-04: ~/src/web; its messages are typed                                           │
          Bash command                                                                      │
          rm -r target                                                                      │
          Do you want to proceed?                                                           │
          1 Yes                                                                             │
          2 Yes, and always allow rm                                                        │
          3 No                                                                              │
        MESSAGES                                                                            │
        12:00:01 00000001  Ann -> web-02: The parser is done.                               │
                                                                                            │
        (14 more rows like that)
        1-9 answer  n next  Enter attach  m send  h hold  Tab messages  / filter  ? help  q quit
    "#]],
    );
}

#[test]
fn agents_that_were_cut_off_are_offered() {
    let mut model = twelve(80, 24);
    let names = |names: &[&str]| Update::CutOff(names.iter().map(|&name| name.into()).collect());
    model.update(names(&["API", "web-02", "db\u{1b}"]));
    let shown = |model: &Model| rows(&buffer(model, 80, 24));
    let screen = shown(&model);
    // The daemon knows that web-02 runs.
    assert_eq!(screen[14], "2 cut off (R starts them again): API, db\\u{1b}");
    assert_eq!(screen[13], "   web-12  claude   web (main)  idle                5 s");
    let keys = "1-9 answer  R restore  n next  Enter attach  m send  h hold  ? help  q quit";
    assert_eq!(screen[23], keys);
    model.act(Action::HideAway);
    assert!(!shown(&model).iter().any(|row| row.contains("cut off")));
    model.act(Action::HideAway);
    model.update(names(&["db"]));
    assert_eq!(
        shown(&model)[13..15],
        ["1 away without mail: api", "1 cut off (R starts it again): db"]
    );
    let mut model = Model::new(80, 8, true, NOW);
    model.update(names(&["db"]));
    assert_eq!(shown(&model)[2], "1 cut off (R starts it again): db");
}

/// If a question is too long for its pane, parts of the text and of the choices are shown.
#[test]
fn question_in_a_small_terminal() {
    let mut model = twelve(60, 14);
    check(
        &model,
        60,
        14,
        expect![[r#"
            13 agents, 12 here  1 waits for you  /tmp/agent-relay.sock
               NAME    PROGRAM  WHERE      STATE     FOR  MAIL  WHY
            !  web-04  claude   web (mai…  waits f…  5 s        Bash co…
               web-07  claude   web (mai…  working   5 s
               web-09  claude   web (mai…  working   5 s
               web-01  claude   web (mai…  idle      5 s
            1 away without mail: api
            web-04: ~/src/web; its messages are typed
              Bash command · rm -r target · Do you want to proceed?
              1 Yes  2 Yes, and always allow rm  3 No
            MESSAGES
            12:00:01 00000001  Ann -> web-02: The parser is done.

            1-9 answer  n next  Enter attach  m send  ? help  q quit
        "#]],
    );
    model.act(Action::Stop);
    assert_eq!(rows(&buffer(&model, 60, 14))[13], "stop web-04? y stops it, other keys do not");
    model.act(Action::Back);
    model.act(Action::HideAway);
    assert!(rows(&buffer(&model, 60, 14)).contains(&"1 away, hidden (H shows them)".to_owned()));
}

/// A foreground that the terminal may also have as its background would not be readable.
#[test]
fn reversed_row_has_the_colours_of_the_terminal() {
    let mut model = model(80, 24, true);
    model.update(Update::Messages(vec![message(4, OPERATOR, "green")]));
    let check = |model: &Model, count| {
        let drawn = buffer(model, 80, 24);
        let is_reversed = |cell: &&Cell| cell.modifier.contains(Modifier::REVERSED);
        let reversed: Vec<_> = drawn.content.iter().filter(is_reversed).collect();
        assert_eq!(reversed.len(), count);
        for cell in reversed {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?}");
            assert!(!cell.modifier.contains(Modifier::DIM), "{cell:?}");
        }
    };
    for _ in 0..4 {
        check(&model, 80);
        model.act(Action::Step(Step::Down));
    }
    model.act(Action::SwitchPane);
    check(&model, 80);
    let underlined = |cell: &&Cell| cell.modifier.contains(Modifier::UNDERLINED);
    assert_eq!(buffer(&model, 80, 24).content.iter().filter(underlined).count(), 80);
}

#[test]
fn reason_of_the_selected_agent_is_whole() {
    let mut model = model(80, 9, true);
    model.act(Action::Next);
    check(
        &model,
        80,
        9,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent…
               NAME         PROGRAM  WHERE       STATE               FOR  MAIL  WHY
            !  Bob          claude   web (main)  idle                5 s  3     3 min: a li…
            1 away without mail: Dora
            Bob: ~/src/web; its messages are typed; 3 waiting
            MESSAGES
            12:00:02 00000002  Ann -> *: 中文字中文字 and \u{1b}[2J, then \u{202e} right to…
            12:00:03 00000003  Ann -> @operator: long long long long long long long long lo…
            Enter attach  n next  m send  h hold  s stop  a new  i inbox  ? help  q quit
        "#]],
    );
}

#[test]
fn screen_of_120_columns() {
    check(
        &model(120, 40, true),
        120,
        40,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent-relay.sock
               NAME        PROGRAM  WHERE       STATE         FOR  MAIL  WHY        │ SCREEN of Cid
            !  Cid         claude   web (main)  waits for p…  5 s                   │
            !  Bob         claude   web (main)  idle          5 s  3     3 min: a l…│ > run the tests
               Ann         claude   web (main)  working, he…  5 s                   │   12 passed
               NNNNNNNNN…  claude   web (main)  idle          5 s                   │ ────────────
            1 away without mail: Dora                                               │
            Cid: ~/src/web; its messages are typed                                  │
                                                                                    │
            MESSAGES                                                                │
            12:00:01 00000001  Ann -> Bob: The parser is done. Can you take the tes…│
            12:00:02 00000002  Ann -> *: 中文字中文字 and \u{1b}[2J, then \u{202e} …│
            12:00:03 00000003  Ann -> @operator: long long long long long long long…│
                                                                                    │
            (25 more rows like that)
            Enter attach  n next  m send  h hold  s stop  a new  i inbox  d dead letters  Tab messages  / filter  ? help  q quit
        "#]],
    );
}

#[test]
fn screen_of_200_columns() {
    check(
        &model(200, 60, true),
        200,
        60,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent-relay.sock
               NAME                      PROGRAM  WHERE       STATE                 FOR  MAIL  WHY                                  │ SCREEN of Cid
            !  Cid                       claude   web (main)  waits for permission  5 s                                             │
            !  Bob                       claude   web (main)  idle                  5 s  3     3 min: a line is half typed: send it…│ > run the tests
               Ann                       claude   web (main)  working, held         5 s                                             │   12 passed
               NNNNNNNNNNNNNNNNNNNNNNN…  claude   web (main)  idle                  5 s                                             │ ────────────
            1 away without mail: Dora                                                                                               │
            Cid: ~/src/web; its messages are typed                                                                                  │
                                                                                                                                    │
            MESSAGES                                                                                                                │
            12:00:01 00000001  Ann -> Bob: The parser is done. Can you take the tests?                                              │
            12:00:02 00000002  Ann -> *: 中文字中文字 and \u{1b}[2J, then \u{202e} right to left: שלום                              │
            12:00:03 00000003  Ann -> @operator: long long long long long long long long long long long long long long long long lo…│
                                                                                                                                    │
            (45 more rows like that)
            Enter attach  n next  m send  h hold  s stop  a new  i inbox  d dead letters  Tab messages  / filter  ? help  q quit
        "#]],
    );
}

#[test]
fn screen_of_20_columns() {
    let mut model = model(20, 5, true);
    check(
        &model,
        20,
        5,
        expect![[r#"
            5 agents, 4 here  2…
               NAME      STATE
            !  Cid       waits …
            1 away without mail…
            ? help  q quit
        "#]],
    );
    model.act(Action::SwitchPane);
    check(
        &model,
        20,
        5,
        expect![[r#"
            5 agents, 4 here  2…
            MESSAGES
            Ann -> *: 中文字中…
            Ann -> @ope…: long …
            ? help  q quit
        "#]],
    );
}

#[test]
fn modes_of_the_last_line() {
    let mut model = model(80, 24, true);
    let last = |model: &Model| rows(&buffer(model, 80, 24)).pop().unwrap();
    model.act(Action::Message);
    model.act(Action::Edit(Edit::Insert("go on".to_owned())));
    assert_eq!(last(&model), "to Cid: go on");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(&model, frame)).unwrap();
    terminal.backend_mut().assert_cursor_position(Position::new(13, 23));
    model.act(Action::Back);
    model.act(Action::Filter);
    model.act(Action::Edit(Edit::Insert("x\u{1b}".to_owned())));
    assert_eq!(last(&model), "/x\\u{1b}");
    model.act(Action::Back);
    model.act(Action::SwitchPane);
    let keys = "Enter read  m answer  Esc back  / filter  i inbox  ? help  q quit";
    assert_eq!(last(&model), keys);
    model.set_notice("Bob's\nmessages\u{1b}".to_owned());
    assert_eq!(rows(&buffer(&model, 80, 24))[22..], ["Bob's", "messages\\u{1b}"]);
}

#[test]
fn help_and_a_whole_message() {
    let mut model = model(80, 24, true);
    model.act(Action::Help);
    check(
        &model,
        80,
        24,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent…
            KEY
            Up, Down, j, k    select an agent or a message
            Enter             attach to the agent (Ctrl-\ comes back); read the message
            n                 go to the next agent that waits for you
            1 to 9            press the choice with that number in the agent's dialog
            m                 send a message to the agent, or to the sender of the message
            h                 hold the agent's messages, or release them
            s                 stop the agent, after a question
            a                 start a new agent in the background
            R                 start the agents again that were cut off, such as by a reboot
            H                 hide agents that are away, or show those with mail again
            Tab               go to the messages, or back to the agents
            i                 show your inbox, or the conversation again
            t                 take the chosen message out of your inbox
            d                 show the dead letters, or the conversation again
            r                 deliver the chosen dead letter again
            /                 show only agents and messages with a text
            Esc               go back: to the agents, to the newest messages, to all
            PgUp, PgDn, g, G  go by pages, to the first, to the last
            Click, wheel      select; scroll the messages
            q, Ctrl-C         quit; the agents run on
            !, ✓              mark an agent that waits for you; that has finished, unseen
            Up, Down scroll  Esc back  ? help  q quit
        "#]],
    );
    model.act(Action::Back);
    model.act(Action::Show(List::DeadLetters));
    model.act(Action::Step(Step::Up));
    check(
        &model,
        80,
        12,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent…
               NAME         PROGRAM  WHERE       STATE               FOR  MAIL  WHY
            !  Cid          claude   web (main)  waits for permiss…  5 s
            !  Bob          claude   web (main)  idle                5 s  3     3 min: a li…
               Ann          claude   web (main)  working, held       5 s
               NNNNNNNNNN…  claude   web (main)  idle                5 s
            1 away without mail: Dora
            Cid: ~/src/web; its messages are typed

            DEAD LETTERS
            12:00:09 00000009  Ann -> Dora: (EXPIRED) are you there?

        "#]],
    );
    model.act(Action::Open);
    check(
        &model,
        80,
        12,
        expect![[r#"
            5 agents, 4 here  2 wait for you  1 dead letter  2 messages for you  /tmp/agent…
            Ann -> Dora
            12:00:09  00000009-0000-4000-8000-000000000000
            EXPIRED

            are you there?

            (5 more rows like that)
        "#]],
    );
}

#[test]
fn messages_that_are_not_followed_are_explained() {
    let mut model = model(80, 24, true);
    model.update(Update::Following(Err("a guest cannot run \"tap\"".to_owned())));
    let heading = "MESSAGES (new ones are not shown: a guest cannot run \"tap\")";
    assert!(rows(&buffer(&model, 80, 24)).contains(&heading.to_owned()));
    model.update(Update::Following(Ok(())));
    assert!(rows(&buffer(&model, 80, 24)).contains(&"MESSAGES".to_owned()));
}

#[test]
fn absent_daemon_is_shown() {
    let mut model = Model::new(80, 8, true, NOW);
    let why = "no daemon at /tmp/x.sock; start one with `agent-relay up`";
    model.update(Update::Away(why.to_owned()));
    check(
        &model,
        80,
        8,
        expect![[r#"
            not connected, trying again: no daemon at /tmp/x.sock; start one with `agent-re…
               NAME  PROGRAM  WHERE  STATE  FOR  MAIL  WHY
            no agents; start one with `agent-relay claude`
            MESSAGES

            (2 more rows like that)
            Enter attach  n next  m send  h hold  s stop  a new  ? help  q quit
        "#]],
    );
}

#[test]
fn empty_lists_are_no_news_before_they_are_read() {
    let mut model = Model::new(80, 8, true, NOW);
    let shows = |model: &Model, words: &str| {
        rows(&buffer(model, 80, 8)).iter().any(|row| row.starts_with(words))
    };
    let empty = ["no agents; start one", "no messages yet"];
    let shown = |model: &Model| empty.map(|words| shows(model, words));
    assert_eq!(shown(&model), [false, false]);
    model.update(Update::Joined("/tmp/x.sock".to_owned()));
    assert_eq!(shown(&model), [false, false]);
    model.take_changed();
    model.update(Update::Agents(Vec::new()));
    assert_eq!((model.take_changed(), shown(&model)), (true, [true, false]));
    model.update(Update::Messages(Vec::new()));
    assert_eq!((model.take_changed(), shown(&model)), (true, [true, true]));
}

#[test]
fn screen_without_colours_differs_in_nothing_but_them() {
    let [with, without] =
        [true, false].map(|has_colours| buffer(&model(80, 24, has_colours), 80, 24));
    assert_eq!(rows(&with), rows(&without));
    let coloured = |buffer: &Buffer| {
        let cells = buffer.content.iter();
        cells.filter(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset)).count()
    };
    assert!(coloured(&with) > 0);
    assert_eq!(coloured(&without), 0);
    let selected =
        without.content.iter().filter(|cell| cell.modifier == Modifier::REVERSED | Modifier::BOLD);
    assert_eq!(selected.count(), 80, "the selected row is reversed");
}

#[test]
fn every_size_is_drawn() {
    for columns in [0, 1, 2, 3, 5, 19, 40, 60, 119, 120, 300] {
        for lines in [0, 1, 2, 3, 7, 8, 100] {
            let mut model = model(columns, lines, true);
            let actions = [
                Action::SwitchPane,
                Action::Step(Step::First),
                Action::Open,
                Action::Help,
                Action::Message,
                Action::Filter,
            ];
            for action in actions {
                model.act(action);
                buffer(&model, columns, lines);
                // The terminal is smaller than the model knows, or larger.
                buffer(&model, 4, 3);
                buffer(&model, 130, 50);
            }
        }
    }
}
