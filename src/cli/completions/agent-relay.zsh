#compdef agent-relay
# Completes agent-relay. `agent-relay` itself makes the candidates, and starts nothing.
_agent_relay() {
    local line how= tab=$'\t'
    local -a given found
    given=("${(@Q)words[2,CURRENT - 1]}" "${(Q)PREFIX}")
    while IFS= read -r line; do
        if [[ -z $how ]]; then how=$line; continue; fi
        # A colon ends the word, unless a backslash precedes it.
        found+=("${${${line%%$tab*}//\\/\\\\}//:/\\:}:${line#*$tab}")
    done < <(command agent-relay --as-agent-relay complete plain "${given[@]}" 2>/dev/null)
    local result=1
    ((! ${#found})) || { _describe -V -t values value found && result=0 }
    case $how in
        files) compset -P 1 '--*='; _files && result=0 ;;
        directories) compset -P 1 '--*='; _files -/ && result=0 ;;
        command\ *)
            local -i first=$((${how#command } + 1))
            shift $first words
            ((CURRENT -= first))
            _normal && result=0 ;;
    esac
    return result
}
# As a file of $fpath, this is the function itself.
if [[ $funcstack[1] == _agent[-_]relay ]]; then _agent_relay "$@"; else compdef _agent_relay agent-relay; fi
