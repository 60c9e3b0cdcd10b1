//! Names of executables, by kind: shells, readers of commands, sessions and launchers.

use crate::words::Words;

/// Shells: they run text typed at their prompt.
pub(super) const SHELLS: Words = Words(
    "sh bash rbash zsh rzsh dash ash busybox toybox ksh ksh93 mksh lksh oksh pdksh yash posh csh \
     tcsh fish nu elvish xonsh ion rc es osh oil ysh murex pwsh powershell cmd tclsh git-shell \
     sash brush",
);

/// The shells with names that other programs may have, too.
pub(super) const SHELLS_BY_WORDS: Words = Words("busybox toybox ash posh ion rc es oil sash brush");

/// Programs that read commands: interpreters without scripts, debuggers, database clients, editors
/// and pagers.
pub(super) const COMMAND_READERS: Words = Words(
    "ipython bpython ptpython jupyter irb pry ghci ghc erl iex scala jshell kotlinc groovysh \
     clojure clj lein sbcl guile racket csi gsi ocaml utop fsi csharp r octave gnuplot maxima sage \
     gp swipl expect wish gdb lldb rust-gdb rust-lldb dlv pdb cgdb jdb kdb windbg cdb radare r2 \
     sqlite sqlite3 psql mysql mariadb mongosh mongo redis-cli valkey-cli cqlsh clickhouse \
     clickhouse-client duckdb influx sqlplus sqlcmd osql isql usql pgcli mycli litecli bc dc ed ex \
     ftp sftp lftp telnet nc ncat netcat socat rlwrap rlfe ledit vim vi nvim view emacs nano micro \
     helix hx kak less more most man mc ranger nnn lf tig lazygit w3m lynx",
);

/// Programs that pass typed text to another program: terminal multiplexers, and sessions on other
/// machines, in containers, or as other users.
pub(super) const CONDUITS: Words = Words(
    "tmux tmate screen zellij byobu dvtm dtach abduco script scriptreplay asciinema ttyrec ttyd \
     unbuffer ssh autossh mosh mosh-client et rsh rlogin plink winpty wsl docker podman nerdctl \
     ctr crictl kubectl oc lxc lxc-attach incus machinectl nsenter systemd-nspawn systemd-run \
     vagrant multipass limactl distrobox toolbox su sudo sudoedit doas run0 pkexec runuser sg \
     newgrp login minicom picocom cu tio qemu-system-x86_64 adb",
);

/// Programs that start another program and wait for it.
pub(super) const LAUNCHERS: Words = Words(
    "npx npx-cli npm npm-cli pnpm pnpx yarn yarnpkg corepack bunx uv uvx pipx poetry pdm hatch rye \
     pixi conda mamba mise asdf direnv nix nix-shell env nice ionice nohup timeout time setsid \
     stdbuf taskset chrt setpriv caffeinate",
);
