//! Resuming: starts an agent CLI again with its own conversation.

use crate::{hooks::is_session, words::Words};

/// How an agent CLI resumes a conversation.
pub struct Resume {
    /// Options that take the next word as their value.
    pub(crate) with_value: Words,
    /// Options that take all words up to the next option as their values.
    pub(crate) with_values: Words,
    /// Options that are for one start only: they choose a conversation, or give its first prompt.
    pub(crate) left_out: Words,
    /// The words before the id of a resumed conversation.
    pub(crate) resuming: Words,
    /// Returns the arguments that resume the conversation with this id.
    pub(crate) arguments: fn(id: &str) -> Vec<String>,
}

impl Resume {
    /// Returns the arguments to keep for a later start: the options, without those for one start
    /// only, and without free words, which are prompts or subcommands.
    #[must_use]
    pub fn kept(&self, arguments: &[String]) -> Vec<String> {
        let (mut kept, mut values, mut keeps) = (Vec::new(), 0, false);
        for word in arguments.iter().take_while(|word| *word != "--") {
            if word.len() > 1 && word.starts_with('-') {
                let option = word.split_once('=').map_or(&**word, |(option, _)| option);
                keeps = !self.left_out.contains(option);
                values = match () {
                    () if self.with_values.contains(word) => usize::MAX,
                    () if self.with_value.contains(word) => 1,
                    () => 0,
                };
            } else if values > 0 {
                values -= 1;
            } else {
                keeps = false;
            }
            if keeps {
                kept.push(word.clone());
            }
        }
        kept
    }

    /// Returns the id of the conversation that these arguments resume, if any.
    #[must_use]
    pub fn conversation(&self, arguments: &[String]) -> Option<String> {
        let mut before = "";
        arguments.iter().take_while(|word| *word != "--").find_map(|word| {
            let (option, id) = match word.split_once('=') {
                Some((option, id)) => (option, id),
                None => (std::mem::replace(&mut before, word), &**word),
            };
            (self.resuming.contains(option) && is_session(id)).then(|| id.to_owned())
        })
    }

    /// Returns the arguments for a start that resumes a conversation. Without a valid id, the start
    /// begins a new conversation.
    #[must_use]
    pub fn start(&self, kept: &[String], conversation: Option<&str>) -> Vec<String> {
        let conversation = conversation.filter(|id| is_session(id));
        let mut arguments = conversation.map(self.arguments).unwrap_or_default();
        arguments.extend_from_slice(kept);
        arguments
    }
}

/// Returns an option and its value as two arguments.
pub(crate) fn option(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

#[cfg(test)]
mod tests {
    use crate::agents;

    /// The arguments of a later start: the kept ones, and those that resume `id`.
    fn later(agent: &str, arguments: &str) -> String {
        let resume = agents::named(agent).unwrap().resume.unwrap();
        let words: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
        let kept = resume.kept(&words);
        assert_eq!(resume.start(&kept, None), kept);
        for wrong in ["no id", "--dangerously-skip-permissions", "-", ""] {
            assert_eq!(resume.start(&kept, Some(wrong)), kept);
        }
        resume.start(&kept, Some("id")).join(" ")
    }

    #[test]
    fn conversation_that_the_person_resumes_is_known() {
        for (agent, arguments, id) in [
            ("claude", "--model m --resume a-1", Some("a-1")),
            ("claude", "--resume=a-1", Some("a-1")),
            ("claude", "-r --model m", None),
            ("claude", "--model a-1", None),
            ("codex", "resume a-1 -m o3", Some("a-1")),
            ("codex", "resume --last", None),
            ("gemini", "-- --resume a-1", None),
            ("opencode", "-s ses_1", Some("ses_1")),
            ("copilot", "--resume=a-1", Some("a-1")),
        ] {
            let words: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
            let resume = agents::named(agent).unwrap().resume.unwrap();
            assert_eq!(resume.conversation(&words).as_deref(), id, "{agent} {arguments}");
        }
    }

    #[test]
    fn options_are_kept_and_prompts_are_not() {
        for (agent, first, expected) in [
            ("claude", "--model opus fix it", "--resume id --model opus"),
            ("claude", "--add-dir a b --verbose prompt", "--resume id --add-dir a b --verbose"),
            ("claude", "-c --model=x", "--resume id --model=x"),
            ("claude", "-r old --fork-session --session-id u -- x", "--resume id"),
            ("claude", "--from-pr 7 --permission-mode plan", "--resume id --permission-mode plan"),
            ("codex", "resume old -m o3 --search prompt", "resume id -m o3 --search"),
            ("codex", "resume --last -c a=b -i p.png", "resume id -c a=b"),
            ("gemini", "-i hello -m flash --resume latest -y", "--resume id -m flash -y"),
            ("qwen", "-m q --openai-api-key k --continue", "--resume id -m q"),
            ("opencode", "-s old --prompt x -m a/b ./web", "--session id -m a/b"),
            ("copilot", "--resume --model m -i x --name n", "--resume=id --model m --name n"),
        ] {
            assert_eq!(later(agent, first), expected, "{agent} {first}");
        }
    }
}
