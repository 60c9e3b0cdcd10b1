package relay

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"testing"
)

// TestReadmeOptions compares the tables of options with the fields.
func TestReadmeOptions(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	ok(t, err)
	section := regexp.MustCompile("(?ms)^## Options\n(.*?)^## ").FindSubmatch(readme)
	var shown []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]*\\| \\S").FindAllSubmatch(section[1], -1) {
		shown = append(shown, string(row[1]))
	}
	var fields []string
	for _, options := range []any{Options{}, Outgoing{}} {
		of := reflect.TypeOf(options)
		for index := 0; index < of.NumField(); index++ {
			fields = append(fields, of.Field(index).Name)
		}
	}
	if !reflect.DeepEqual(shown, fields) {
		t.Errorf("README.md has %q, and the code %q", shown, fields)
	}
}

// TestReadmeExamples builds the examples as programs of another module, and runs them.
func TestReadmeExamples(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil && runtime.GOOS == "windows" {
		t.Skip("Wine has no Go: the examples run on Linux")
	}
	ctx := testContext(t)
	d := startDaemon(t, "")
	readme, err := os.ReadFile("README.md")
	ok(t, err)
	here, err := os.Getwd()
	ok(t, err)
	module := t.TempDir()
	text := "module examples\n\ngo 1.19\n\nrequire agent-relay/relay v0.0.0\n\nreplace agent-relay/relay => " + here + "\n"
	ok(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte(text), 0o600))
	count := 0
	printed := regexp.MustCompile("(?ms)^## (\\w+)\n\n```go\n(.*?)^```$")
	for _, example := range printed.FindAllStringSubmatch(string(readme), -1) {
		folder := filepath.Join(module, example[1])
		ok(t, os.Mkdir(folder, 0o700))
		ok(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(example[2]), 0o600))
		count++
	}
	equal(t, count, 5)
	programs := filepath.Join(module, "programs")
	build := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./...")
	build.Dir, build.Env = module, append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	ok(t, join(t, ctx, d.endpoint, Options{Name: "Bob"}).Close()) // The daemon knows Bob.
	run := func(name, wanted string) func() error {
		program := filepath.Join(programs, name)
		if runtime.GOOS == "windows" {
			program += ".exe"
		}
		command := exec.CommandContext(ctx, program)
		command.Env = append(os.Environ(), "AGENT_RELAY_ENDPOINT="+d.endpoint)
		return start(func() error {
			out, err := command.CombinedOutput()
			if err == nil && string(out) != wanted {
				t.Errorf("%s prints %q, and not %q", name, out, wanted)
			}
			return err
		})
	}
	ok(t, run("Send", "the daemon has it\n")())
	ok(t, run("Receive", "Ann says \"Your turn\"\n")())
	asked := run("Ask", "Bob answers \"8080\"\n")
	ok(t, run("Answer", "")())
	ok(t, asked())
	ok(t, run("Topics", "build.linux \"passed\"\n")())
}
