# Sourced by bash at the root of the checkout, before a build for another system: `. ci/cross/env.sh`.
# Then, for example, `cargo +deb test -p platform --target x86_64-pc-windows-gnu` works.

cache=$HOME/.cache/agent-relay
# An output folder for this compiler and this checkout only: cargo would mix up the files of
# several compilers or checkouts.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross}
# These variables would overrule `+deb`. rustup and cargo set some of them for their children.
unset RUSTC RUSTDOC CARGO RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN

# Windows: mingw links the programs, and Wine runs them. shim/ has libraries that Wine lacks.
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/wine
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER
export WINEPREFIX=${WINEPREFIX:-$cache/wine} WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
unset DISPLAY WINESERVER

# msvc: the code is only type-checked, so the C compiler only has to exist.
export CC_x86_64_pc_windows_msvc=$cache/msvc/cl AR_x86_64_pc_windows_msvc=$cache/msvc/lib

# macOS: zig links against stubs of the libraries that it does not know. The stubs are outside the
# checkout because the compiler remembers their path.
export SDKROOT=$cache/macos
