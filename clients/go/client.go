// Package relay is a client of Agent Relay, the local daemon that routes messages between named
// agents of one machine. It joins the daemon as an agent, sends, receives, asks and answers, and
// connects again by itself. It uses the standard library only.
//
//	client, err := relay.Connect(ctx, relay.Options{Name: "Ann"})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	receipt, err := client.Send(ctx, relay.Outgoing{To: "Bob", Body: "Your turn"})
//
// The README has more examples. docs/PROTOCOL.md is the protocol, and says when messages come twice
// or are lost. All methods may be called by several goroutines at once.
package relay

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"

	"sort"
	"sync"
	"time"
)

const (
	recentMax   = 256     // written at-most-once messages and answers that are kept
	recentBytes = 4 << 20 // the same in bytes
	batchBytes  = 1 << 20 // of frames that are written at once, if there are several
	unreadBytes = 4 << 20 // of messages that wait for Receive; four times that during a call
	inflightMax = 4096
	seenMax     = 16384
	streamsMax  = 1024
	failuresMax = 1024

	questionDefault = 30 * time.Second
	questionMax     = time.Hour
	waitMax         = 30 * time.Second
	closeWait       = 2 * time.Second // for the daemon to end the connection after BYE
)

// limits has bounds and times that tests change.
type limits struct {
	unread       int // messages that wait for Receive; four times that during a call
	controlBytes int // of unwritten frames that are not in the outbox
	firstWait    time.Duration
	steady       time.Duration
	welcome      time.Duration // for a connection and its WELCOME
	silence      time.Duration // the shortest silence that means the connection is lost
}

var usual = limits{
	unread: 1000, controlBytes: 16 << 20, firstWait: 100 * time.Millisecond, steady: 10 * time.Second,
	welcome: 10 * time.Second, silence: 15 * time.Second,
}

// Forever is a number of attempts without an end.
const Forever = -1

// Options are the settings of a client.
type Options struct {
	// Name is the agent's name.
	Name string
	// Endpoint is the path of the daemon's socket or the name of its pipe. If it is empty: the
	// variable AGENT_RELAY_ENDPOINT, the file `endpoint` in the home (AGENT_RELAY_HOME, or the
	// system's default), or the system's default endpoint.
	Endpoint string
	// Key is the key of the name, if the owner has set one. It is never printed.
	Key string `json:"-"`
	// MaxInflight is how many messages may be unacknowledged at a time: 256 if it is 0, at most
	// 4,096. With a negative number, no at-least-once messages are delivered to this client.
	MaxInflight int
	// ConnectAttempts is the number of attempts before Connect fails: 1 if it is 0, or Forever.
	ConnectAttempts int
	// ReconnectAttempts is the number of attempts after a lost connection before the client ends: 10
	// if it is 0, or Forever. The waits between them grow from 0.1 s to 30 s.
	ReconnectAttempts int
}

// Format prints the options without the key, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "relay.Options{Name:%q Endpoint:%q}", o.Name, o.Endpoint)
}

// Client is a connection to the daemon under a name, kept up until Close or a permanent error.
type Client struct {
	options  Options
	limits   limits
	failures chan *RefusedError
	joined   chan struct{} // closed at the first WELCOME
	stopped  chan struct{} // closed when no goroutine of the client is left
	life     context.Context
	endLife  context.CancelFunc

	mu                     sync.Mutex
	name, sessionID, token string
	isClosing              bool
	ended                  error
	lost                   error // why the last connection ended
	link                   *link // the present connection
	frameBytes             int
	heartbeat              time.Duration
	notBefore              time.Duration // the wait that BYE has asked for
	outbox                 outbox
	inbox                  inbox
	calls                  int               // that wait for the daemon
	patterns               map[string]bool   // of subscriptions
	unanswered             map[string]string // patterns that the session possibly lacks, by SUBSCRIBE's id
	arrived, room          broadcast         // Receive has something to handle; the reader may continue
}

// broadcast wakes all goroutines that wait. Client.mu guards it.
type broadcast struct{ channel chan struct{} }

func (b *broadcast) wait() <-chan struct{} {
	if b.channel == nil {
		b.channel = make(chan struct{})
	}
	return b.channel
}

func (b *broadcast) wake() {
	if b.channel != nil {
		close(b.channel)
		b.channel = nil
	}
}

// Connect joins the daemon. It returns an *EndedError if the attempts are used up or would fail
// again. The context ends the joining only, not the client.
func Connect(ctx context.Context, options Options) (*Client, error) {
	return connect(ctx, options, usual)
}

