# shellcheck shell=bash
# Sourced after steps.sh. Runs commands beside the steps of a script.

# `beside NAME COMMAND…`: runs a command beside the following steps. It gets only the processor time
# that they leave: some kernels weigh whole sessions against each other, and some only processes.
# The script must end with `end_beside` in its EXIT trap.
declare -A beside_pids=()
beside() {
    # shellcheck disable=SC2016
    setsid bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' beside "${@:2}" \
        >"target/ci-$1" 2>&1 &
    beside_pids[$1]=$!
}

# `step_beside NAME`: a step that waits for such a command, prints its output, and fails if the
# command failed.
step_beside() {
    step "$1"
    local code=0
    wait "${beside_pids[$1]}" || code=$?
    unset "beside_pids[$1]"
    cat "target/ci-$1"
    return $code
}

# Ends the commands that nobody has waited for.
end_beside() {
    local pid
    for pid in "${beside_pids[@]}"; do
        kill -- "-$pid" 2>/dev/null || true
    done
}
