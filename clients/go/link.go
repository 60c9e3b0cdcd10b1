package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"syscall"
	"time"
)

// link is a connection. Client.mu guards it, except `stream`, `gone` and what `once` sets.
type link struct {
	stream io.ReadWriteCloser
	once   sync.Once
	gone   chan struct{} // closed once err is set and the stream is closed
	err    error

	isReady, isResuming bool
	readySince          time.Time
	control             [][]byte // frames for this connection only, which are written first
	controlBytes        int
	wake                chan struct{} // has a value when the writer has to look
	watchdog            *time.Timer
	whenSilent          error // the error if the watchdog ends the link
}

// fail ends the connection. Only the first error counts.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		l.stream.Close()
		close(l.gone)
	})
}

// failed returns the error that ended the link.
func (l *link) failed() error {
	<-l.gone
	return l.err
}

// sleep waits until the writer has to look, at the latest at that time if it is not zero. It returns
// false once the link has ended.
func (l *link) sleep(wakeAt time.Time) bool {
	var due <-chan time.Time
	if !wakeAt.IsZero() {
		timer := time.NewTimer(time.Until(wakeAt))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-l.wake:
	case <-due:
	case <-l.gone:
		return false
	}
	return true
}

// run keeps the client connected until it ends.
func (c *Client) run() {
	defer close(c.stopped)
	defer c.endLife()
	for attempts, waits := 1, 0; ; attempts, waits = attempts+1, waits+1 {
		readyFor, err := c.serve()
		if readyFor >= c.limits.steady {
			attempts, waits = 0, 0 // a new cycle
		}
		wait, goesOn := c.mayGoOn(err, attempts, waits)
		if goesOn {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.life.Done():
			}
			timer.Stop()
			goesOn = c.life.Err() == nil
		}
		if !goesOn {
			c.end(err, attempts)
			return
		}
	}
}

// mayGoOn tells whether to connect again after an error, and when.
func (c *Client) mayGoOn(err error, attempts, waits int) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isClosing {
		c.lost = err
	}
	limit, usual := c.options.ConnectAttempts, 1
	if c.sessionID != "" {
		limit, usual = c.options.ReconnectAttempts, 10
	}
	if limit == 0 {
		limit = usual
	}
	if limit < 0 {
		limit = math.MaxInt
	}
	var ended *EndedError
	if c.isClosing || errors.As(err, &ended) || attempts >= limit {
		return 0, false
	}
	wait := backOff(c.limits.firstWait, waits)
	if wait < c.notBefore {
		wait = c.notBefore
	}
	return wait, true
}

// end makes all calls fail.
func (c *Client) end(err error, attempts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ended *EndedError
	switch {
	case c.isClosing:
		c.ended = ErrClosed
	case errors.As(err, &ended):
		c.ended = ended
	default:
		c.ended = &EndedError{codeOf(err), fmt.Sprintf("%s (attempts: %d)", messageOf(err), attempts), err}
	}
	c.outbox.finishAll(c.ended)
	c.arrived.wake()
	close(c.failures)
}

// codeOf returns the code of an error that ended a connection.
func codeOf(err error) Code {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Code
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return CodeNoDaemon
	}
	return ""
}

// messageOf returns an error's sentence without its code.
func messageOf(err error) string {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Message
	}
	return err.Error()
}

// serve opens a connection and reads from it. It returns how long it was ready, and why it ended.
func (c *Client) serve() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(c.life, c.limits.welcome)
	defer cancel()
	stream, err := dial(ctx, findEndpoint(c.options.Endpoint))
	if err != nil {
		return 0, err
	}
	l := &link{
		stream: stream, gone: make(chan struct{}), wake: make(chan struct{}, 1),
		whenSilent: errors.New("the daemon sent no WELCOME"),
	}
	c.mu.Lock()
	l.watchdog = time.AfterFunc(c.limits.welcome, func() {
		c.mu.Lock()
		err := l.whenSilent
		c.mu.Unlock()
		l.fail(err)
	})
	c.link, c.notBefore = l, 0
	l.isResuming = c.token != "" && c.options.Key == ""
	c.greet()
	if c.isClosing {
		l.fail(ErrClosed)
	}
	c.mu.Unlock()

	writer := make(chan struct{})
	go func() {
		defer close(writer)
		c.write(l)
	}()
	l.fail(c.read(l))
	<-writer
	l.watchdog.Stop()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = nil
	c.outbox.disconnected(time.Now())
	if !l.isReady {
		return 0, l.failed()
	}
	return time.Since(l.readySince), l.failed()
}

