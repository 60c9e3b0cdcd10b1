# shellcheck shell=bash disable=SC2154
# Sourced after steps.sh. Runs the tests of the workspace on another system than that of ci/run,
# except those in ci/SYSTEM.skipped-tests. The caller sets `system`, `under` (` under Wine`, or
# empty), `cargo` (the command that runs cargo) and `output` (a file for the tests' output).

# `skip BINARY`: prints arguments with which a test binary skips the tests of the list, each given
# by its name or its module (`power::*`).
skip() {
    local word
    for word in "skipped" ${under:+"skipped$under" "skipped$under 8"}; do
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
    # The output of `skip` is split into words on purpose: each line is two arguments.
    # shellcheck disable=SC2046
    tests "unit tests" --lib "$@" -- $(skip lib)
    tests "contract" --test contract "$@"
    # shellcheck disable=SC2046
    tests "tests with processes" --test it "$@" -- $(skip it)
}
