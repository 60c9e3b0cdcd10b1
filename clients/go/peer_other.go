//go:build unix && !linux && !darwin

package relay

import "syscall"

// peerUserOf fails, so that the client refuses to connect: Agent Relay does not run on this system.
func peerUserOf(int) (uint32, error) { return 0, syscall.ENOSYS }
