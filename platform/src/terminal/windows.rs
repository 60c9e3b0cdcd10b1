//! Windows: console modes, with the escape sequences that Unix terminals speak.

use std::{io, mem::zeroed};

use windows_sys::Win32::{
    Foundation::HANDLE,
    Globalization::CP_UTF8,
    System::Console::{
        CONSOLE_MODE, CONSOLE_SCREEN_BUFFER_INFO, DISABLE_NEWLINE_AUTO_RETURN, ENABLE_ECHO_INPUT,
        ENABLE_EXTENDED_FLAGS, ENABLE_LINE_INPUT, ENABLE_PROCESSED_INPUT, ENABLE_PROCESSED_OUTPUT,
        ENABLE_QUICK_EDIT_MODE, ENABLE_VIRTUAL_TERMINAL_INPUT, ENABLE_VIRTUAL_TERMINAL_PROCESSING,
        GetConsoleMode, GetConsoleOutputCP, GetConsoleScreenBufferInfo, GetStdHandle,
        STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode, SetConsoleOutputCP,
    },
};

use super::Size;
use crate::security::checked;

/// What the console does with keys and output; no output mode if that goes elsewhere.
#[derive(Debug)]
pub(crate) struct Modes {
    input: CONSOLE_MODE,
    output: Option<CONSOLE_MODE>,
    code_page: u32,
}

pub(crate) fn size() -> Option<Size> {
    [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].into_iter().find_map(|stream| {
        // SAFETY: all-zero is a valid value of it.
        let mut screen: CONSOLE_SCREEN_BUFFER_INFO = unsafe { zeroed() };
        // SAFETY: the pointer is to a value of ours; what is no console answers with an error.
        let result = unsafe { GetConsoleScreenBufferInfo(GetStdHandle(stream), &mut screen) };
        let window = screen.srWindow;
        let length = |first: i16, last: i16| u16::try_from(last - first + 1).unwrap_or(0);
        (result != 0).then(|| Size {
            rows: length(window.Top, window.Bottom),
            cols: length(window.Left, window.Right),
        })
    })
}

pub(crate) fn make_raw() -> io::Result<Modes> {
    let (input, output) = (stream(STD_INPUT_HANDLE), stream(STD_OUTPUT_HANDLE));
    let before = Modes {
        input: mode(input)?,
        output: mode(output).ok(),
        // SAFETY: no arguments.
        code_page: unsafe { GetConsoleOutputCP() },
    };
    let cooked = ENABLE_PROCESSED_INPUT | ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT;
    let raw = before.input & !(cooked | ENABLE_QUICK_EDIT_MODE) | ENABLE_EXTENDED_FLAGS;
    // A console too old for escape sequences gives plain keys.
    set_mode(input, raw | ENABLE_VIRTUAL_TERMINAL_INPUT).or_else(|_| set_mode(input, raw))?;
    if let Some(mode) = before.output {
        let plain = mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
        // It may be too old for this too; then it shows what it gets as it can.
        let _ = set_mode(output, plain | DISABLE_NEWLINE_AUTO_RETURN)
            .or_else(|_| set_mode(output, plain));
        // SAFETY: no pointers.
        unsafe { SetConsoleOutputCP(CP_UTF8) };
    }
    Ok(before)
}

pub(crate) fn set(modes: &Modes) {
    // These fail if the console is gone, and then there is nothing to restore.
    let _ = set_mode(stream(STD_INPUT_HANDLE), modes.input | ENABLE_EXTENDED_FLAGS);
    if let Some(mode) = modes.output {
        let _ = set_mode(stream(STD_OUTPUT_HANDLE), mode);
        // SAFETY: no pointers.
        unsafe { SetConsoleOutputCP(modes.code_page) };
    }
}

fn stream(which: u32) -> HANDLE {
    // SAFETY: no pointers.
    unsafe { GetStdHandle(which) }
}

fn mode(console: HANDLE) -> io::Result<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: the pointer is to a number of ours; what is no console answers with an error.
    checked(unsafe { GetConsoleMode(console, &mut mode) })?;
    Ok(mode)
}

fn set_mode(console: HANDLE, mode: CONSOLE_MODE) -> io::Result<()> {
    // SAFETY: no pointers; what is no console answers with an error.
    checked(unsafe { SetConsoleMode(console, mode) })
}
