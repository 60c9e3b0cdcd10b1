# shellcheck shell=bash
# Sourced at the root of the repository. `step NAME [COMMAND]` ends the present step and begins
# another, which COMMAND runs again (by default, the whole script). The end of the script ends the
# last step. A failing command ends the script (set -e), which then prints the name of the failed
# step in its last line.
#
# Each step's time is printed with its time in the last run without a failure. The file `times` of
# the cache has these times, a line for each step of each script: `SECONDS<tab>SCRIPT: STEP`.

. ci/cache.sh
ci_times=$ci_cache/times
ci_command="$0${*:+ $*}" ci_script=${0##*/}
# The same step takes longer with some options.
for ci_option in "$@"; do case $ci_option in --?*) ci_script+=" $ci_option" ;; esac; done
# The script that a person or CI has started writes the times, also those of the scripts that it
# starts.
ci_times_owner=
if [ -z "${CI_TIMES_OF_RUN:-}" ]; then
    mkdir -p "$ci_cache"
    export CI_TIMES_OF_RUN="$ci_times.$$"
    : >"$CI_TIMES_OF_RUN"
    ci_times_owner=1
fi

step() {
    step_passed
    step_name=$1 step_alone=${2:-$ci_command} step_began=$SECONDS
    printf '\n== %s (alone: %s)\n' "$step_name" "$step_alone"
}

step_passed() {
    [ -z "${step_name:-}" ] || printf -- '-- %s: passed in %s\n' "$step_name" "$(time_of "$step_name" "$step_began")"
    step_name=
}

# `time_of STEP SECOND`: prints the time since that second, and the step's time in the last run
# without a failure. Also records the new time.
time_of() {
    local seconds=$((SECONDS - $2)) key="$ci_script: $1" last=
    printf '%d\t%s\n' $seconds "$key" >>"$CI_TIMES_OF_RUN"
    [ ! -e "$ci_times" ] || last=$(key=$key awk -F '\t' '$2 == ENVIRON["key"] { print $1 }' "$ci_times")
    printf '%d s%s' $seconds "${last:+ (last green run: $last s)}"
}

# Writes the times of a run without a failure. Steps that did not run keep their earlier times.
keep_times() {
    touch "$ci_times"
    awk -F '\t' '{ seconds[$2] = $1 } END { for (key in seconds) print seconds[key] "\t" key }' \
        "$ci_times" "$CI_TIMES_OF_RUN" | LC_ALL=C sort -k 2 >"$CI_TIMES_OF_RUN.new"
    mv "$CI_TIMES_OF_RUN.new" "$ci_times"
}

step_ended() {
    local code=$?
    if [ $code -eq 0 ]; then
        step_passed
        [ -z "$ci_times_owner" ] || keep_times
    else
        printf -- '\n-- %s: FAILED after %d s (exit code %d)%s\n' "${step_name:-$0}" \
            $((SECONDS - ${step_began:-0})) $code "${step_alone:+; to repeat it: $step_alone}"
    fi
    [ -z "$ci_times_owner" ] || rm -f "$CI_TIMES_OF_RUN"
    return $code
}
trap step_ended EXIT

# `each_matches FILTER…`: reads the list of a test binary, as `--list` prints it, and fails unless
# each filter finds a test.
each_matches() {
    local list filter
    list=$(cat)
    for filter in "$@"; do
        grep -qF -- "$filter" <<<"$list" || { echo "no test has $filter in its name"; return 1; }
    done
}

# Without these, the exit code in the EXIT trap after a signal may be that of the last command, 0.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
