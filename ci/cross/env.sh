# Sourced by bash at the root of the checkout, before a build for another system: `. ci/cross/env.sh`.
# Then, for example, `cargo +deb test -p platform --target x86_64-pc-windows-gnu` works.

cache=$HOME/.cache/agent-relay
# An output folder of its own for this compiler and this checkout: cargo would mix up their files.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross}
# These would overrule `+deb`; a rustup or cargo around this shell may have set them.
unset RUSTC RUSTDOC CARGO RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN

# Windows: mingw links, Wine runs. shim/ has the libraries that Wine lacks.
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/wine
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER
export WINEPREFIX=${WINEPREFIX:-$cache/wine} WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY WINESERVER

# msvc: only type-checked, so its C compiler only has to exist.
export CC_x86_64_pc_windows_msvc=$cache/msvc/cl AR_x86_64_pc_windows_msvc=$cache/msvc/lib

# macOS: zig links against stubs of the libraries that it does not know. They are outside the checkout because
# the compiler remembers their path.
export SDKROOT=$cache/macos
