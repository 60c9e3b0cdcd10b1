//! A strict reader of Prometheus' text format, with the rules of `promtool check metrics` that
//! matter here.

use std::collections::{BTreeMap, BTreeSet};

/// The values of all series, by the series as it is written.
///
/// # Errors
/// The first line that breaks a rule, and the rule.
pub fn read(text: &str) -> Result<BTreeMap<String, f64>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut help, mut current) = (None, None);
    for line in text.lines() {
        let wrong = |why: &str| Err(format!("{line:?}: {why}"));
        if let Some(comment) = line.strip_prefix("# HELP ") {
            let Some((name, words)) = comment.split_once(' ') else { return wrong("no help") };
            if !families.insert(name) {
                return wrong("the samples of a metric stand together");
            }
            if words.is_empty() || words.contains('\\') {
                return wrong("a help that is empty, or would need escapes");
            }
            help = Some(name);
        } else if let Some(comment) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = comment.split_once(' ') else { return wrong("no type") };
            if help != Some(name) {
                return wrong("HELP stands before TYPE");
            }
            if !["gauge", "counter"].contains(&kind) {
                return wrong("an unknown type");
            }
            if (kind == "counter") != name.ends_with("_total") {
                return wrong("counters end with _total, and nothing else does");
            }
            current = Some(name);
        } else {
            let Some((series, value)) = line.rsplit_once(' ') else { return wrong("no value") };
            let name = series.split('{').next().unwrap_or_default();
            if current != Some(name) {
                return wrong("a sample follows the HELP and TYPE of its metric");
            }
            if !is_name(name, true) {
                return wrong("no name of a metric");
            }
            if let Err(why) = check_labels(&series[name.len()..]) {
                return wrong(why);
            }
            let Ok(value) = value.parse() else { return wrong("a value is a number") };
            if samples.insert(series.to_owned(), value).is_some() {
                return wrong("a series is there twice");
            }
        }
    }
    Ok(samples)
}

fn is_name(name: &str, may_have_colons: bool) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || may_have_colons && c == ':';
    name.chars().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Checks the labels of a sample, if it has some: `{name="value",…}` with escapes of `\`, `"` and
/// line breaks.
fn check_labels(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Ok(());
    }
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let mut rest = inside.ok_or("labels stand in braces")?;
    let mut names = BTreeSet::new();
    loop {
        let (name, value) = rest.split_once("=\"").ok_or("a label has a value in quotes")?;
        if !is_name(name, false) || !names.insert(name) {
            return Err("a label has a name of its own");
        }
        let mut characters = value.char_indices();
        let end = loop {
            match characters.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match characters.next() {
                    Some((_, '\\' | '"' | 'n')) => {}
                    _ => return Err("an unknown escape"),
                },
                Some(_) => {}
                None => return Err("a value has no end"),
            }
        };
        match &value[end + 1..] {
            "" => return Ok(()),
            more => rest = more.strip_prefix(',').ok_or("labels stand between commas")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn rules_are_checked() {
        let head = "# HELP a_x A thing.\n# TYPE a_x gauge\n";
        let good = format!("{head}a_x{{b=\"\\\\\\\"\\n,}}\",c=\"\"}} 1\na_x 2.5\n");
        assert_eq!(read(&good).unwrap().len(), 2);
        for (bad, why) in [
            ("a_x 1", "no end"),
            ("b 1\n", "HELP and TYPE"),
            ("a_x one\n", "number"),
            ("a_x 1\na_x 1\n", "twice"),
            ("a_x{b=\"\\t\"} 1\n", "escape"),
            ("a_x{b=\"1\"c=\"2\"} 1\n", "commas"),
            ("a_x{b=\"1\",b=\"2\"} 1\n", "of its own"),
            ("a_x{b=\"1} 1\n", "no end"),
            ("# HELP a_x Again.\n", "together"),
            ("# HELP b B.\n# TYPE b counter\n", "_total"),
            ("# TYPE b gauge\n", "before TYPE"),
        ] {
            let error = read(&format!("{head}{bad}")).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
