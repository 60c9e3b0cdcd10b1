//! The terminal of `top`: the alternate screen, raw mode and the mouse, which are undone at the
//! end, also by a panic.

use super::{model::Model, view};
use ratatui::{
    Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{
            DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
        },
        execute, queue,
        terminal::{
            BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
            LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
        },
    },
    layout::Rect,
};
use std::{
    io::{self, Write},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether the terminal is in use. The process has one terminal.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Standard output, which gets nothing more once the terminal is restored: the library would write
/// to it when it is dropped, and panic if both that and its report of the error fail.
struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if Screen::is_entered() { io::stdout().write(bytes) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if Screen::is_entered() { io::stdout().flush() } else { Ok(()) }
    }
}

/// The terminal while `top` draws on it. Dropping this restores it.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Output>>,
    /// The area that is drawn on.
    area: Rect,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                report(info);
            }));
        });
        IS_ENTERED.store(true, Ordering::SeqCst);
        let entered = Self::set_up();
        if entered.is_err() {
            restore();
        }
        entered
    }

    fn set_up() -> io::Result<Self> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        // An old console of Windows has no such mode, and pastes as if it were typed.
        drop(execute!(io::stdout(), EnableBracketedPaste));
        // `Terminal::clear` would ask the terminal for its cursor, and wait for the answer.
        execute!(io::stdout(), Clear(ClearType::All))?;
        // The library would allocate a buffer of whatever size the terminal claims to have.
        let area = Rect::ZERO;
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let terminal = Terminal::with_options(CrosstermBackend::new(Output), options)?;
        Ok(Self { terminal, area })
    }

    /// Whether the terminal is still in use: a panic in any thread restores it.
    pub(super) fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Draws the model, all at once in a terminal that can do so.
    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let (columns, rows) = model.size();
        let area = Rect::new(0, 0, columns, rows);
        if self.area != area {
            queue!(io::stdout(), Clear(ClearType::All))?;
            self.terminal.resize(area)?;
            self.area = area;
        }
        self.terminal.draw(|frame| view::draw(model, frame))?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, once. If the terminal is gone, there is nothing to restore.
fn restore() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        drop(execute!(io::stdout(), DisableBracketedPaste));
        drop(execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show));
        drop(disable_raw_mode());
    }
}
