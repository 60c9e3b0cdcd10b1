# shellcheck shell=bash disable=SC2154
# Sourced after steps.sh. Runs the tests of the workspace on another system than that of ci/run,
# except those in ci/SYSTEM.skipped-tests. The caller sets `system`, `under` (` under Wine`, or
# empty), `cargo` (the command that runs cargo), `output` (a file for a test's output), `processes`
# (filters for the test binary `it`; if empty, all its tests run) and `long` (options that skip the
# longest unit tests).

# These systems start processes more slowly than Linux, so only two tests run at a time on each
# processor.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc)))}

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
    mkdir -p "${output%/*}"
    "${cargo[@]}" test --workspace "${@:2}" 2>&1 | tee "$output"
    if ! grep -qE '^(test result: ok\.|contract:) [1-9][0-9]* passed' "$output"; then
        echo "no test ran: correct ci/$system"
        exit 1
    fi
}

# `build ARGUMENT…` passes the arguments to cargo.
build() {
    step "$system: build"
    "${cargo[@]}" build --workspace --all-targets "$@"
}

# Each of these passes its arguments to cargo.
all_tests() {
    unit_tests "$@"
    contract_tests "$@"
    process_tests "$@"
}

unit_tests() {
    # The output of `skip` is split into words on purpose: each line is two arguments.
    # shellcheck disable=SC2046
    tests "unit tests" --lib "$@" -- ${long[@]+"${long[@]}"} $(skip lib)
}

contract_tests() {
    tests "contract" --test contract "$@"
}

process_tests() {
    [ ${#processes[@]} -eq 0 ] || "${cargo[@]}" test --test it "$@" -- --list | each_matches "${processes[@]}"
    # shellcheck disable=SC2046
    tests "tests with processes" --test it "$@" -- ${processes[@]+"${processes[@]}"} $(skip it)
}