// read reads until the connection ends.
func (c *Client) read(l *link) error {
	stream := bufio.NewReaderSize(l.stream, 64<<10)
	for {
		frame, err := readFrame(stream, c.frameBytes) // Only this goroutine changes the limit.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the daemon ended the connection")
		}
		if err != nil {
			return err
		}
		e, err := parse(frame)
		if err != nil {
			return err
		}
		c.mu.Lock()
		if err = c.handle(l, e); err == nil && l.controlBytes > c.limits.controlBytes {
			err = errors.New("the daemon does not read")
		}
		c.isAlive(l)
		c.mu.Unlock()
		if err == nil {
			err = c.pause(l)
		}
		if err != nil {
			return err
		}
	}
}

// isAlive notes that something was read or written.
func (c *Client) isAlive(l *link) {
	if !l.isReady {
		return
	}
	silence := 3 * c.heartbeat
	if silence < c.limits.silence {
		silence = c.limits.silence
	}
	l.watchdog.Reset(silence)
}

// pause waits while too many messages are unread, and shows the daemon meanwhile that this client
// lives.
func (c *Client) pause(l *link) error {
	var beat *time.Timer
	for {
		c.mu.Lock()
		times := 1
		if c.calls > 0 {
			times = 4
		}
		isFull := l.isReady && !c.isClosing && c.inbox.isFull(&c.limits, times)
		room, heartbeat := c.room.wait(), c.heartbeat
		c.mu.Unlock()
		if !isFull {
			return nil
		}
		if beat == nil {
			beat = time.NewTimer(heartbeat)
			defer beat.Stop()
		}
		select {
		case <-room:
		case <-l.gone:
			return l.err
		case <-beat.C:
			beat.Reset(heartbeat)
			c.mu.Lock()
			c.put("PONG", newID(), map[string]any{"nonce": ""}, "")
			c.mu.Unlock()
		}
	}
}

// write writes until the connection ends. If it cannot, the reader finds out why.
func (c *Client) write(l *link) {
	for {
		c.mu.Lock()
		batch, wakeAt := c.take(l)
		c.mu.Unlock()
		if len(batch) == 0 {
			if !l.sleep(wakeAt) {
				return
			}
			continue
		}
		_, err := l.stream.Write(batch)
		c.mu.Lock()
		if err == nil {
			c.isAlive(l)
		} else if l.isReady {
			l.whenSilent = err
			l.watchdog.Reset(time.Second) // if the reader waits for Receive
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take returns the frames to be written now, and when to call it again at the latest.
func (c *Client) take(l *link) ([]byte, time.Time) {
	var frames []byte
	for _, frame := range l.control {
		frames = append(frames, frame...)
	}
	l.control, l.controlBytes = nil, 0
	if !l.isReady || c.isClosing {
		return frames, time.Time{}
	}
	return c.outbox.take(frames, time.Now())
}

func (c *Client) wakeWriter() {
	if c.link == nil {
		return
	}
	select {
	case c.link.wake <- struct{}{}:
	default: // It has been woken.
	}
}

// put queues an envelope for the present connection.
func (c *Client) put(kind, id string, payload any, topic string) {
	frame, err := encode(kind, id, payload, map[string]any{"topic": topic})
	if err != nil {
		c.link.fail(err) // Not possible: the payloads are this package's own.
		return
	}
	c.putFrame(frame)
}

func (c *Client) putFrame(frame []byte) {
	c.link.control = append(c.link.control, frame)
	c.link.controlBytes += len(frame)
	c.wakeWriter()
}

// greet sends RESUME; or HELLO if there is no session to resume, or the name has a key.
func (c *Client) greet() {
	if c.link.isResuming {
		payload := map[string]any{"agent": c.options.Name, "resume_token": c.token, "streams": c.positions()}
		c.put("RESUME", newID(), payload, "")
		return
	}
	inflight := c.options.MaxInflight
	switch {
	case inflight == 0:
		inflight = 256
	case inflight < 0:
		inflight = 0
	case inflight > inflightMax:
		inflight = inflightMax
	}
	payload := map[string]any{
		"agent":        c.options.Name,
		"capabilities": map[string]any{"resume": true, "max_inflight": inflight},
	}
	if c.token != "" {
		payload["session"] = map[string]any{"resume_token": c.token}
	}
	if c.options.Key != "" {
		payload["auth"] = map[string]any{"key": c.options.Key}
	}
	c.put("HELLO", newID(), payload, "")
}

// positions returns the latest streams that fit into a frame of RESUME, and into one of SYNC, which
// adds a number to each.
func (c *Client) positions() []any {
	streams, bytes := []any{}, 1024
	for _, position := range c.inbox.positions.newestFirst() {
		of := map[string]any{"peer": position.key.peer, "topic": position.key.topic, "last_seq": position.value}
		text, err := json.Marshal(of)
		if bytes += len(text) + 64; err != nil || bytes > c.frameBytes {
			break
		}
		streams = append(streams, of)
	}
	return streams
}
