package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Outgoing is a message to send.
type Outgoing struct {
	// To is the recipient's name, or `*` for every connected agent. With Topic and without To, or
	// with `*`, the message goes to all subscribers of the topic.
	To    string
	Topic string
	Body  string
	// Data is further data: any value that encoding/json can encode.
	Data any
	// Thread is a label for a conversation, by custom of at most 256 bytes.
	Thread string
	// Kind is "message" if it is empty.
	Kind string
	// TTL is how long the message may wait for its recipient; 0 means the daemon's default, 24 hours.
	TTL time.Duration
	// Meta has further members of `payload_meta`, such as `replyTo` and `importance`.
	Meta map[string]any
	// AtMostOnce sends the message without an acknowledgement: it can be lost, often without notice.
	AtMostOnce bool
}

// encode returns a SEND. With `sync`, it is a question.
func (m *Outgoing) encode(id string, sync map[string]any) ([]byte, error) {
	for name, text := range map[string]string{
		"To": m.To, "Topic": m.Topic, "Body": m.Body, "Thread": m.Thread, "Kind": m.Kind} {
		if !utf8.ValidString(text) {
			return nil, &RefusedError{CodeInvalid, name + " is not UTF-8", "", id}
		}
	}
	payload := map[string]any{"kind": "message", "body": m.Body}
	meta := map[string]any{}
	for name, value := range m.Meta {
		meta[name] = value
	}
	if m.Kind != "" {
		payload["kind"] = m.Kind
	}
	if m.Data != nil {
		payload["data"] = m.Data
	}
	if m.Thread != "" {
		payload["thread"] = m.Thread
	}
	if m.TTL != 0 {
		meta["ttl_ms"] = m.TTL.Milliseconds()
	}
	if sync != nil {
		meta["sync"] = sync
	}
	if sync != nil || !m.AtMostOnce {
		meta["requires_ack"] = true
	}
	members := map[string]any{"to": m.To, "topic": m.Topic}
	if len(meta) > 0 {
		members["payload_meta"] = meta
	}
	return encode("SEND", id, payload, members)
}

// target returns the recipient in lower case, or `*`.
func (m *Outgoing) target() string {
	if m.To == "" {
		return "*"
	}
	return strings.ToLower(m.To)
}

// Receipt says that the daemon has accepted a message.
type Receipt struct {
	// ID is the message's id. A RefusedError about it has the same ID. All else is empty for an
	// at-most-once message.
	ID string
	// Durability is the worst event that the message survives: "disk" a power failure, "process" the
	// daemon's end.
	Durability string
	// Recipients is the number of recipients of a broadcast.
	Recipients int
	// Away says that the recipient is not connected: the message waits for it.
	Away bool
}

// Answer is an agent's answer to a question.
type Answer struct {
	// From is the agent that has answered.
	From string
	// Body is the member `body` of Data, if that is a text.
	Body string
	// Response is true unless the agent has answered with [Message.AnswerNo].
	Response bool
	// Data is the data of the agent's answer, byte for byte.
	Data json.RawMessage
}

// Message is a received message. With RequiresAck, it comes again, to the next client of this name at
// the latest, until [Message.Ack], [Message.Nack] or [Message.Answer] is called.
type Message struct {
	// ID is the delivery's id. A redelivered message has the same id.
	ID string
	// From is the sender's name, which the daemon has set, and Auth how the sender got it: "claim",
	// "token", "key", "companion", "guest", "operator" or "bridge".
	From string
	Auth string
	// To is this agent's name.
	To    string
	Topic string
	Kind  string
	// Body is another agent's text: escape control characters before a terminal shows it. Half a
	// surrogate pair becomes U+FFFD; Payload has the original.
	Body   string
	Thread string
	// Data is the member `data` of the payload; Payload and Meta are the whole `payload` and
	// `payload_meta`, as their bytes came.
	Data    json.RawMessage
	Payload json.RawMessage
	Meta    json.RawMessage
	// Seq is the message's number in its stream: the messages of one agent to another on one topic.
	Seq int64
	// Attempt is above 1 if the message was delivered, and possibly received, before.
	Attempt int
	// RequiresAck says that the message has to be acknowledged, returned or answered.
	RequiresAck bool
	// Broadcast says that the message was sent to everyone or to a topic.
	Broadcast bool
	// Question is not empty if the sender waits for an answer, as long as QuestionTimeout since the
	// message was accepted.
	Question        string
	QuestionTimeout time.Duration

	client *Client
	size   int
}

