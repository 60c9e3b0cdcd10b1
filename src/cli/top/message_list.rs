//! Messages in a pane of `top`: the newest are last, and the oldest are forgotten.

use crate::cli::{conversation::Conversation, table::broken};
use std::collections::{HashSet, VecDeque};

/// The most messages of a list.
const MESSAGES_MAX: usize = 1000;

/// The blanks that a tab is shown as.
const TAB: &str = "    ";

/// A list of messages that the pane can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// All messages as they are routed, after the messages of the history.
    Conversation,
    /// Messages that were not delivered.
    DeadLetters,
    /// Messages to the person.
    Mailbox,
}

/// A message, with texts that are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The identity of the message: two messages with the same key are shown once.
    pub(super) key: String,
    /// The id for queries of the message.
    pub(super) id: String,
    /// The part of the id that people see.
    pub(super) short: String,
    pub(super) time: String,
    pub(super) from: String,
    /// The recipient, with the topic.
    pub(super) to: String,
    /// The message that it answers, and its thread.
    pub(super) conversation: Conversation,
    /// The text, with its line breaks.
    pub(super) text: String,
    /// The reason why a dead letter was not delivered.
    pub(super) why: Option<String>,
}

impl Message {
    /// Whether the message contains a text, in any case.
    fn contains(&self, lower: &str) -> bool {
        let thread = &self.conversation.thread;
        let mut texts =
            [&self.from, &self.to, &self.text].into_iter().chain(&self.why).chain(thread);
        texts.any(|text| text.to_lowercase().contains(lower)) || self.short.starts_with(lower)
    }

    /// The beginning of the text on one line, after the mark of its conversation: enough for `width`
    /// columns.
    pub(super) fn line(&self, width: usize) -> String {
        let mut line = self.conversation.mark();
        let mark = line.len();
        for word in self.text.split(['\n', '\t', ' ']).filter(|word| !word.is_empty()) {
            line.push_str(if line.len() == mark { "" } else { " " });
            line.push_str(word);
            // A character has at most four bytes, and most have at least one column.
            if line.len() > mark + 4 * width {
                break;
            }
        }
        line
    }

    /// The whole message in lines of at most `width` columns. The first is its heading.
    pub(super) fn page(&self, width: usize) -> Vec<String> {
        let Self { id, time, from, to, conversation, text, why, .. } = self;
        let words = conversation.words();
        let mut page = vec![format!("{from} -> {to}{words}"), format!("{time}  {id}")];
        let (width, text) = (width.max(1), text.replace('\t', TAB));
        let mut push = |text: &str| page.extend(broken(text, width, 0).lines().map(str::to_owned));
        why.iter().for_each(|why| push(why));
        for line in [""].into_iter().chain(text.split('\n')) {
            // An empty text has no lines.
            push(if line.is_empty() { "\n" } else { line });
        }
        page
    }
}

/// A list of messages, with one that is chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageList {
    messages: VecDeque<Message>,
    keys: HashSet<String>,
    /// The key of the chosen message.
    chosen: Option<String>,
    /// The number of messages below the visible ones; with 0, the newest are shown.
    below: usize,
}

impl MessageList {
    /// Adds the newest message, unless it is shown already. Returns whether it was added.
    pub(super) fn push(&mut self, message: Message, filter: &str) -> bool {
        if !self.keys.insert(message.key.clone()) {
            return false;
        }
        if self.below > 0 && matches(&message, &filter.to_lowercase()) {
            self.below += 1;
        }
        if self.messages.len() == MESSAGES_MAX {
            self.messages.pop_front().iter().for_each(|oldest| {
                self.keys.remove(&oldest.key);
            });
        }
        self.messages.push_back(message);
        true
    }

