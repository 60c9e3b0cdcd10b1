//! The agent's activity, derived from reports of its CLI's hooks and from its screen. A hook's
//! report outranks the screen, except that a dialog ends when it leaves the screen.

use protocol::{
    Moment,
    activity::{Activity, ActivitySource},
    hook::Point,
};

/// The delay from a change of the screen to a look at it, and between two looks.
const LOOK_MS: u64 = 250;

/// The minimum time between two reports to the daemon.
const TELL_MS: u64 = 500;

/// How long the screen must show an idle agent before the agent counts as idle.
const IDLE_MS: u64 = 350;

/// How long the screen must contradict the hooks, or show a dialog that no hook has reported,
/// before the screen counts.
const LASTING_MS: u64 = 1000;

/// How long after a hook's report the dialog must be on the screen.
const DRAWN_MS: u64 = 2000;

/// Evidence of the agent's activity, from the screen or from the terminal's foreground process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnScreen {
    /// A shell reads the terminal.
    Shell,
    /// The program asks its person something.
    Dialog,
    /// The agent works.
    Busy,
    /// The program shows its input line, and no sign of work.
    InputLine,
    Nothing,
}

/// One look at the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) shown: OnScreen,
    /// Whether the screen stands still.
    pub(super) is_at_rest: bool,
    /// Whether the program's recipe recognises its input line.
    pub(super) is_recognised: bool,
    /// The source that says that the agent is working, if there is one other than the screen's
    /// text.
    pub(super) at_work: Option<ActivitySource>,
}

/// An activity of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The activity.
    pub activity: Activity,
    /// Where the activity is known from.
    pub source: ActivitySource,
    /// When the activity began.
    pub since: Moment,
}

/// A dialog that a hook has reported.
#[derive(Clone, Copy, Debug)]
struct Asked {
    activity: Activity,
    since: Moment,
    /// Whether the dialog was on the screen.
    is_seen: bool,
}

/// The state machine of an agent's activity.
#[derive(Debug, Default)]
pub(super) struct ActivityWatch {
    /// The current activity; `None` while it is not known.
    doing: Option<Doing>,
    /// The activity last reported to the daemon, and when.
    told: Option<(Doing, Moment)>,
    asked: Option<Asked>,
    is_heard: bool,
    /// The evidence that the last look found, and since when.
    shown: Option<(OnScreen, Moment)>,
    look_at: Option<Moment>,
    /// When the screen first showed work that no hook had reported.
    unheard_since: Option<Moment>,
}

impl ActivityWatch {
    /// Notes that the screen, or the program that reads the terminal, has changed.
    pub(super) fn changed(&mut self, now: Moment) {
        self.look_at.get_or_insert_with(|| now.plus(LOOK_MS));
    }

    /// Notes that a new connection's daemon knows nothing of the agent's activity.
    pub(super) fn forget_told(&mut self) {
        self.told = None;
    }

    /// Returns the time of the next look or report to the daemon.
    pub(super) fn deadline(&self) -> Option<Moment> {
        [self.look_at, self.tell_at()].into_iter().flatten().min()
    }

    /// Whether the agent must be looked at now.
    pub(super) fn wants_look(&self, now: Moment) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// Returns when the agent began to work without any hook's report, if no hook has ever
    /// reported.
    pub(super) fn unheard_since(&self) -> Option<Moment> {
        self.unheard_since.filter(|_| !self.is_heard)
    }

