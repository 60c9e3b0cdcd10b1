# Sourced. `step NAME` ends the step before it and begins the next; the end of the script ends the last.
# Whatever fails ends the script (set -e), and the last line then says in which step.
step() {
    step_passed
    step_name=$1 step_began=$SECONDS
    printf '\n== %s\n' "$step_name"
}

step_passed() {
    [ -z "${step_name:-}" ] || printf -- '-- %s: passed in %d s\n' "$step_name" $((SECONDS - step_began))
    step_name=
}

step_ended() {
    local code=$?
    if [ $code -eq 0 ]; then
        step_passed
    else
        printf -- '\n-- %s: FAILED after %d s (exit code %d)\n' \
            "${step_name:-$0}" $((SECONDS - ${step_began:-0})) $code
    fi
    return $code
}
trap step_ended EXIT
