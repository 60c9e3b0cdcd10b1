# Sourced by bash at the root of the checkout by whatever builds for another system: `. ci/cross/env.sh`.
# Afterwards `cargo +deb test -p platform --target x86_64-pc-windows-gnu` works as it stands.

cache=$HOME/.cache/agent-relay
# Two compilers never share an output folder. Nor do two checkouts: cargo would take one's for the other's.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross}
# Set by a rustup or cargo that this shell may run in; they would overrule `+deb`.
unset RUSTC RUSTDOC CARGO RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN

# Windows: mingw links, Wine runs. What the programs find in Wine's own folder, see shim/.
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/wine
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER
export WINEPREFIX=${WINEPREFIX:-$cache/wine} WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY WINESERVER

# msvc: only type-checked, so its C compiler only has to exist.
export CC_x86_64_pc_windows_msvc=$cache/msvc/cl AR_x86_64_pc_windows_msvc=$cache/msvc/lib

# macOS: zig links against stubs of the few libraries that it has no list of. These lie outside the
# checkout because the compiler remembers where.
export SDKROOT=$cache/macos
