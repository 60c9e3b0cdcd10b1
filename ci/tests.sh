# shellcheck shell=bash disable=SC2154
# Sourced, after steps.sh: runs the tests of the workspace on another system than ci/run's, except those of
# ci/SYSTEM.skipped-tests. Before, set `system`, `under` (` under Wine`, or empty), `cargo` (the command for
# cargo) and `output` (a file for what the tests print).

# `skip BINARY`: arguments that make it skip the tests of the list, by test or by module (`power::*`).
skip() {
    local word
    for word in "skipped" ${under:+"skipped$under"}; do
        sed -n "s/^$word: $1 \\([^ *]*\\)\\**: .*/--skip \\1/p" "ci/$system.skipped-tests"
    done
}

# `tests NAME ARGUMENT…` passes the arguments to `cargo test`, and fails if no test runs.
tests() {
    step "$system: $1"
    "${cargo[@]}" test --workspace "${@:2}" 2>&1 | tee "$output.last"
    if ! grep -qE '^(test result: ok\.|contract:) [1-9][0-9]* passed' "$output.last"; then
        echo "no test ran: correct ci/$system"
        exit 1
    fi
    cat "$output.last" >>"$output"
}

all_tests() {
    mkdir -p "${output%/*}"
    : >"$output"
    step "$system: build"
    "${cargo[@]}" build --workspace --all-targets "$@"
    tests "unit tests" --lib "$@"
    tests "contract" --test contract "$@"
    # Word splitting is meant: each line is two arguments.
    # shellcheck disable=SC2046
    tests "tests with processes" --test it "$@" -- $(skip it)
}
