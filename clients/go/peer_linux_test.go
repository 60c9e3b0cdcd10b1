package relay

import (
	"bufio"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const foreignSocket = "AGENT_RELAY_TEST_SOCKET"

// TestListenForAnother is not a test, but the process of another user in the next one: it prints
// how many bytes it has read.
func TestListenForAnother(t *testing.T) {
	path := os.Getenv(foreignSocket)
	if path == "" {
		t.Skip("for the next test only")
	}
	listener, err := net.Listen("unix", path)
	ok(t, err)
	ok(t, os.Chmod(path, 0o777))
	os.Stdout.WriteString("ready\n")
	conn, err := listener.Accept()
	ok(t, err)
	if count, _ := conn.Read(make([]byte, 9)); count == 0 {
		os.Stdout.WriteString("nothing\n")
	}
}

func TestDaemonOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to start a process of another user")
	}
	ctx := testContext(t)
	folder, err := os.MkdirTemp("", "relay")
	ok(t, err)
	defer os.RemoveAll(folder)
	ok(t, os.Chmod(folder, 0o777))
	path := filepath.Join(folder, "s")
	// Another user may not reach the path of this program.
	other := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestListenForAnother$")
	other.Env, other.Dir = append(os.Environ(), foreignSocket+"="+path), "/"
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := other.StdoutPipe()
	ok(t, err)
	ok(t, other.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	equal(t, lines.Text(), "ready")
	_, err = Connect(ctx, Options{Name: "Ann", Endpoint: path})
	failsWith(t, err, fs.ErrPermission)
	lines.Scan()
	equal(t, lines.Text(), "nothing")
	for lines.Scan() { // the test framework's output
	}
	ok(t, other.Wait())
}
