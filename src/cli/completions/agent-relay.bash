# Completes agent-relay. `agent-relay` itself makes the candidates, and starts nothing.
_agent_relay() {
    # Bash splits words at the characters of COMP_WORDBREAKS, such as colons. These words are whole,
    # and `first` has the bash word that each begins with.
    local words=() first=() number word rest=${COMP_LINE:0:COMP_POINT}
    for ((number = 0; number <= COMP_CWORD; number++)); do
        word=${COMP_WORDS[number]}
        if ((number == 0)) || [[ $rest == [[:space:]]* ]]; then
            rest=${rest#"${rest%%[![:space:]]*}"}
            words+=("")
            first+=("$number")
        fi
        ((number < COMP_CWORD)) || word=$rest
        words[${#words[@]} - 1]+=$word
        rest=${rest#"$word"}
    done

    local current=${words[${#words[@]} - 1]} line how=""
    local breaks=$COMP_WORDBREAKS before=""
    # Bash replaces what follows the last of these characters.
    for word in : =; do
        [[ $breaks == *"$word"* && $current == *"$word"* ]] || continue
        rest=${current%"${current##*"$word"}"}
        ((${#rest} <= ${#before})) || before=$rest
    done
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $how ]]; then how=$line; continue; fi
        word=${line%%$'\t'*}
        [[ $word == "$before"* ]] || before=""
        word=${word#"$before"}
        case $current in
            [\"\']*) ;;
            *) printf -v word %q "$word" ;;
        esac
        COMPREPLY+=("$word")
    done < <(command agent-relay --as-agent-relay complete quoted "${words[@]:1}" 2>/dev/null)
    case $how in
        # The bash of macOS has no compopt.
        files) compopt -o default 2>/dev/null || COMPREPLY+=($(compgen -f -- "${current#--*=}")) ;;
        directories) compopt -o dirnames 2>/dev/null || COMPREPLY+=($(compgen -d -- "${current#--*=}")) ;;
        command\ *) _agent_relay_command "${first[${how#command } + 1]}" ;;
    esac
}

# Completes the words from number $1 on as a command line of their own.
_agent_relay_command() {
    if declare -F _comp_command_offset >/dev/null; then _comp_command_offset "$1"; return; fi
    if declare -F _command_offset >/dev/null; then _command_offset "$1"; return; fi
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[$1]} number
    if (($1 == COMP_CWORD)); then
        local IFS=$'\n'
        COMPREPLY=($(compgen -c -- "$current" | sort -u))
        [[ $current != */* ]] || compopt -o default 2>/dev/null
        return
    fi
    if ! complete -p "${command##*/}" &>/dev/null && declare -F _completion_loader >/dev/null; then
        _completion_loader "${command##*/}"
    fi
    local pattern='-F ([^ ]+)'
    if [[ $(complete -p "${command##*/}" 2>/dev/null) =~ $pattern ]]; then
        local function=${BASH_REMATCH[1]} before
        for ((number = 0; number < $1; number++)); do
            before=${COMP_LINE%%"${COMP_WORDS[number]}"*}${COMP_WORDS[number]}
            COMP_LINE=${COMP_LINE:${#before}}
            ((COMP_POINT -= ${#before}))
        done
        before=${COMP_LINE%%[![:space:]]*}
        COMP_LINE=${COMP_LINE:${#before}}
        ((COMP_POINT -= ${#before}, COMP_CWORD -= $1))
        COMP_WORDS=("${COMP_WORDS[@]:$1}")
        "$function" "$command" "$current" "${COMP_WORDS[COMP_CWORD - 1]}"
    else
        compopt -o default 2>/dev/null
    fi
}

complete -F _agent_relay agent-relay