    /// Notes a hook's report.
    pub(super) fn report(&mut self, now: Moment, point: Point) {
        self.is_heard = true;
        // The screen as it was before the report does not contradict it.
        self.shown = self.shown.map(|(shown, _)| (shown, now));
        self.changed(now);
        match point {
            Point::PromptSubmitted | Point::ToolStarts => self.work(now),
            // Another tool may have ended while the dialog is still open.
            Point::ToolEnded if self.is_dialog_open() => {}
            Point::ToolEnded => self.work(now),
            // A CLI may also report a question as a request to use a tool.
            Point::PermissionAsked if self.is_asking_person() => {}
            Point::PermissionAsked => self.ask(now, Activity::WaitsForPermission),
            Point::PersonAsked => self.ask(now, Activity::AsksPerson),
            Point::TurnEnded => {
                self.asked = None;
                self.set(now, Activity::Idle, ActivitySource::Hooks);
            }
            Point::SessionBegan | Point::SessionCompacts | Point::SessionEnded | Point::Waits => {}
        }
    }

    /// Notes that the agent's program has ended.
    pub(super) fn end(&mut self, now: Moment) {
        self.look_at = None;
        if self.doing.is_some() {
            self.set(now, Activity::Ended, ActivitySource::Screen);
        }
    }

    /// Judges a look at the agent.
    pub(super) fn look(&mut self, now: Moment, look: Look) {
        self.look_at = None;
        let since = self.shown.filter(|(shown, _)| *shown == look.shown);
        let since = since.map_or(now, |(_, since)| since);
        self.shown = Some((look.shown, since));
        let lasted = now.since(since);
        match self.judge(now, look, lasted) {
            Some((activity, source)) => self.set(now, activity, source),
            None if self.doing.is_none() && look.is_recognised => {
                self.set(now, Activity::Starting, ActivitySource::Screen);
            }
            None => {}
        }
        let awaits_dialog = self.asked.is_some() && look.shown != OnScreen::Dialog;
        let may_count_later =
            matches!(look.shown, OnScreen::Dialog | OnScreen::Busy) && self.is_heard;
        let may_be_idle = look.shown == OnScreen::InputLine;
        if !look.is_at_rest
            || awaits_dialog
            || ((may_count_later || may_be_idle) && lasted < LASTING_MS)
        {
            self.changed(now);
        }
    }

    /// Returns the activity that a look shows, or `None` if the last activity goes on. The screen
    /// has shown the same evidence for `ms` milliseconds.
    fn judge(&mut self, now: Moment, look: Look, ms: u64) -> Option<(Activity, ActivitySource)> {
        use ActivitySource::{Hooks, Screen};
        if look.shown == OnScreen::Shell {
            return Some((Activity::Shell, Screen));
        }
        if let Some(asked) = &mut self.asked {
            asked.is_seen |= look.shown == OnScreen::Dialog;
            let is_due = asked.is_seen || now.since(asked.since) >= DRAWN_MS;
            let is_gone =
                look.shown != OnScreen::Dialog && (look.is_at_rest || look.shown == OnScreen::Busy);
            if !(is_due && is_gone) {
                return Some((asked.activity, Hooks));
            }
            self.asked = None;
        }
        match look.shown {
            OnScreen::Dialog if self.is_heard && ms < LASTING_MS => None,
            OnScreen::Dialog => Some((Activity::AsksPerson, Screen)),
            _ if look.at_work.is_some() => look.at_work.map(|source| (Activity::Working, source)),
            OnScreen::Busy if self.is_heard && ms < LASTING_MS => None,
            OnScreen::Busy => Some((Activity::Working, Screen)),
            OnScreen::InputLine if look.is_at_rest && ms >= IDLE_MS => {
                Some((Activity::Idle, Screen))
            }
            OnScreen::InputLine | OnScreen::Shell | OnScreen::Nothing => None,
        }
    }

    /// Returns the activity to report to the daemon now.
    pub(super) fn tell(&mut self, now: Moment) -> Option<Doing> {
        if self.tell_at().is_none_or(|at| now < at) {
            return None;
        }
        let doing = self.doing?;
        self.told = Some((doing, now));
        Some(doing)
    }

    fn tell_at(&self) -> Option<Moment> {
        let doing = self.doing?;
        match self.told {
            None => Some(doing.since),
            Some((told, _)) if Doing { since: doing.since, ..told } == doing => None,
            Some(_) if doing.activity == Activity::Ended => Some(doing.since),
            Some((_, at)) => Some(at.plus(TELL_MS)),
        }
    }

