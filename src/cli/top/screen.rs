//! The terminal of `top`: the alternate screen, raw mode and the mouse, which are undone at the
//! end, also by a panic.

use super::{model::Model, view};
use crate::wrap::is_terminal_plain;
use ratatui::{
    Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{
            DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
        },
        execute, queue,
        style::Print,
        terminal::{
            BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
            LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode,
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
use terminal::overlay::{RESTORE_TITLE, SAVE_TITLE};

/// Whether the terminal is in use. The process has one terminal.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Whether the terminal has saved its title.
static HAS_TITLE: AtomicBool = AtomicBool::new(false);

/// The terminal's title, and the one while an agent waits for its person.
const TITLE: &str = "agent-relay top";
const TITLE_WAITS: &str = "! agent-relay top";

/// Standard output, which gets nothing more once the terminal is restored: the library writes to it
/// when it is dropped, and panics if that and its report of the error fail.
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
    /// The terminal's title; `None` for the terminal's own title.
    title: Option<&'static str>,
}

impl Screen {
    /// Takes the terminal, and its title if `has_title` is set.
    pub(super) fn enter(has_title: bool) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                report(info);
            }));
        });
        IS_ENTERED.store(true, Ordering::SeqCst);
        HAS_TITLE.store(has_title && !is_terminal_plain(), Ordering::SeqCst);
        let entered = Self::set_up();
        if entered.is_err() {
            restore();
        }
        entered
    }

    fn set_up() -> io::Result<Self> {
        enable_raw_mode()?;
        let mut title = None;
        if HAS_TITLE.load(Ordering::SeqCst) {
            title = Some(TITLE);
            execute!(io::stdout(), Print(SAVE_TITLE), SetTitle(TITLE))?;
        }
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        // An old console of Windows has no such mode, and pastes as if it were typed.
        drop(execute!(io::stdout(), EnableBracketedPaste));
        // `Terminal::clear` would ask the terminal for its cursor, and wait for the answer.
        execute!(io::stdout(), Clear(ClearType::All))?;
        // The library would allocate a buffer of whatever size the terminal claims to have.
        let area = Rect::ZERO;
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let terminal = Terminal::with_options(CrosstermBackend::new(Output), options)?;
        Ok(Self { terminal, area, title })
    }

    /// Whether the terminal is still in use: a panic in any thread restores it.
    pub(super) fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Draws the model, all at once in a terminal that can do so.
    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let title = if model.waits_for_person() { TITLE_WAITS } else { TITLE };
        if self.title.is_some_and(|shown| shown != title) {
            queue!(io::stdout(), SetTitle(title))?;
            self.title = Some(title);
        }
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
        if HAS_TITLE.swap(false, Ordering::SeqCst) {
            drop(execute!(io::stdout(), Print(RESTORE_TITLE)));
        }
        drop(disable_raw_mode());
    }
}