    /// Replaces all messages. If the chosen one is gone, the one in its place is chosen. Returns
    /// whether they differ.
    pub(super) fn replace(&mut self, messages: Vec<Message>) -> bool {
        if self.messages.iter().eq(&messages) {
            return false;
        }
        let place = self.messages.iter().position(|message| self.is_chosen(message));
        self.keys = messages.iter().map(|message| message.key.clone()).collect();
        if self.chosen.as_ref().is_some_and(|chosen| !self.keys.contains(chosen)) {
            let next = place.and_then(|place| messages.get(place)).or_else(|| messages.last());
            self.chosen = next.map(|message| message.key.clone());
        }
        self.messages = messages.into();
        true
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The messages that contain a text, in any case.
    pub(super) fn matching(&self, filter: &str) -> Vec<&Message> {
        let lower = filter.to_lowercase();
        self.messages.iter().filter(|message| matches(message, &lower)).collect()
    }

    /// The messages that `height` rows show, each with whether it is chosen.
    pub(super) fn visible(&self, filter: &str, height: usize) -> Vec<(&Message, bool)> {
        let all = self.matching(filter);
        let end = all.len() - self.below.min(all.len().saturating_sub(height));
        let shown = &all[end.saturating_sub(height)..end];
        shown.iter().map(|message| (*message, self.is_chosen(message))).collect()
    }

    fn is_chosen(&self, message: &Message) -> bool {
        self.chosen.as_ref() == Some(&message.key)
    }

    pub(super) fn chosen(&self, filter: &str) -> Option<&Message> {
        self.matching(filter).into_iter().find(|message| self.is_chosen(message))
    }

    /// Chooses the message in a visible row.
    pub(super) fn choose_row(&mut self, filter: &str, height: usize, row: usize) {
        let key = self.visible(filter, height).get(row).map(|(message, _)| message.key.clone());
        self.chosen = key.or_else(|| self.chosen.take());
    }

    /// Chooses the message that is `by` rows after the chosen one, and makes it visible. Without a
    /// chosen one, the newest is chosen.
    pub(super) fn choose(&mut self, filter: &str, height: usize, by: isize) {
        let all = self.matching(filter);
        let Some(last) = all.len().checked_sub(1) else { return };
        let from = all.iter().position(|message| self.is_chosen(message));
        let at = from.map_or(last, |from| from.saturating_add_signed(by).min(last));
        let (key, after) = (all[at].key.clone(), last - at);
        self.chosen = Some(key);
        let least = (after + 1).saturating_sub(height);
        self.below = self.below.clamp(least, after.max(least));
    }

    /// Scrolls by this many messages; a positive number shows older ones.
    pub(super) fn scroll(&mut self, filter: &str, height: usize, by: isize) {
        let most = self.matching(filter).len().saturating_sub(height);
        self.below = self.below.min(most).saturating_add_signed(by).min(most);
    }

    /// Shows the newest messages again, and chooses none.
    pub(super) fn follow(&mut self) {
        (self.chosen, self.below) = (None, 0);
    }

    /// Whether the newest messages are shown.
    pub(super) fn follows(&self) -> bool {
        self.below == 0
    }
}

fn matches(message: &Message, lower: &str) -> bool {
    lower.is_empty() || message.contains(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: usize) -> Message {
        Message {
            key: number.to_string(),
            text: format!("text {number}"),
            from: if number.is_multiple_of(2) { "Ann" } else { "Bob" }.to_owned(),
            ..Message::default()
        }
    }

    fn list(count: usize) -> MessageList {
        let mut list = MessageList::default();
        for number in 0..count {
            assert!(list.push(numbered(number), ""));
        }
        list
    }

    fn keys(list: &MessageList, filter: &str, height: usize) -> String {
        let visible = list.visible(filter, height);
        let keys = visible.iter().map(|(message, is_chosen)| {
            format!("{}{}", message.key, if *is_chosen { "*" } else { "" })
        });
        keys.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn oldest_messages_are_forgotten_and_known_ones_are_ignored() {
        let mut list = list(MESSAGES_MAX + 5);
        assert_eq!(list.len(), MESSAGES_MAX);
        assert!(!list.push(numbered(MESSAGES_MAX), ""));
        assert_eq!(keys(&list, "", 2), "1003 1004");
        assert_eq!(keys(&list, "ann", 2), "1002 1004");
    }

    #[test]
    fn message_in_the_place_of_a_removed_one_is_chosen() {
        let mut list = list(4);
        list.choose("", 4, 0);
        list.choose("", 4, -2);
        assert_eq!(keys(&list, "", 4), "0 1* 2 3");
        let left = |numbers: &[usize]| numbers.iter().copied().map(numbered).collect::<Vec<_>>();
        assert!(list.replace(left(&[0, 2, 3])));
        assert_eq!(keys(&list, "", 4), "0 2* 3");
        assert!(!list.replace(left(&[0, 2, 3])));
        list.replace(left(&[0]));
        assert_eq!(keys(&list, "", 4), "0*");
        list.replace(Vec::new());
        assert_eq!(list.chosen(""), None);
    }

    #[test]
    fn text_is_one_line_or_a_whole_page() {
        let text = "fn main() {\n\n\tlet x = 1;\n}".to_owned();
        let message =
            Message { text, why: Some("EXPIRED".to_owned()), to: "Bob".to_owned(), ..numbered(2) };
        assert_eq!(message.line(80), "fn main() { let x = 1; }");
        assert!(Message { text: "x ".repeat(100_000), ..message.clone() }.line(80).len() < 400);
        let page = message.page(20);
        assert_eq!(page[0], "Ann -> Bob");
        assert_eq!(page[2..], ["EXPIRED", "", "fn main() {", "", "    let x = 1;", "}"]);
        assert_eq!(message.page(0).len(), message.page(1).len(), "no width is survived");
        let (reply_to, thread) = (Some("1a2b3c4d-55f7".to_owned()), Some("Port".to_owned()));
        let reply = Message { conversation: Conversation { reply_to, thread }, ..message };
        assert_eq!(reply.line(80), "[Port] re 1a2b3c4d: fn main() { let x = 1; }");
        assert_eq!(reply.page(80)[0], "Ann -> Bob, an answer to 1a2b3c4d, thread Port");
        assert!(reply.contains("port"), "threads are searched");
    }

    #[test]
    fn scrolled_list_stays_while_messages_come() {
        let mut list = list(10);
        list.scroll("", 3, 2);
        assert_eq!(keys(&list, "", 3), "5 6 7");
        list.push(numbered(10), "");
        assert_eq!(keys(&list, "", 3), "5 6 7");
        list.scroll("", 3, -3);
        assert!(list.follows());
        assert_eq!(keys(&list, "", 3), "8 9 10");
        list.scroll("", 3, 100);
        assert_eq!(keys(&list, "", 3), "0 1 2");
        assert_eq!(keys(&list, "", 0), "");
    }

    #[test]
    fn chosen_message_is_made_visible() {
        let mut list = list(10);
        list.choose("", 3, 1);
        assert_eq!(keys(&list, "", 3), "7 8 9*");
        list.choose("", 3, -4);
        assert_eq!(keys(&list, "", 3), "5* 6 7");
        list.choose("", 3, 3);
        assert_eq!(keys(&list, "", 3), "6 7 8*");
        // The chosen message is from Ann, so of those from Bob none was chosen.
        list.choose("bob", 2, isize::MIN);
        assert_eq!(list.chosen("bob").unwrap().key, "9");
        list.choose_row("", 3, 0);
        assert_eq!(keys(&list, "", 3).matches('*').count(), 1);
        list.follow();
        assert_eq!(keys(&list, "", 3), "7 8 9");
    }
}