func connect(ctx context.Context, options Options, limits limits) (*Client, error) {
	c := &Client{
		options: options, limits: limits, name: options.Name,
		failures: make(chan *RefusedError, failuresMax),
		joined:   make(chan struct{}), stopped: make(chan struct{}),
		frameBytes: frameBytesDefault, heartbeat: 5 * time.Second,
		outbox: newOutbox(), inbox: newInbox(),
		patterns: map[string]bool{}, unanswered: map[string]string{},
	}
	c.life, c.endLife = context.WithCancel(context.Background())
	go c.run()
	select {
	case <-c.joined:
		return c, nil
	case <-c.stopped:
		return nil, c.ended
	case <-ctx.Done():
	}
	c.Close()
	message := ctx.Err().Error()
	if c.lost != nil {
		message = messageOf(c.lost)
	}
	return nil, &EndedError{codeOf(c.lost), message, ctx.Err()}
}

// Format prints the client without its key and token, whatever the verb.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "relay.Client(%q)", c.Name()) }

// Name returns the agent's name, as the daemon knows it.
func (c *Client) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// SessionID returns the id of the session: the same after a lost connection if the session was
// resumed.
func (c *Client) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessionID
}

// Failures returns a channel with the failures that no call returns: an accepted message that did not
// arrive (EXPIRED, REFUSED, GAVE_UP), a refused at-most-once message, messages that were possibly lost
// with a connection (STALE, RESUME_REJECTED), and lost subscriptions (LIMIT). It keeps the last 1,024,
// and is closed when the client ends.
func (c *Client) Failures() <-chan *RefusedError { return c.failures }

// Receive waits for the next message. After Close it returns ErrClosed, also to calls that wait.
func (c *Client) Receive(ctx context.Context) (*Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if c.isClosing {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		if m := c.inbox.pop(); m != nil {
			c.room.wake()
			c.mu.Unlock()
			return m, nil
		}
		ended, arrived := c.ended, c.arrived.wait()
		c.mu.Unlock()
		if ended != nil {
			return nil, ended
		}
		select {
		case <-arrived:
		case <-ctx.Done():
		}
	}
}

// Send sends a message. It returns once the daemon has stored it, or once an at-most-once message is
// written to a connection. If the context ends before, it is not known whether the daemon has the
// message. Messages that one goroutine sends at least once to one agent on one topic arrive in order.
func (c *Client) Send(ctx context.Context, m Outgoing) (*Receipt, error) {
	id := newID()
	frame, err := m.encode(id, nil)
	if err != nil {
		return nil, err
	}
	r := &request{id: id, frame: frame, awaits: accepted, to: m.target()}
	if m.AtMostOnce {
		r.awaits = written
	}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return &Receipt{
		ID: id, Durability: r.ack.text("durability", 64), Away: r.ack.is("away"),
		Recipients: int(r.ack.integer("recipients", 0)),
	}, nil
}

// Ask asks a question, and waits for the answer until the context ends, at most an hour; without a
// deadline, for 30 s. An error that says that there was none is context.DeadlineExceeded.
func (c *Client) Ask(ctx context.Context, question Outgoing) (*Answer, error) {
	if _, ok := ctx.Deadline(); !ok {
		within, cancel := context.WithTimeout(ctx, questionDefault)
		defer cancel()
		ctx = within
	}
	deadline, _ := ctx.Deadline()
	wait := clamp(time.Until(deadline), time.Millisecond, questionMax)
	id, correlation := newID(), newID()
	sync := map[string]any{"correlationId": correlation, "timeoutMs": wait.Milliseconds(), "blocking": true}
	frame, err := question.encode(id, sync)
	if err != nil {
		return nil, err
	}
	r := &request{id: id, frame: frame, awaits: answered, to: question.target(), correlation: correlation}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return r.answer, nil
}

// Subscribe subscribes to the topics that match a pattern, until Unsubscribe or Close.
func (c *Client) Subscribe(ctx context.Context, pattern string) error {
	return c.change(ctx, "SUBSCRIBE", pattern)
}

// Unsubscribe ends the subscription with this pattern.
func (c *Client) Unsubscribe(ctx context.Context, pattern string) error {
	c.mu.Lock()
	delete(c.patterns, pattern)
	c.mu.Unlock()
	return c.change(ctx, "UNSUBSCRIBE", pattern)
}

