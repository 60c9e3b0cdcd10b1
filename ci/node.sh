# shellcheck shell=bash
# Sourced after packages.sh. `node_and_npm` puts Node 20 or later and npm into PATH. If the machine
# has only an older Node, as Debian 12 does, they are installed into ~/.cache/agent-relay/node from
# npm's registry.

node=20.20.2 npm=10.9.4
npm_sum=OnUG836FwboQIbqtefDNlyR0gTHzIfwRfE3DuiNewBvnMnWEpB0VEXwBlFVgqpNzIgYo/MHh3d2Hel/pszapAA==
case $(uname -m) in
    x86_64) machine=x64 node_sum=PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ== ;;
    aarch64) machine=arm64 node_sum=LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg== ;;
esac

has_node() {
    [ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20' 2>/dev/null)" = true ] \
        && npm --version >/dev/null 2>&1
}

# `unpack NAME VERSION SUM FOLDER`: fetches and unpacks a package whose SHA-512 is known.
unpack() {
    local archive registry=${npm_config_registry:-https://registry.npmjs.org}
    archive=$(mktemp)
    curl -fsSL --retry 3 -o "$archive" "${registry%/}/$1/-/$1-$2.tgz"
    if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$3" ]; then
        echo "$1 $2 is not the package that it should be"
        return 1
    fi
    mkdir -p "$4"
    tar -xzf "$archive" -C "$4" --strip-components=1
    rm "$archive"
}

node_and_npm() {
    ! has_node || return 0
    local own=$HOME/.cache/agent-relay/node
    export PATH=$own/bin:$PATH
    mkdir -p "${own%/*}"
    exec 6>"$own.lock"
    flock 6
    if ! has_node; then
        packages ca-certificates curl openssl
        rm -rf "$own"
        unpack "node-linux-${machine:?no Node is known for this machine}" $node "$node_sum" "$own"
        unpack npm $npm "$npm_sum" "$own/npm"
        printf '#!/bin/sh\nexec node "%s" "$@"\n' "$own/npm/bin/npm-cli.js" >"$own/bin/npm"
        chmod +x "$own/bin/npm"
    fi
    exec 6>&-
}
