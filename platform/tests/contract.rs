//! What the platform crate promises: the same tests on every system.
//!
//! The tests run one after the other, each in a thread of its own under a watchdog, since signals,
//! the umask and the terminal belong to the whole process. Tests that a system cannot run are in
//! one table, [`SKIPPED`], with the reason, and every run prints them. If `CI` is set, they must be
//! those of that system's list in `contract/`, line for line.
//!
//! `cargo test -p platform --test contract -- NAME` runs the tests whose name contains NAME.
#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(clippy::print_stdout, reason = "a test runner talks")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "contract/endings.rs"]
mod endings;
#[path = "contract/files.rs"]
mod files;
#[path = "contract/foreground.rs"]
mod foreground;
#[path = "contract/listeners.rs"]
mod listeners;
#[path = "contract/roles.rs"]
mod roles;
#[path = "contract/scene.rs"]
mod scene;
#[path = "contract/streams.rs"]
mod streams;
#[path = "contract/system.rs"]
mod system;
#[path = "contract/terminals.rs"]
mod terminals;
#[path = "contract/users.rs"]
mod users;

use std::{env, process::ExitCode, sync::mpsc, thread, time::Duration};

/// No test takes a tenth of this on a slow machine.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A test's name and body.
type Test = (&'static str, fn());

macro_rules! tests {
    ($($module:ident: $($name:ident),+;)+) => {
        const TESTS: &[Test] = &[$($((stringify!($name), $module::$name),)+)+];
    };
}

tests! {
    streams:
        one_thread_reads_while_another_writes, a_mebibyte_both_ways_at_once, a_mebibyte_in_single_bytes,
        a_sixteenth_of_it_in_single_bytes, a_mebibyte_in_large_pieces, last_bytes_before_a_close_arrive,
        last_bytes_before_a_hang_up_arrive, write_now_never_blocks;
    endings:
        hang_up_ends_a_blocked_read, hang_up_ends_a_blocked_write, hang_up_is_for_ever,
        hang_up_is_heard_on_the_other_side, who_leaves_without_reading_is_heard,
        stop_ends_a_blocked_accept, a_stop_is_for_ever;
    listeners:
        nobody_listens, a_live_endpoint_is_refused, one_of_a_hundred_wins,
        a_dead_endpoint_is_taken_over,
        who_holds_on_to_what_has_ended_keeps_nobody_from_listening, what_is_not_a_socket_is_left_alone, where_nobody_can_listen_is_told, a_removed_socket_is_noticed,
        a_foreign_socket_is_left_alone, a_thousand_connections, endpoints_are_checked,
        the_clock_goes_forward;
    users:
        the_peer_is_me, another_user_cannot_connect, another_user_is_recognized,
        another_users_server_is_refused, another_users_endpoint_is_foreign,
        users_are_read_as_they_are_written, a_listener_for_another_user_is_still_ours,
        who_has_less_power_is_kept_out;
    files:
        a_lock_has_one_holder, a_lock_ends_with_its_process, a_replaced_lock_is_noticed,
        private_files_are_private, private_files_are_replaced_whole,
        a_reader_keeps_what_it_opened, private_directories_are_private,
        what_takes_no_files_is_told, what_another_may_not_write_to_is_told,
        what_others_can_read_is_refused, what_others_can_change_is_refused,
        one_more_reader_is_let_in_and_known, a_detached_process_holds_nothing_open,
        a_detached_process_leaves_its_session, as_many_files_as_the_system_allows;
    terminals:
        an_exit_code_is_reported, a_signal_is_an_exit_code, a_missing_command_is_named,
        a_command_sees_its_surroundings, what_is_typed_is_read, a_resize_reaches_the_command,
        the_cursor_is_told, a_closed_terminal_ends_its_reader, a_command_ends_with_what_it_started,
        what_a_launcher_left_ends_as_well, a_batch_file_gets_what_it_is_given,
        a_batch_file_gets_names_of_variables, a_batch_file_gets_no_line_break_and_not_too_much,
        raw_mode_ends_when_dropped, raw_mode_ends_in_a_panic, every_key_arrives,
        what_types_nothing_holds_nobody_up, a_torn_character_harms_nothing_after_it, ctrl_c_is_told,
        ctrl_break_is_a_key_in_raw_mode, ctrl_break_is_typed, an_interrupt_is_told, termination_is_told, a_hang_up_is_told;
    foreground:
        command_is_listed_with_executable_and_arguments, executed_program_replaces_the_one_before,
        child_on_the_terminal_is_listed_with_its_parent, child_on_a_pipe_does_not_read_the_terminal,
        process_that_opened_the_terminal_reads_it, foreground_group_of_a_child_is_listed_alone,
        suspended_process_is_stopped, erased_command_line_is_remembered,
        fork_has_its_parents_command_line, processes_that_end_meanwhile_do_no_harm,
        observer_does_not_keep_the_terminal_open,
        hard_link_is_the_same_file_and_a_copy_has_its_content,
        symbolic_link_is_the_file_it_leads_to, removed_executable_is_known,
        member_server_is_for_windows_alone, member_server_is_not_a_member, look_without_a_member_server_fails,
        member_server_is_started_anew_but_not_for_ever;
}

/// Tests that are skipped: the kind of run, the test, the reason.
const SKIPPED: &[(&str, &str, &str)] = &[
    ("unprivileged", "another_user_cannot_connect", "only root can become another user"),
    ("unprivileged", "another_user_is_recognized", "only root can become another user"),
    ("unprivileged", "another_users_server_is_refused", "only root can become another user"),
    ("unprivileged", "another_users_endpoint_is_foreign", "only root can become another user"),
    ("windows", "another_user_cannot_connect", "a second account needs a password"),
    ("windows", "another_user_is_recognized", "a second account needs a password"),
    ("windows", "another_users_server_is_refused", "a second account needs a password"),
    ("windows", "another_users_endpoint_is_foreign", "a second account needs a password"),
    ("unprivileged", "what_another_may_not_write_to_is_told", "only root can become another user"),
    ("windows", "what_another_may_not_write_to_is_told", "a second account needs a password"),
    ("windows", "where_nobody_can_listen_is_told", "a pipe's name is in no directory"),
    ("windows", "write_now_never_blocks", "a named pipe has no such write"),
    ("windows", "what_is_not_a_socket_is_left_alone", "a pipe's name is not a file's"),
    ("windows", "a_removed_socket_is_noticed", "a pipe's name cannot be removed"),
    ("windows", "a_foreign_socket_is_left_alone", "a pipe's name cannot be replaced"),
    ("windows", "a_signal_is_an_exit_code", "there are no signals"),
    ("windows", "termination_is_told", "there is no SIGTERM, and a test cannot log off"),
    ("windows", "a_hang_up_is_told", "there is no SIGHUP"),
    ("unix", "the_cursor_is_told", "only Windows asks the terminal where its cursor is"),
    ("unix", "what_a_launcher_left_ends_as_well", "a process may leave the command's group"),
    ("unix", "a_batch_file_gets_what_it_is_given", "there are no batch files"),
    ("unix", "a_batch_file_gets_names_of_variables", "there are no batch files"),
    ("unix", "a_batch_file_gets_no_line_break_and_not_too_much", "there are no batch files"),
    ("unix", "what_types_nothing_holds_nobody_up", "a terminal tells only what is typed"),
    ("unix", "ctrl_break_is_a_key_in_raw_mode", "there is no Ctrl-Break"),
    ("unix", "ctrl_break_is_typed", "there is no Ctrl-Break"),
    ("unix", "a_listener_for_another_user_is_still_ours", "a service is its user's own"),
    ("unix", "who_has_less_power_is_kept_out", "a user's processes have the same"),
    ("unix", "one_more_reader_is_let_in_and_known", "a service is its user's own"),
    ("wine", "who_has_less_power_is_kept_out", "it knows no levels of integrity"),
    ("wine", "one_more_reader_is_let_in_and_known", "its files have Unix modes"),
    ("wine", "a_mebibyte_in_single_bytes", "it takes minutes; a sixteenth of it is shown"),
    ("wine", "a_reader_keeps_what_it_opened", "it does not replace a file that is open"),
    ("wine", "a_batch_file_gets_names_of_variables", "its shell expands what it has expanded"),
    ("wine", "ctrl_c_is_told", "its console host ends itself when it is typed"),
    ("wine", "ctrl_break_is_a_key_in_raw_mode", "its consoles have no Ctrl-Break"),
    ("wine", "ctrl_break_is_typed", "its consoles have no Ctrl-Break"),
    ("wine", "the_cursor_is_told", "its console host does not know the flag that makes it ask"),
    ("wine", "a_resize_reaches_the_command", "its pseudo console does not resize"),
    ("windows", "executed_program_replaces_the_one_before", "a process runs one program"),
    (
        "windows",
        "child_on_a_pipe_does_not_read_the_terminal",
        "a console does not tell its readers",
    ),
    ("windows", "process_that_opened_the_terminal_reads_it", "a console does not tell its readers"),
    ("windows", "foreground_group_of_a_child_is_listed_alone", "a console has no foreground group"),
    ("windows", "suspended_process_is_stopped", "there is no job control"),
    ("windows", "fork_has_its_parents_command_line", "there is no fork"),
    ("macos", "fork_has_its_parents_command_line", "a fork is an image of its own"),
    ("windows", "symbolic_link_is_the_file_it_leads_to", "making one needs a privilege"),
    ("windows", "removed_executable_is_known", "a running program's file cannot be removed"),
    ("macos", "removed_executable_is_known", "a removed file has no path"),
    ("windows", "member_server_is_for_windows_alone", "it is served here"),
    ("unix", "member_server_is_not_a_member", "only a console has a member server"),
    ("unix", "look_without_a_member_server_fails", "only a console has a member server"),
    (
        "unix",
        "member_server_is_started_anew_but_not_for_ever",
        "only a console has a member server",
    ),
];

/// The skipped tests where CI runs: as root on Linux, as any user on macOS.
const AGREED: &[(&str, &str)] = &[
    ("linux", include_str!("contract/linux.skipped-tests")),
    ("macos", include_str!("contract/macos.skipped-tests")),
    ("windows", include_str!("contract/windows.skipped-tests")),
    ("wine", include_str!("contract/wine.skipped-tests")),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [play, role, arguments @ ..] = &arguments[..]
        && play == roles::PLAY
    {
        return roles::play(role, arguments);
    }
    let wanted = arguments.into_iter().find(|argument| !argument.starts_with('-'));
    let wanted = wanted.unwrap_or_default();
    let here = system::here();
    println!("\ncontract on {}", here.join(", "));
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&wanted)) {
        if let Some(reason) = reason_to_skip(&here, name) {
            skipped.push(format!("skipped: {name}: {reason}"));
            println!("skipped: {name}: {reason}");
        } else if run(name, *test) {
            println!("ok: {name}");
            passed += 1;
        } else {
            println!("FAILED: {name}");
            failed.push(*name);
        }
    }
    if wanted.is_empty() && env::var_os("CI").is_some() && !is_agreed(&here, &skipped) {
        failed.push("list of skipped tests");
    }
    println!("contract: {passed} passed, {} failed {}\n", failed.len(), failed.join(" "));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn reason_to_skip(here: &[&str], test: &str) -> Option<&'static str> {
    let row = SKIPPED.iter().find(|row| row.1 == test && here.contains(&row.0));
    row.map(|row| row.2)
}

/// Whether the skipped tests are those of this system's list; prints the differences.
fn is_agreed(here: &[&str], skipped: &[String]) -> bool {
    let lists = here.iter().rev().filter_map(|kind| AGREED.iter().find(|list| list.0 == *kind));
    let (system, list) = lists.map(|list| (list.0, list.1)).next().unwrap();
    let agreed: Vec<&str> = list.lines().collect();
    for line in skipped.iter().filter(|line| !agreed.contains(&line.as_str())) {
        println!("FAILED: add to contract/{system}.skipped-tests: {line}");
    }
    for line in agreed.iter().filter(|line| !skipped.iter().any(|over| over == *line)) {
        println!("FAILED: remove from contract/{system}.skipped-tests: {line}");
    }
    agreed == skipped
}

/// Runs one test; a hanging one ends the run, since its thread cannot be ended.
fn run(name: &'static str, test: fn()) -> bool {
    let (done, wait) = mpsc::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        test();
        // The receiver is gone only if the watchdog has barked.
        let _ = done.send(());
    });
    let thread = thread.unwrap();
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(WATCHDOG) {
        println!("FAILED: {name} hangs");
        std::process::exit(1);
    }
    thread.join().is_ok()
}