    fn work(&mut self, now: Moment) {
        self.asked = None;
        self.set(now, Activity::Working, ActivitySource::Hooks);
    }

    fn ask(&mut self, now: Moment, activity: Activity) {
        self.asked = Some(Asked { activity, since: now, is_seen: false });
        self.set(now, activity, ActivitySource::Hooks);
    }

    fn is_dialog_open(&self) -> bool {
        let is_shown = self.shown.is_some_and(|(shown, _)| shown == OnScreen::Dialog);
        is_shown && self.asked.is_some_and(|asked| asked.is_seen)
    }

    fn is_asking_person(&self) -> bool {
        self.asked.is_some_and(|asked| asked.activity == Activity::AsksPerson)
    }

    fn set(&mut self, now: Moment, activity: Activity, source: ActivitySource) {
        if activity == Activity::Working && !self.is_heard {
            self.unheard_since.get_or_insert(now);
        }
        match &mut self.doing {
            // A hook may confirm later what the screen has shown.
            Some(doing) if doing.activity == activity => {
                if source == ActivitySource::Hooks {
                    doing.source = source;
                }
            }
            _ => self.doing = Some(Doing { activity, source, since: now }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look =
        Look { shown: OnScreen::Nothing, is_at_rest: true, is_recognised: true, at_work: None };

    /// Looks as often as the machine asks to during `times`, always with the same evidence. Returns
    /// the reports to the daemon.
    fn told(watch: &mut ActivityWatch, times: std::ops::Range<u64>, look: Look) -> Vec<String> {
        watch.changed(Moment(times.start));
        let mut told = Vec::new();
        while let Some(at) = watch.deadline().filter(|at| at.0 < times.end) {
            let at = at.max(Moment(times.start));
            if watch.wants_look(at) {
                watch.look(at, look);
            }
            if let Some(doing) = watch.tell(at) {
                told.push(format!("{} {} {}", at.0, doing.activity, doing.source));
            }
        }
        told
    }

    fn shows(shown: OnScreen) -> Look {
        Look { shown, ..LOOK }
    }

    #[test]
    fn agent_without_hooks_is_judged_by_its_screen() {
        let mut watch = ActivityWatch::default();
        assert_eq!(told(&mut watch, 0..1000, LOOK), ["250 starting screen"]);
        assert_eq!(told(&mut watch, 1000..3000, shows(OnScreen::InputLine)), ["1750 idle screen"]);
        assert_eq!(told(&mut watch, 3000..5000, shows(OnScreen::Busy)), ["3250 working screen"]);
        let dialog = shows(OnScreen::Dialog);
        assert_eq!(told(&mut watch, 5000..7000, dialog), ["5250 asks-person screen"]);
        assert_eq!(told(&mut watch, 7000..8000, shows(OnScreen::Busy)), ["7250 working screen"]);
        assert_eq!(told(&mut watch, 8000..9000, shows(OnScreen::Shell)), ["8250 shell screen"]);
        assert_eq!(watch.unheard_since(), Some(Moment(3250)));
    }

    #[test]
    fn activity_of_a_program_without_a_recipe_is_unknown() {
        let mut watch = ActivityWatch::default();
        let unknown = Look { is_recognised: false, ..LOOK };
        assert_eq!(told(&mut watch, 0..9000, unknown), [""; 0]);
        watch.end(Moment(9000));
        assert_eq!(watch.tell(Moment(9000)), None);
    }

    #[test]
    fn hooks_outrank_the_screen() {
        let mut watch = ActivityWatch::default();
        assert_eq!(
            told(&mut watch, 0..2000, shows(OnScreen::InputLine)),
            ["250 starting screen", "750 idle screen"]
        );
        watch.report(Moment(2000), Point::PromptSubmitted);
        let at_work = Some(ActivitySource::Hooks);
        let working = Look { at_work, ..shows(OnScreen::InputLine) };
        assert_eq!(told(&mut watch, 2000..5000, working), ["2000 working hooks"]);
        watch.report(Moment(5000), Point::TurnEnded);
        // The sign of work stays on the screen for a moment.
        assert_eq!(told(&mut watch, 5000..5500, shows(OnScreen::Busy)), ["5000 idle hooks"]);
        assert_eq!(told(&mut watch, 5500..9000, shows(OnScreen::InputLine)), [""; 0]);
        // Hooks do not report some work, such as compaction.
        assert_eq!(told(&mut watch, 9000..12_000, shows(OnScreen::Busy)), ["10250 working screen"]);
        assert_eq!(watch.unheard_since(), None);
    }

    #[test]
    fn permission_ends_when_its_dialog_leaves_the_screen() {
        let mut watch = ActivityWatch::default();
        let at_work = Some(ActivitySource::Hooks);
        let shows = |shown| Look { at_work, ..shows(shown) };
        watch.report(Moment(0), Point::PromptSubmitted);
        assert_eq!(told(&mut watch, 0..1000, shows(OnScreen::Busy)), ["0 working hooks"]);
        watch.report(Moment(1000), Point::PermissionAsked);
        let asks = ["1000 waits-for-permission hooks"];
        assert_eq!(told(&mut watch, 1000..1500, shows(OnScreen::Busy)), asks);
        assert_eq!(told(&mut watch, 1500..9000, shows(OnScreen::Dialog)), [""; 0]);
        // Another tool has ended meanwhile.
        watch.report(Moment(9000), Point::ToolEnded);
        assert_eq!(told(&mut watch, 9000..9900, shows(OnScreen::Dialog)), [""; 0]);
        assert_eq!(told(&mut watch, 9900..11_000, shows(OnScreen::Busy)), ["10000 working hooks"]);
    }

    /// One of the user's hooks may have answered it.
    #[test]
    fn permission_without_a_dialog_ends() {
        let mut watch = ActivityWatch::default();
        let busy = Look { at_work: Some(ActivitySource::Hooks), ..shows(OnScreen::Busy) };
        watch.report(Moment(0), Point::PermissionAsked);
        let asked = ["0 waits-for-permission hooks", "2000 working hooks"];
        assert_eq!(told(&mut watch, 0..9000, busy), asked);
    }

    #[test]
    fn permission_request_does_not_replace_open_question() {
        let mut watch = ActivityWatch::default();
        watch.report(Moment(0), Point::PersonAsked);
        watch.report(Moment(10), Point::PermissionAsked);
        assert_eq!(told(&mut watch, 10..900, shows(OnScreen::Dialog)), ["10 asks-person hooks"]);
        watch.report(Moment(900), Point::PromptSubmitted);
        let working = Look { at_work: Some(ActivitySource::Hooks), ..shows(OnScreen::Busy) };
        assert_eq!(told(&mut watch, 900..2000, working), ["900 working hooks"]);
    }

    #[test]
    fn short_changes_are_not_reported_and_reconnection_reports_again() {
        let mut watch = ActivityWatch::default();
        watch.report(Moment(0), Point::PromptSubmitted);
        assert!(watch.tell(Moment(0)).is_some());
        for at in 1..100 {
            watch.report(Moment(at), Point::TurnEnded);
            watch.report(Moment(at), Point::PromptSubmitted);
            assert_eq!(watch.tell(Moment(at)), None);
        }
        watch.report(Moment(100), Point::TurnEnded);
        assert_eq!(watch.tell(Moment(499)), None);
        assert_eq!(watch.tell(Moment(500)).unwrap().since, Moment(100));
        watch.forget_told();
        assert_eq!(watch.tell(Moment(501)).unwrap().since, Moment(100));
        watch.end(Moment(502));
        assert_eq!(watch.tell(Moment(502)).unwrap().activity, Activity::Ended);
    }
}
