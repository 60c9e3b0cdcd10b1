package relay

import (
	"syscall"
	"unsafe"
)

func peerUserOf(fd int) (uint32, error) {
	const solLocal, localPeerCred = 0, 1
	var peer struct { // xucred of <sys/ucred.h>
		version, user uint32
		count         int16
		groups        [16]uint32
	}
	size := uint32(unsafe.Sizeof(peer))
	_, _, failed := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), solLocal, localPeerCred,
		uintptr(unsafe.Pointer(&peer)), uintptr(unsafe.Pointer(&size)), 0)
	if failed != 0 {
		return 0, failed
	}
	if peer.version != 0 || size < 8 {
		return 0, syscall.EINVAL
	}
	return peer.user, nil
}
