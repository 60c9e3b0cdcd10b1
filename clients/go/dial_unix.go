//go:build unix

package relay

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// dial opens a stream, and fails unless this user or root runs the other end.
func dial(ctx context.Context, endpoint string) (io.ReadWriteCloser, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", endpoint)
	if err != nil {
		return nil, fmt.Errorf("no daemon at %s: %w", endpoint, err)
	}
	user, err := peerUser(conn.(*net.UnixConn))
	if err == nil && user != 0 && user != uint32(os.Getuid()) {
		err = fmt.Errorf("another user (%d) listens at %s: %w", user, endpoint, fs.ErrPermission)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// peerUser asks the system which user runs the other end.
func peerUser(conn *net.UnixConn) (user uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { user, err = peerUserOf(int(fd)) })
	if failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, fmt.Errorf("the system does not say who runs the daemon: %w", err)
	}
	return user, nil
}

func defaultHome() string {
	home, _ := os.UserHomeDir() // Without one, the path below does not exist.
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "agent-relay")
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "agent-relay")
	}
	return filepath.Join(home, ".local", "state", "agent-relay")
}

// defaultEndpoint returns the first endpoint that this user may open.
func defaultEndpoint() string {
	const shared, writable = "/tmp/agent-relay.sock", 2
	if own := fmt.Sprintf("/tmp/agent-relay-%d.sock", os.Getuid()); syscall.Access(shared, writable) != nil &&
		syscall.Access(own, writable) == nil {
		return own
	}
	return shared
}
