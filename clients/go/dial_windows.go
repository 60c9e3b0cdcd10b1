package relay

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	pipeRights      = 0x12019B   // to read and write, without the right to create instances
	pipeFlags       = 0x40110000 // FILE_FLAG_OVERLAPPED, SECURITY_SQOS_PRESENT and SECURITY_IDENTIFICATION
	pipeBusyWait    = 5 * time.Second
	pipeChunk       = 64 << 10
	pipeBusy        = syscall.Errno(231)
	pipeDisjoined   = syscall.Errno(233)
	systemUser      = "S-1-5-18"
	administrators  = "S-1-5-32-544"
	ownerOfAnObject = 1 // OWNER_SECURITY_INFORMATION
	kernelObject    = 6 // SE_KERNEL_OBJECT
)

var (
	kernel32               = syscall.NewLazyDLL("kernel32.dll")
	createEvent            = kernel32.NewProc("CreateEventW")
	setEvent               = kernel32.NewProc("SetEvent")
	resetEvent             = kernel32.NewProc("ResetEvent")
	getOverlappedResult    = kernel32.NewProc("GetOverlappedResult")
	waitForMultipleObjects = kernel32.NewProc("WaitForMultipleObjects")
	waitNamedPipe          = kernel32.NewProc("WaitNamedPipeW")
	getSecurityInfo        = syscall.NewLazyDLL("advapi32.dll").NewProc("GetSecurityInfo")
)

