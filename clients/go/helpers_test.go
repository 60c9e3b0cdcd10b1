package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// limit is the watchdog of each test, far beyond its duration on a busy machine.
const limit = 90 * time.Second

// context of a test: it ends after the limit, and all goroutines of clients must have ended then.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(func() {
		cancel()
		expectNoGoroutines(t)
	})
	return ctx
}

// expectNoGoroutines fails if a client has left a goroutine. One that has done its work may need a
// moment to vanish.
func expectNoGoroutines(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for begin := time.Now(); ; runtime.Gosched() {
		left := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(left, "relay.(*Client).") && !strings.Contains(left, "relay.(*link).") {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("goroutines are left:\n%s", left)
		}
	}
}

// join joins with usual limits.
func join(t *testing.T, ctx context.Context, endpoint string, options Options) *Client {
	t.Helper()
	return joinWith(t, ctx, endpoint, options, usual)
}

func joinWith(t *testing.T, ctx context.Context, endpoint string, options Options, limits limits) *Client {
	t.Helper()
	if options.Name == "" {
		options.Name = "Ann"
	}
	options.Endpoint = endpoint
	client, err := connect(ctx, options, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func receive(t *testing.T, ctx context.Context, client *Client) *Message {
	t.Helper()
	m, err := client.Receive(ctx)
	if err != nil {
		t.Fatalf("%s received nothing: %v", client.Name(), err)
	}
	return m
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("%v, and not %v", found, wanted)
	}
}

func failsWith(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("the error is %v, and not %v", err, wanted)
	}
}

// start runs a function in a goroutine. The returned function waits for its error.
func start(work func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	return func() error { return <-done }
}

// failure waits for a failure that no call has returned.
func failure(t *testing.T, ctx context.Context, client *Client) *RefusedError {
	t.Helper()
	select {
	case refused, isOpen := <-client.Failures():
		if isOpen {
			return refused
		}
		t.Fatal("the client has ended")
	case <-ctx.Done():
		t.Fatal("no failure came")
	}
	return nil
}

// daemon is a real daemon with its own home.
type daemon struct {
	t              *testing.T
	home, endpoint string
	process        *exec.Cmd
	drained        chan struct{}
}

// startDaemon starts the daemon that AGENT_RELAY names. Without one, the test is skipped, or fails in
// CI.
func startDaemon(t *testing.T, config string) *daemon {
	t.Helper()
	program := os.Getenv("AGENT_RELAY")
	if program == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("AGENT_RELAY names no daemon")
		}
		t.Skip("AGENT_RELAY names no daemon")
	}
	folder, err := os.MkdirTemp("", "relay")
	ok(t, err)
	home := filepath.Join(folder, "home")
	d := &daemon{t: t, home: home, endpoint: filepath.Join(home, "relay.sock")}
	if runtime.GOOS == "windows" {
		d.endpoint = `\\.\pipe\` + filepath.Base(folder)
	}
	t.Cleanup(func() {
		d.kill()
		os.RemoveAll(folder)
	})
	d.start() // The daemon makes its home, which on Windows must be closed to others.
	if config != "" {
		d.kill()
		ok(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600))
		d.start()
	}
	return d
}

func (d *daemon) command(words ...string) *exec.Cmd {
	all := append([]string{"--home", d.home, "--endpoint", d.endpoint}, words...)
	return exec.Command(os.Getenv("AGENT_RELAY"), all...)
}

func (d *daemon) start() {
	d.t.Helper()
	d.process = d.command("up", "--foreground")
	log, err := d.process.StderrPipe()
	ok(d.t, err)
	ok(d.t, d.process.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening at") {
			d.drained = make(chan struct{})
			go func() {
				defer close(d.drained)
				for lines.Scan() {
				}
			}()
			return
		}
	}
	d.t.Fatal("the daemon did not start")
}

// kill ends the daemon as a crash does.
func (d *daemon) kill() {
	if d.process == nil {
		return
	}
	d.process.Process.Kill()
	if d.drained != nil {
		<-d.drained
	}
	d.process.Wait() // Its error says that it was killed.
	d.process = nil
}

// busyCount asks the daemon how many SENDs it has answered with BUSY.
func busyCount(t *testing.T, ctx context.Context, client *Client) int64 {
	t.Helper()
	status, err := client.Request(ctx, "status", nil)
	ok(t, err)
	return parseObject(status).object("counts").integer("busy", 0)
}

func raw(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