func (c *Client) change(ctx context.Context, kind, pattern string) error {
	id := newID()
	frame, err := encode(kind, id, object{}, map[string]any{"topic": pattern})
	if err != nil {
		return err
	}
	r := &request{id: id, frame: frame, awaits: accepted}
	if kind == "SUBSCRIBE" {
		r.pattern = pattern
	}
	return c.do(ctx, r)
}

// Request asks the daemon, as docs/RELAY-API.md describes, and returns the `data` of its response.
// A nil `data` is left out. After a lost connection, the request is sent again.
func (c *Client) Request(ctx context.Context, name string, data any) (json.RawMessage, error) {
	id := newID()
	payload := map[string]any{"kind": "request", "body": name}
	if data != nil {
		payload["data"] = data
	}
	frame, err := encode("SEND", id, payload, map[string]any{"to": "@relay"})
	if err != nil {
		return nil, err
	}
	r := &request{id: id, frame: frame, awaits: response, to: "@relay"}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return r.response, nil
}

// Close leaves: it writes the acknowledgements, sends BYE, and waits until the client's goroutines
// have ended, for 2 s at most if the daemon hangs. Unacknowledged messages wait in the daemon for
// the next client of this name. Calls of other goroutines return ErrClosed. It always returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if link := c.link; !c.isClosing && link != nil {
		if link.isReady {
			c.put("BYE", newID(), map[string]any{"reason": "done"}, "")
			hangUp := time.AfterFunc(closeWait, func() { link.fail(ErrClosed) })
			defer hangUp.Stop()
		} else {
			link.fail(ErrClosed)
		}
	}
	c.isClosing = true
	c.room.wake()
	c.mu.Unlock()
	c.endLife()
	<-c.stopped
	return nil
}

var _ io.Closer = (*Client)(nil)

// do sends a request, and waits until it is finished.
func (c *Client) do(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.done = make(chan struct{})
	c.mu.Lock()
	if err := c.admit(r); err != nil {
		c.mu.Unlock()
		return err
	}
	c.outbox.add(r)
	c.calls++
	c.wakeWriter()
	c.room.wake()
	c.mu.Unlock()

	select {
	case <-r.done:
	case <-ctx.Done():
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if !r.isReturned {
		c.outbox.remove(r)
		return fmt.Errorf("relay: the daemon has not answered in time: %w", ctx.Err())
	}
	return r.err
}

// admit returns why a request cannot be sent.
func (c *Client) admit(r *request) error {
	switch {
	case c.isClosing:
		return ErrClosed
	case c.ended != nil:
		return c.ended
	case c.inbox.isFull(&c.limits, 4):
		return ErrUnread
	case len(r.frame)-4 > c.frameBytes:
		return tooLarge(r.id, c.frameBytes)
	}
	return nil
}

func tooLarge(id string, frameBytes int) error {
	return &RefusedError{CodeTooLarge, fmt.Sprintf("it exceeds the daemon's limit of %d bytes", frameBytes), "", id}
}

// settle acknowledges or returns a message, unless it was acknowledged before. Without a frame, an
// answer has acknowledged it.
func (c *Client) settle(m *Message, frame []byte, isAck bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inbox.settled.has(m.ID) {
		return nil
	}
	switch {
	case c.isClosing:
		return ErrClosed
	case c.ended != nil:
		return c.ended
	case len(frame)-4 > c.frameBytes:
		return tooLarge(m.ID, c.frameBytes)
	}
	c.inbox.open.remove(m.ID)
	if isAck {
		c.inbox.settled.put(m.ID, struct{}{})
	}
	if frame != nil && c.link != nil && c.link.isReady { // Otherwise the message comes again.
		c.putFrame(frame)
	}
	return nil
}

// backOff returns a wait that doubles each time, give or take 15 %.
func backOff(first time.Duration, times int) time.Duration {
	wait := first
	for ; times > 0 && wait < waitMax; times-- {
		wait *= 2
	}
	chance := []byte{128}
	rand.Read(chance) // Without chance, the wait is still a wait.
	return time.Duration(float64(clamp(wait, time.Millisecond, waitMax)) * (0.85 + 0.3*float64(chance[0])/255))
}

// sortedPatterns returns the patterns in an order that does not change.
func (c *Client) sortedPatterns() []string {
	patterns := make([]string, 0, len(c.patterns))
	for pattern := range c.patterns {
		patterns = append(patterns, pattern)
	}
	sort.Strings(patterns)
	return patterns
}
