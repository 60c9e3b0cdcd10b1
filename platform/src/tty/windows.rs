//! Windows: console modes, with the escape sequences that Unix terminals speak.

use std::{
    collections::VecDeque,
    io::{self, Read as _, Write as _},
    iter,
    mem::{self, zeroed},
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    ptr::null,
    sync::Arc,
};

use windows_sys::Win32::{
    Foundation::{HANDLE, WAIT_FAILED, WAIT_OBJECT_0},
    Globalization::CP_UTF8,
    Storage::FileSystem::{FILE_TYPE_CHAR, FILE_TYPE_DISK, FILE_TYPE_PIPE, GetFileType},
    System::{
        Console::{
            CONSOLE_MODE, CONSOLE_SCREEN_BUFFER_INFO, DISABLE_NEWLINE_AUTO_RETURN,
            ENABLE_ECHO_INPUT, ENABLE_EXTENDED_FLAGS, ENABLE_LINE_INPUT, ENABLE_PROCESSED_INPUT,
            ENABLE_PROCESSED_OUTPUT, ENABLE_QUICK_EDIT_MODE, ENABLE_VIRTUAL_TERMINAL_INPUT,
            ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetConsoleOutputCP,
            GetConsoleScreenBufferInfo, GetStdHandle, INPUT_RECORD, KEY_EVENT, LEFT_CTRL_PRESSED,
            PeekConsoleInputW, RIGHT_CTRL_PRESSED, ReadConsoleInputW, STD_ERROR_HANDLE,
            STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode, SetConsoleOutputCP,
        },
        Threading::{CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects},
    },
};

use super::Size;
use crate::security::{self, checked};

/// The Alt key.
const VK_MENU: u16 = 0x12;
/// Shift, Ctrl and Alt.
const MODIFIERS: [u16; 3] = [0x10, 0x11, VK_MENU];

/// Standard input: a console's, which delivers UTF-16, or another stream's.
#[derive(Debug)]
pub(crate) struct Input {
    console: Option<HANDLE>,
    stop: Interrupter,
    /// A high surrogate, until its low surrogate arrives.
    half: Option<u16>,
    /// UTF-8 that did not fit into the caller's buffer.
    left: VecDeque<u8>,
}

// SAFETY: the handle is standard input's, which is open for the whole process and which every
// thread may use.
unsafe impl Send for Input {}

