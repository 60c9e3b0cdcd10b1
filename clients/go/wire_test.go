package relay

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCodesAreThoseOfTheProtocol compares the constants with the tables of docs/PROTOCOL.md.
func TestCodesAreThoseOfTheProtocol(t *testing.T) {
	codes := func(path, from, to, pattern string) map[string]bool {
		text, err := os.ReadFile(path)
		ok(t, err)
		_, part, _ := strings.Cut(string(text), from)
		part, _, _ = strings.Cut(part, to)
		found := map[string]bool{}
		for _, code := range regexp.MustCompile(pattern).FindAllStringSubmatch(part, -1) {
			found[code[1]] = true
		}
		if len(found) < 25 {
			t.Fatalf("%s has %d codes", path, len(found))
		}
		return found
	}
	wanted := codes("../../docs/PROTOCOL.md", "\n## 14 Codes", "\n## 15", "(?m)^\\| `([A-Z_]+)` \\|")
	found := codes("errors.go", "// The codes of the protocol.", "\n)", `(?m)^\tCode\w+ +Code = "(\w+)"`)
	for code := range wanted {
		if !found[code] {
			t.Errorf("there is no constant for %s", code)
		}
	}
	for code := range found {
		if !wanted[code] {
			t.Errorf("the protocol has no code %s", code)
		}
	}
}

func TestTextWithBracketsIsNotDeep(t *testing.T) {
	body := strings.Repeat("[", 1000) + strings.Repeat(`"{`, 1000) + `\`
	sent, err := encode("SEND", "x", map[string]string{"body": body}, nil)
	ok(t, err)
	e, err := parse(sent[4:])
	ok(t, err)
	equal(t, e.payload.text("body", 1<<20), body)
	for depth, isDeep := range map[int]bool{126: false, 127: true} {
		text := `{"type":"x","id":"x","payload":{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`
		_, err := parse([]byte(text))
		equal(t, err != nil && strings.Contains(err.Error(), "deeper"), isDeep)
	}
	for _, text := range []string{
		strings.Repeat(`{"a":`, 128) + "1" + strings.Repeat("}", 128),
		strings.Repeat(`"`, 300_000) + strings.Repeat("[", 200),
		strings.Repeat(`"\`, 300_000) + strings.Repeat("[", 200),
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Fatal("this was read: " + text[:20])
		}
	}
}
