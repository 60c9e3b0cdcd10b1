//! The contract of the platform crate: the same tests on every system.
//!
//! The tests run one after the other, since signals, the umask and the terminal belong to the whole
//! process. Each test has a thread of its own and a timeout. The table [`SKIPPED`] has the tests
//! that a system cannot run, with the reason, and every run prints them. If `CI` is set, the
//! skipped tests must be those of the system's list in `contract/`, line for line.
//!
//! `cargo test -p platform --test contract -- NAME` runs the tests with NAME in their names.
#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(clippy::print_stdout, reason = "a test runner talks")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

#[path = "contract/endings.rs"]
mod endings;
#[path = "contract/files.rs"]
mod files;
#[path = "contract/foreground.rs"]
mod foreground;
#[path = "contract/fronts.rs"]
mod fronts;
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

/// The timeout of a test, many times its duration on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// A test's name and body.
type Test = (&'static str, fn());

macro_rules! tests {
    ($($module:ident: $($name:ident),+;)+) => {
        const TESTS: &[Test] = &[$($((stringify!($name), $module::$name),)+)+];
    };
}

tests! {
    streams:
        blocked_read_does_not_block_a_write, a_mebibyte_both_ways_at_once, a_mebibyte_in_single_bytes,
        a_sixteenth_of_a_mebibyte_in_single_bytes, a_mebibyte_in_large_pieces, last_bytes_before_a_close_arrive,
        last_bytes_before_a_hang_up_arrive, write_now_never_blocks;
    endings:
        hang_up_ends_a_blocked_read, hang_up_ends_a_blocked_write, hang_up_is_permanent,
        hang_up_reaches_the_other_side, close_with_unread_bytes_reaches_the_other_side,
        stop_ends_a_blocked_accept, stop_is_permanent;
    listeners:
        connect_without_a_listener_fails, a_live_endpoint_is_refused, one_of_a_hundred_rivals_listens,
        stale_endpoint_is_replaced,
        client_of_an_ended_listener_does_not_block_a_new_one, file_at_the_endpoint_is_not_replaced, unusable_endpoint_is_refused, a_removed_socket_is_noticed,
        foreign_socket_is_not_removed, a_thousand_connections, endpoints_are_checked,
        the_clock_goes_forward;
    users:
        own_peer_is_this_user, another_user_cannot_connect, another_user_is_recognized,
        another_users_server_is_refused, another_users_stale_socket_is_left_alone,
        another_users_endpoint_is_foreign, user_text_parses_back, listener_for_another_user_admits_its_own_user,
        process_with_fewer_rights_cannot_connect;
    files:
        a_lock_has_one_holder, a_lock_ends_with_its_process, a_replaced_lock_is_noticed,
        a_removed_lock_can_be_taken_again,
        private_files_are_private, private_files_are_replaced_whole,
        open_file_keeps_its_content_when_replaced, private_directories_are_private,
        unwritable_directory_is_refused, another_users_directory_is_unwritable,
        file_identity_changes_with_its_replacement,
        file_readable_by_others_is_refused, file_writable_by_others_is_refused,
        additional_reader_is_permitted_and_accepted, a_detached_process_holds_nothing_open,
        a_detached_process_leaves_its_session, open_file_limit_is_raised;
    terminals:
        an_exit_code_is_reported, a_signal_is_an_exit_code, a_missing_command_is_named,
        command_gets_its_environment, typed_text_reaches_the_command, a_resize_reaches_the_command,
        cursor_position_is_answered, device_attributes_reach_the_command, paste_marks_reach_the_command,
        line_feed_is_no_enter, lone_escape_is_a_key, paste_is_text_without_virtual_terminal_input, a_closed_terminal_ends_its_reader, a_command_ends_with_what_it_started,
        background_group_is_hung_up, daemon_is_not_ended_by_force,
        orphans_of_a_launcher_end_with_the_command, batch_file_gets_its_arguments_unchanged,
        batch_file_gets_variable_names_unexpanded, batch_file_arguments_with_line_breaks_or_too_long_are_refused,
        raw_mode_ends_when_dropped, raw_mode_ends_in_a_panic, every_key_arrives,
        modifier_keys_do_not_block_a_read, split_character_does_not_garble_later_output, ctrl_c_is_reported,
        ctrl_break_is_a_key_in_raw_mode, typed_ctrl_break_is_reported, interrupt_is_reported, termination_is_reported, hang_up_of_the_terminal_is_reported;
    foreground:
        command_is_listed_with_executable_and_arguments, executed_program_replaces_the_one_before,
        child_on_the_terminal_is_listed_with_its_parent, child_on_a_pipe_does_not_read_the_terminal,
        process_that_opened_the_terminal_reads_it, foreground_group_of_a_child_is_listed_alone,
        suspended_process_is_stopped, erased_command_line_is_remembered,
        fork_has_its_parents_command_line, look_survives_ending_processes,
        observer_does_not_keep_the_terminal_open,
        hard_link_is_the_same_file_and_a_copy_has_its_content,
        symbolic_link_is_the_file_it_leads_to, removed_executable_is_known,
        member_server_is_unsupported_elsewhere, member_server_is_not_a_member, look_without_a_member_server_fails,
        member_server_restarts_are_limited;
    fronts:
        front_ends_as_its_child_does, front_passes_signals_on, front_stops_with_its_child,
        child_leaves_its_front_and_the_terminal, child_learns_of_the_end_of_its_front;
}

/// The tests that are skipped: the kind of run, the test, the reason.
const SKIPPED: &[(&str, &str, &str)] = &[
    ("unprivileged", "another_user_cannot_connect", "only root can become another user"),
    ("unprivileged", "another_user_is_recognized", "only root can become another user"),
    ("unprivileged", "another_users_server_is_refused", "only root can become another user"),
    (
        "unprivileged",
        "another_users_stale_socket_is_left_alone",
        "only root can become another user",
    ),
    ("windows", "another_users_stale_socket_is_left_alone", "a pipe's name is not a file's"),
    ("unprivileged", "another_users_endpoint_is_foreign", "only root can become another user"),
    ("wine", "another_user_cannot_connect", "Wine has one user"),
    ("wine", "another_user_is_recognized", "Wine has one user"),
    ("wine", "another_users_server_is_refused", "Wine has one user"),
    ("wine", "another_users_endpoint_is_foreign", "Wine has one user"),
    ("unprivileged", "another_users_directory_is_unwritable", "only root can become another user"),
    ("wine", "another_users_directory_is_unwritable", "Wine has one user"),
    (
        "windows",
        "file_identity_changes_with_its_replacement",
        "a database keeps its path while it is open",
    ),
    ("windows", "unusable_endpoint_is_refused", "a pipe's name is in no directory"),
    ("windows", "write_now_never_blocks", "a named pipe has no such write"),
    ("windows", "file_at_the_endpoint_is_not_replaced", "a pipe's name is not a file's"),
    ("windows", "a_removed_socket_is_noticed", "a pipe's name cannot be removed"),
    ("windows", "foreign_socket_is_not_removed", "a pipe's name cannot be replaced"),
    ("windows", "a_signal_is_an_exit_code", "there are no signals"),
    ("windows", "termination_is_reported", "there is no SIGTERM, and a test cannot log off"),
    ("windows", "hang_up_of_the_terminal_is_reported", "there is no SIGHUP"),
    ("windows", "background_group_is_hung_up", "a console has no process groups"),
    ("windows", "daemon_is_not_ended_by_force", "a job's processes end with it"),
    ("unix", "cursor_position_is_answered", "only Windows asks the terminal where its cursor is"),
    ("unix", "paste_is_text_without_virtual_terminal_input", "terminals have no events of keys"),
    (
        "unix",
        "orphans_of_a_launcher_end_with_the_command",
        "a process may leave the command's group",
    ),
    ("unix", "batch_file_gets_its_arguments_unchanged", "there are no batch files"),
    ("unix", "batch_file_gets_variable_names_unexpanded", "there are no batch files"),
    (
        "unix",
        "batch_file_arguments_with_line_breaks_or_too_long_are_refused",
        "there are no batch files",
    ),
    ("unix", "modifier_keys_do_not_block_a_read", "a terminal reports only typed characters"),
    ("unix", "ctrl_break_is_a_key_in_raw_mode", "there is no Ctrl-Break"),
    ("unix", "typed_ctrl_break_is_reported", "there is no Ctrl-Break"),
    ("unix", "listener_for_another_user_admits_its_own_user", "a service runs as its user"),
    (
        "unix",
        "process_with_fewer_rights_cannot_connect",
        "all processes of a user have the same rights",
    ),
    ("unix", "additional_reader_is_permitted_and_accepted", "a service runs as its user"),
    ("wine", "process_with_fewer_rights_cannot_connect", "Wine has no integrity levels"),
    ("wine", "additional_reader_is_permitted_and_accepted", "Wine's files have Unix modes"),
    (
        "wine",
        "a_mebibyte_in_single_bytes",
        "this takes minutes under Wine; another test shows a sixteenth",
    ),
    ("wine", "open_file_keeps_its_content_when_replaced", "Wine does not replace an open file"),
    (
        "wine 8",
        "batch_file_gets_variable_names_unexpanded",
        "Wine 8's shell expands expanded text again",
    ),
    ("wine", "ctrl_c_is_reported", "Wine's console host ends itself when Ctrl-C is typed"),
    ("wine", "ctrl_break_is_a_key_in_raw_mode", "Wine's consoles have no Ctrl-Break"),
    ("wine", "typed_ctrl_break_is_reported", "Wine's consoles have no Ctrl-Break"),
    ("wine", "a_resize_reaches_the_command", "Wine's pseudo console does not resize"),
    ("wine", "device_attributes_reach_the_command", "Wine's consoles do not answer"),
    ("wine", "paste_marks_reach_the_command", "Wine's consoles drop the marks"),
    ("wine", "lone_escape_is_a_key", "Wine's consoles wait for what follows an Escape"),
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
    ("macos", "fork_has_its_parents_command_line", "a fork has an image of its own"),
    ("windows", "symbolic_link_is_the_file_it_leads_to", "making one needs a privilege"),
    ("windows", "removed_executable_is_known", "a running program's file cannot be removed"),
    ("macos", "removed_executable_is_known", "a removed file has no path"),
    ("windows", "member_server_is_unsupported_elsewhere", "this system has a member server"),
    ("unix", "member_server_is_not_a_member", "only a console has a member server"),
    ("unix", "look_without_a_member_server_fails", "only a console has a member server"),
    ("unix", "member_server_restarts_are_limited", "only a console has a member server"),
    ("windows", "front_ends_as_its_child_does", "there is no fork"),
    ("windows", "front_passes_signals_on", "there is no fork"),
    ("windows", "front_stops_with_its_child", "there is no fork"),
    ("windows", "child_leaves_its_front_and_the_terminal", "there is no fork"),
    ("windows", "child_learns_of_the_end_of_its_front", "there is no fork"),
];

/// The lists of the tests that are skipped where CI runs: as root on Linux, as any user on macOS.
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
    let here = system::run_kinds();
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

/// Whether the skipped tests are those of this system's list. Prints the differences.
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

/// Runs one test. If the test hangs, ends the process, since the test's thread cannot be ended.
fn run(name: &'static str, test: fn()) -> bool {
    let (done, wait) = mpsc::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        test();
        // Sending fails only after the timeout.
        let _ = done.send(());
    });
    let thread = thread.unwrap();
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(TEST_TIMEOUT) {
        println!("FAILED: {name} hangs");
        std::process::exit(1);
    }
    thread.join().is_ok()
}