impl Input {
    pub(crate) fn new() -> io::Result<Self> {
        let input = stream(STD_INPUT_HANDLE);
        // SAFETY: null means no attributes and no name.
        let event = unsafe { CreateEventW(security::NO_ATTRIBUTES, 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has succeeded, so that the handle is open and ours.
        let event = unsafe { OwnedHandle::from_raw_handle(event) };
        Ok(Self {
            console: mode(input).ok().map(|_| input),
            stop: Interrupter(Arc::new(event)),
            half: None,
            left: VecDeque::new(),
        })
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        self.stop.clone()
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(console) = self.console else { return io::stdin().read(buffer) };
        while self.left.is_empty() && !buffer.is_empty() {
            if !self.wait_for_events(console)? {
                return Ok(0);
            }
            self.read_events(console)?;
        }
        self.left.read(buffer)
    }

    /// Waits until the console has events, so that reading them does not block; returns false if
    /// interrupted.
    fn wait_for_events(&self, console: HANDLE) -> io::Result<bool> {
        let handles = [self.stop.0.as_raw_handle(), console];
        // SAFETY: the pointer and the count are those of one array, whose handles are open.
        match unsafe { WaitForMultipleObjects(2, handles.as_ptr(), 0, INFINITE) } {
            WAIT_OBJECT_0 => Ok(false),
            WAIT_FAILED => Err(io::Error::last_os_error()),
            _ => Ok(true),
        }
    }

    /// Reads the console's events. (Reading characters instead would block until a key is pressed,
    /// even if there are other events, and could not be interrupted.)
    fn read_events(&mut self, console: HANDLE) -> io::Result<()> {
        // SAFETY: all-zero is a valid value of the type.
        let mut events: [INPUT_RECORD; 64] = unsafe { zeroed() };
        let (mut count, room) = (0, events.len() as u32);
        // SAFETY: the pointers and the length are those of one array and one number of ours.
        checked(unsafe { PeekConsoleInputW(console, events.as_mut_ptr(), room, &mut count) })?;
        if count > 0 {
            // SAFETY: as above. `count` events are there, since only this thread removes events.
            checked(unsafe { ReadConsoleInputW(console, events.as_mut_ptr(), count, &mut count) })?;
        }
        let keys = events[..count as usize].iter().filter_map(typed);
        self.take_units(keys.flat_map(|(unit, times)| iter::repeat_n(unit, times.into())));
        Ok(())
    }

    fn take_units(&mut self, units: impl Iterator<Item = u16>) {
        let mut units: Vec<u16> = self.half.take().into_iter().chain(units).collect();
        if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            self.half = units.pop();
        }
        self.left.extend(String::from_utf16_lossy(&units).bytes());
    }
}

/// Ends reads.
#[derive(Clone, Debug)]
pub(crate) struct Interrupter(Arc<OwnedHandle>);

impl Interrupter {
    pub(crate) fn interrupt(&self) {
        // SAFETY: the handle is an event's, and open.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }
}

/// Standard output: a console's, which takes characters, or another stream's. The standard library
/// stops writing to a console after invalid UTF-8. Here, a character may be split over two writes,
/// and invalid bytes are replaced.
#[derive(Debug)]
pub(crate) struct Output {
    to: io::Stdout,
    is_console: bool,
    /// The first bytes of a character that the next write completes.
    torn: Vec<u8>,
}

impl Output {
    pub(crate) fn new() -> io::Result<Self> {
        let is_console = mode(stream(STD_OUTPUT_HANDLE)).is_ok();
        Ok(Self { to: io::stdout(), is_console, torn: Vec::new() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.is_console {
            let characters = complete_characters(&mut self.torn, bytes);
            self.to.write_all(characters.as_bytes())?;
            bytes.len()
        } else {
            self.to.write(bytes)?
        };
        self.to.flush()?;
        Ok(written)
    }
}

/// The complete characters of `torn` and `bytes`, with a replacement for invalid bytes. A possible
/// beginning of a character stays in `torn`.
fn complete_characters(torn: &mut Vec<u8>, bytes: &[u8]) -> String {
    let mut all = mem::take(torn);
    all.extend_from_slice(bytes);
    let is_first = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    // A character has at most four bytes, and its first byte tells their number.
    let last = all.iter().rev().take(3).position(is_first).map(|after| all.len() - 1 - after);
    if let Some(last) = last.filter(|last| (all[*last].leading_ones() as usize) > all.len() - last)
    {
        *torn = all.split_off(last);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The modes of the console's input and output; no output mode if output is redirected.
#[derive(Debug)]
pub(crate) struct Modes {
    input: CONSOLE_MODE,
    output: Option<CONSOLE_MODE>,
    code_page: u32,
}

pub(crate) fn is_input_piped() -> bool {
    // SAFETY: no pointers; the call fails with the kind "unknown" if there is no such handle.
    let kind = unsafe { GetFileType(GetStdHandle(STD_INPUT_HANDLE)) };
    matches!(kind, FILE_TYPE_PIPE | FILE_TYPE_DISK)
}

pub(crate) fn is_output_discarded() -> bool {
    let output = stream(STD_OUTPUT_HANDLE);
    // SAFETY: no pointers; the call fails for a handle that is none.
    let kind = unsafe { GetFileType(output) };
    // Of the devices with this type, only consoles have modes.
    kind == FILE_TYPE_CHAR && mode(output).is_err()
}

pub(crate) fn wait_until_output_is_closed() -> bool {
    false
}

pub(crate) fn size() -> Option<Size> {
    [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].into_iter().find_map(|stream| {
        // SAFETY: all-zero is a valid value of the type.
        let mut screen: CONSOLE_SCREEN_BUFFER_INFO = unsafe { zeroed() };
        // SAFETY: the pointer is to a value of ours; the call fails for a stream that is not a
        // console.
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
    // An old console without escape sequences delivers plain keys.
    set_mode(input, raw | ENABLE_VIRTUAL_TERMINAL_INPUT).or_else(|_| set_mode(input, raw))?;
    if let Some(mode) = before.output {
        let plain = mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
        // An old console may lack this mode as well. Its output is then shown as far as possible.
        let _ = set_mode(output, plain | DISABLE_NEWLINE_AUTO_RETURN)
            .or_else(|_| set_mode(output, plain));
        // SAFETY: no pointers.
        unsafe { SetConsoleOutputCP(CP_UTF8) };
    }
    Ok(before)
}

pub(crate) fn set(modes: &Modes) {
    // These calls fail if the console is gone, and then there is nothing to restore.
    let _ = set_mode(stream(STD_INPUT_HANDLE), modes.input | ENABLE_EXTENDED_FLAGS);
    if let Some(mode) = modes.output {
        let _ = set_mode(stream(STD_OUTPUT_HANDLE), mode);
        // SAFETY: no pointers.
        unsafe { SetConsoleOutputCP(modes.code_page) };
    }
}

pub(crate) fn set_at_once(modes: &Modes) {
    set(modes);
}

/// The UTF-16 unit that a key event types, and its repetitions. `None` if it types nothing: a
/// released key, Shift alone, a dead key, a change of focus.
fn typed(event: &INPUT_RECORD) -> Option<(u16, u16)> {
    if u32::from(event.EventType) != KEY_EVENT {
        return None;
    }
    // SAFETY: the type is a key event's; its character is a number in both variants.
    let (key, unit) = unsafe { (event.Event.KeyEvent, event.Event.KeyEvent.uChar.UnicodeChar) };
    let (is_down, code) = (key.bKeyDown != 0, key.wVirtualKeyCode);
    let is_typed = match unit {
        // Ctrl-Space and Ctrl-@: the console reports them as a key that the keyboard does not
        // have.
        0 => {
            let is_ctrl = key.dwControlKeyState & (LEFT_CTRL_PRESSED | RIGHT_CTRL_PRESSED) != 0;
            is_down && is_ctrl && key.wVirtualScanCode == 0 && !MODIFIERS.contains(&code)
        }
        // A character composed with Alt arrives when Alt is released.
        _ => is_down || code == VK_MENU,
    };
    is_typed.then(|| (unit, key.wRepeatCount.max(1)))
}

fn stream(which: u32) -> HANDLE {
    // SAFETY: no pointers.
    unsafe { GetStdHandle(which) }
}

fn mode(console: HANDLE) -> io::Result<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: the pointer is to a number of ours; the call fails for a stream that is not a
    // console.
    checked(unsafe { GetConsoleMode(console, &mut mode) })?;
    Ok(mode)
}

fn set_mode(console: HANDLE, mode: CONSOLE_MODE) -> io::Result<()> {
    // SAFETY: no pointers; the call fails for a stream that is not a console.
    checked(unsafe { SetConsoleMode(console, mode) })
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Console::{FOCUS_EVENT, RIGHT_ALT_PRESSED, SHIFT_PRESSED};

    use super::*;

    /// A key event: whether it is down, key code, scan code, UTF-16 unit, modifiers.
    fn key(is_down: bool, code: u16, scan: u16, unit: u16, held: u32) -> INPUT_RECORD {
        // SAFETY: all-zero is a valid value of the type.
        let mut event: INPUT_RECORD = unsafe { zeroed() };
        event.EventType = KEY_EVENT as u16;
        // SAFETY: any bytes are a valid value of the type.
        let key = unsafe { &mut event.Event.KeyEvent };
        (key.bKeyDown, key.wRepeatCount) = (is_down.into(), 1);
        (key.wVirtualKeyCode, key.wVirtualScanCode) = (code, scan);
        (key.uChar.UnicodeChar, key.dwControlKeyState) = (unit, held);
        event
    }

    #[test]
    fn events_that_type_nothing_yield_no_input() {
        const ALT_GR: u32 = LEFT_CTRL_PRESSED | RIGHT_ALT_PRESSED;
        for nothing in [
            key(true, 0x10, 0x2a, 0, SHIFT_PRESSED),
            key(true, 0x11, 0x1d, 0, LEFT_CTRL_PRESSED),
            key(true, VK_MENU, 0x38, 0, 0),
            // Ctrl without a scan code, as a program sends it.
            key(true, 0x11, 0, 0, LEFT_CTRL_PRESSED),
            key(false, VK_MENU, 0x38, 0, 0),
            key(false, 0x41, 0x1e, 0x61, 0),
            // A dead key, typed with AltGr.
            key(true, 0xdb, 0x1a, 0, ALT_GR),
            key(true, 0xaf, 0x30, 0, LEFT_CTRL_PRESSED),
        ] {
            // SAFETY: it is a key's.
            let code = unsafe { nothing.Event.KeyEvent.wVirtualKeyCode };
            assert_eq!(typed(&nothing), None, "{code:#x}");
        }
        let mut focus = key(true, 0x41, 0x1e, 0x61, 0);
        focus.EventType = FOCUS_EVENT as u16;
        assert_eq!(typed(&focus), None);
    }

    #[test]
    fn typed_keys_yield_input() {
        for (typing, unit) in [
            (key(true, 0x41, 0x1e, 0x61, 0), 0x61),
            (key(true, 0, 0, 0x1b, 0), 0x1b),
            (key(true, 0x32, 0, 0, LEFT_CTRL_PRESSED | SHIFT_PRESSED), 0),
            (key(false, VK_MENU, 0x38, 0xe9, 0), 0xe9),
        ] {
            assert_eq!(typed(&typing), Some((unit, 1)));
        }
        let mut held = key(true, 0x41, 0x1e, 0x61, 0);
        held.Event.KeyEvent.wRepeatCount = 3;
        assert_eq!(typed(&held), Some((0x61, 3)));
    }

    #[test]
    fn split_character_is_completed_or_replaced() {
        let text = "aö€😀z".as_bytes();
        for at in 0..=text.len() {
            let mut torn = Vec::new();
            let first = complete_characters(&mut torn, &text[..at]);
            assert_eq!(first + &complete_characters(&mut torn, &text[at..]), "aö€😀z", "{at}");
            assert!(torn.is_empty());
        }
        let mut torn = Vec::new();
        let single: String =
            text.iter().map(|byte| complete_characters(&mut torn, &[*byte])).collect();
        assert_eq!(single, "aö€😀z");
        assert_eq!(complete_characters(&mut torn, b"a\xe2\x82"), "a");
        assert_eq!(complete_characters(&mut torn, b"\x1b[2J"), "\u{fffd}\x1b[2J");
        assert_eq!(
            complete_characters(&mut torn, b"\xff\x80\x80\x80b\xf0"),
            "\u{fffd}".repeat(4) + "b"
        );
        assert_eq!(torn, [0xf0]);
    }
}
