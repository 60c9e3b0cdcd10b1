# Sourced, after steps.sh: the tests of the workspace on another system than ci/run's, but for those that its
# list passes over. Whoever sources it sets `system`, `under` (` under Wine`, or nothing), `cargo` (how cargo is
# called) and `output` (a file for what the tests print).

# `passed_over BINARY`: what is passed over of it, a test's name or the module of several.
passed_over() {
    local word
    for word in "not shown" ${under:+"not shown$under"}; do
        sed -n "s/^$word: $1 \\([^ ]*\\): .*/--skip \\1/p" "ci/$system.not-shown"
    done
}

# `tests NAME ARGUMENT…` gives the arguments to `cargo test`. If no test runs, that is an error.
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
    tests "tests with processes" --test it "$@" -- $(passed_over it)
}
