# Completes agent-relay. `agent-relay` itself makes the candidates, and starts nothing.
function __agent_relay_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    # The word without its quotes and backslashes. A quote may still be open.
    set -l current (string unescape -- "$typed" 2>/dev/null; or string replace -r -- '^["\']' '' "$typed")
    set -l answer (command agent-relay --as-agent-relay complete plain $before[2..-1] "$current" 2>/dev/null)
    # An option and its equals sign stay before a path.
    set -l option (string match -r -- '^--[^=]*=' "$current")
    set -l path (string replace -r -- '^--[^=]*=' '' "$current")
    test (count $answer) -gt 1; and printf '%s\n' $answer[2..-1]
    switch "$answer[1]"
        case files
            for found in (complete -C "'' $path")
                printf '%s%s\n' "$option" $found
            end
        case directories
            for found in (__fish_complete_directories "$path" '')
                printf '%s%s\n' "$option" $found
            end
        case 'command *'
            set -l first (math (string replace 'command ' '' -- $answer[1]) + 2)
            set -l line
            test $first -le (count $before); and set line (string escape -- $before[$first..-1])
            complete -C (string join ' ' -- $line "$typed")
    end
end
complete -c agent-relay -e
complete -c agent-relay -f -k -a '(__agent_relay_complete)'