// dial opens a pipe, and fails unless this user or the system runs the other end.
func dial(ctx context.Context, endpoint string) (io.ReadWriteCloser, error) {
	handle, err := openPipe(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("no daemon at %s: %w", endpoint, err)
	}
	if err := checkOwner(handle); err != nil {
		syscall.CloseHandle(handle)
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	return newPipe(handle)
}

// openPipe waits up to five seconds while all instances of the pipe are in use. A pipe that is busy
// for longer counts as absent: clients of a daemon that has ended hold it.
func openPipe(ctx context.Context, endpoint string) (syscall.Handle, error) {
	name, err := syscall.UTF16PtrFromString(endpoint)
	if err != nil {
		return 0, err
	}
	for begin := time.Now(); ; {
		handle, err := syscall.CreateFile(name, pipeRights, 0, nil, syscall.OPEN_EXISTING, pipeFlags, 0)
		if err != pipeBusy {
			return handle, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if time.Since(begin) >= pipeBusyWait {
			return 0, fmt.Errorf("the pipe is busy: %w", fs.ErrNotExist)
		}
		waitNamedPipe.Call(uintptr(unsafe.Pointer(name)), 100) // Fails if it is busy after 100 ms.
	}
}

// checkOwner fails unless the pipe belongs to this user, LocalSystem or the administrators.
func checkOwner(pipe syscall.Handle) error {
	var owner *syscall.SID
	var descriptor syscall.Handle
	failed, _, _ := getSecurityInfo.Call(uintptr(pipe), kernelObject, ownerOfAnObject,
		uintptr(unsafe.Pointer(&owner)), 0, 0, 0, uintptr(unsafe.Pointer(&descriptor)))
	if failed != 0 {
		return fmt.Errorf("the system does not say who owns the pipe: %w", syscall.Errno(failed))
	}
	defer syscall.LocalFree(descriptor)
	user, err := owner.String()
	if err != nil {
		return fmt.Errorf("the pipe's owner has no text: %w", err)
	}
	own, err := ownUser()
	if err != nil {
		return fmt.Errorf("the system does not say who this user is: %w", err)
	}
	if user != own && user != systemUser && user != administrators {
		return fmt.Errorf("another user (%s) listens there: %w", user, fs.ErrPermission)
	}
	return nil
}

// ownUser returns the SID of this process's user.
func ownUser() (string, error) {
	token, err := syscall.OpenCurrentProcessToken()
	if err != nil {
		return "", err
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return "", err
	}
	return user.User.Sid.String()
}

// pipe is an overlapped pipe. One goroutine may read while another one writes and a third one closes.
type pipe struct {
	handle           syscall.Handle
	closed           syscall.Handle // an event that Close signals
	reading, writing exchange
	closing          sync.Once
	using            sync.WaitGroup
	mu               sync.Mutex // guards isClosed, and using.Add against using.Wait
	isClosed         bool
}

// exchange is the memory that the system reads and writes during a call, so that it must not move.
type exchange struct {
	overlapped syscall.Overlapped
	buffer     [pipeChunk]byte
}

func newPipe(handle syscall.Handle) (io.ReadWriteCloser, error) {
	p := &pipe{handle: handle}
	for _, event := range []*syscall.Handle{&p.closed, &p.reading.overlapped.HEvent, &p.writing.overlapped.HEvent} {
		made, _, err := createEvent.Call(0, 1, 0, 0) // reset by hand, not signalled
		if made == 0 {
			p.Close()
			return nil, err
		}
		*event = syscall.Handle(made)
	}
	return p, nil
}

func (p *pipe) Read(into []byte) (int, error) {
	if len(into) > pipeChunk {
		into = into[:pipeChunk]
	}
	count, err := p.exchange(&p.reading, func() error {
		return syscall.ReadFile(p.handle, p.reading.buffer[:len(into)], nil, &p.reading.overlapped)
	})
	if err == syscall.ERROR_BROKEN_PIPE || err == pipeDisjoined {
		err = io.EOF
	}
	return copy(into, p.reading.buffer[:count]), err
}

func (p *pipe) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		size := copy(p.writing.buffer[:], data[written:])
		count, err := p.exchange(&p.writing, func() error {
			return syscall.WriteFile(p.handle, p.writing.buffer[:size], nil, &p.writing.overlapped)
		})
		written += count
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// exchange starts a call, and waits until it or the pipe has ended.
func (p *pipe) exchange(of *exchange, start func() error) (int, error) {
	p.mu.Lock()
	if p.isClosed {
		p.mu.Unlock()
		return 0, os.ErrClosed
	}
	p.using.Add(1)
	p.mu.Unlock()
	defer p.using.Done()
	event := of.overlapped.HEvent
	resetEvent.Call(uintptr(event))
	of.overlapped = syscall.Overlapped{HEvent: event}
	if err := start(); err != nil && err != syscall.ERROR_IO_PENDING {
		return 0, err
	}
	events := [2]syscall.Handle{event, p.closed}
	first, _, _ := waitForMultipleObjects.Call(2, uintptr(unsafe.Pointer(&events)), 0, syscall.INFINITE)
	if first != syscall.WAIT_OBJECT_0 {
		syscall.CancelIoEx(p.handle, &of.overlapped) // Fails if the call has ended meanwhile.
	}
	var count uint32
	done, _, err := getOverlappedResult.Call(uintptr(p.handle), uintptr(unsafe.Pointer(&of.overlapped)),
		uintptr(unsafe.Pointer(&count)), 1) // 1 waits for the call's end.
	switch {
	case first != syscall.WAIT_OBJECT_0:
		return int(count), os.ErrClosed
	case done == 0:
		return int(count), err
	}
	return int(count), nil
}

// Close ends the calls that are under way, and the pipe.
func (p *pipe) Close() error {
	p.closing.Do(func() {
		p.mu.Lock()
		p.isClosed = true
		p.mu.Unlock()
		setEvent.Call(uintptr(p.closed))
		p.using.Wait()
		events := []syscall.Handle{p.closed, p.reading.overlapped.HEvent, p.writing.overlapped.HEvent}
		for _, handle := range append(events, p.handle) {
			if handle != 0 {
				syscall.CloseHandle(handle)
			}
		}
	})
	return nil
}

func defaultHome() string { return filepath.Join(os.Getenv("LOCALAPPDATA"), "agent-relay") }

func defaultEndpoint() string { return `\\.\pipe\agent-relay` }