func newMessage(c *Client, e *envelope) *Message {
	sync := parseObject(e.metaText).object("sync")
	_, isBroadcast := e.delivery["originalTo"]
	return &Message{
		ID: e.id, From: e.from, To: e.to, Topic: e.topic,
		Auth:        e.delivery.object("sender").text("auth", 64),
		Kind:        e.payload.text("kind", e.size),
		Body:        e.payload.text("body", e.size),
		Thread:      e.payload.text("thread", e.size),
		Data:        e.payload["data"],
		Payload:     e.payloadText,
		Meta:        e.metaText,
		Seq:         e.delivery.integer("seq", 0),
		Attempt:     int(e.delivery.integer("attempt", 1)),
		RequiresAck: e.delivery.is("requires_ack"),
		Broadcast:   isBroadcast,
		Question:    sync.text("correlationId", 256),

		QuestionTimeout: sync.milliseconds("timeoutMs", questionDefault, 0, questionMax),
		client:          c, size: e.size,
	}
}

// Ack acknowledges the message: it is stored or processed here, and the daemon forgets it. While the
// client is disconnected, the acknowledgement follows when the daemon delivers the message again.
func (m *Message) Ack() error {
	return m.settle("ACK", true, map[string]any{"seq": m.Seq})
}

// Nack returns the message to its sender, which gets the first 200 characters of the reason.
func (m *Message) Nack(reason string) error {
	return m.settle("NACK", false, map[string]any{"code": CodeRefused, "message": reason})
}

// NackWithDelay makes the message come again after a time. The tenth time it is given up.
func (m *Message) NackWithDelay(reason string, delay time.Duration) error {
	return m.settle("NACK", false, map[string]any{
		"code": CodeRefused, "message": reason, "retry_after_ms": delay.Milliseconds()})
}

func (m *Message) settle(kind string, isAck bool, payload map[string]any) error {
	payload["ack_id"] = m.ID
	frame, err := encode(kind, newID(), payload, nil)
	if err != nil {
		return err
	}
	return m.client.settle(m, frame, isAck)
}

// Answer answers a question and acknowledges it. A text is sent as `{"body": text}`, anything else as
// encoding/json encodes it. It returns once the answer is written to a connection; should that end,
// the next one gets the answer again while the question waits. An answer may follow an Ack.
func (m *Message) Answer(ctx context.Context, data any) error { return m.answer(ctx, data, true) }

// AnswerNo is like Answer, but the asking agent gets an Answer whose Response is false.
func (m *Message) AnswerNo(ctx context.Context, data any) error { return m.answer(ctx, data, false) }

func (m *Message) answer(ctx context.Context, data any, yes bool) error {
	if m.Question == "" {
		return errors.New("relay: the message is no question: use Ack")
	}
	if text, ok := data.(string); ok {
		data = map[string]string{"body": text}
	}
	id := newID()
	frame, err := encode("ACK", id, map[string]any{
		"ack_id": m.ID, "seq": m.Seq, "correlationId": m.Question, "response": yes, "responseData": data}, nil)
	if err != nil {
		return err
	}
	r := &request{id: id, frame: frame, awaits: written, until: time.Now().Add(m.QuestionTimeout)}
	if err := m.client.do(ctx, r); err != nil {
		return err
	}
	return m.client.settle(m, nil, true)
}

// String describes the message without its content.
func (m *Message) String() string { return fmt.Sprintf("message %q from %q", m.ID, m.From) }
