package relay

import (
	"errors"
	"fmt"
	"time"
)

// handle handles an envelope from the daemon. An error ends the connection; an *EndedError, the client.
func (c *Client) handle(l *link, e *envelope) error {
	code, message := Code(e.payload.text("code", 64)), e.payload.text("message", 4096)
	switch {
	case e.kind == "PING":
		c.put("PONG", newID(), map[string]any{"nonce": e.payload.text("nonce", 1024)}, "")
	case e.kind == "BYE":
		c.notBefore = e.payload.milliseconds("retry_after_ms", 0, 0, 24*time.Hour)
		return errors.New("the daemon left: " + e.payload.text("reason", 1024))
	case e.kind == "ERROR" && e.payload.is("fatal"):
		if code.isTemporary() {
			return &RefusedError{Code: code, Message: message}
		}
		return &EndedError{Code: code, Message: message}
	case !l.isReady:
		return c.handshake(l, e)
	case e.kind == "DELIVER":
		c.deliver(e)
	case e.kind == "ACK":
		c.acknowledged(e)
	case e.kind == "BUSY":
		if r := c.outbox.get(about(e)); r != nil {
			first := e.payload.milliseconds("retry_after_ms", 50*time.Millisecond, time.Millisecond, waitMax)
			c.outbox.delay(r, first, time.Now())
			c.wakeWriter()
		}
	case e.kind == "NACK" || e.kind == "ERROR":
		c.refused(e, refusal(e))
	}
	return nil
}

// about returns the id of the envelope that an answer is about.
func about(e *envelope) string {
	if id := e.payload.text("ack_id", 128); id != "" {
		return id
	}
	return e.payload.text("ref", 128)
}

func refusal(e *envelope) *RefusedError {
	refused := &RefusedError{
		Code: Code(e.payload.text("code", 64)), Message: e.payload.text("message", 4096),
		To: e.payload.text("to", 128), ID: about(e),
	}
	if refused.Code == "" {
		refused.Code = Code(e.kind)
	}
	return refused
}

// fail adds a failure that no call returns. The oldest makes room.
func (c *Client) fail(refused *RefusedError) {
	for {
		select {
		case c.failures <- refused:
			return
		default:
		}
		select {
		case <-c.failures:
		default:
		}
	}
}

// handshake handles an envelope before the connection is ready.
func (c *Client) handshake(l *link, e *envelope) error {
	switch e.kind {
	case "WELCOME":
		return c.welcome(l, e)
	case "ERROR", "NACK":
		refused := refusal(e)
		if refused.Code == CodeResumeRejected {
			c.token = ""
		}
		l.whenSilent = refused
		switch {
		case l.isResuming:
			l.isResuming = false
			c.inbox.positions = newRecent[stream, int64](streamsMax)
			c.fail(refused)
			c.greet()
		case e.kind == "ERROR" && refused.Code == CodeInvalid:
			return &EndedError{Code: CodeInvalid, Message: refused.Message} // It would repeat.
		}
	default:
		return fmt.Errorf("the daemon sent %q before WELCOME", e.kind)
	}
	return nil
}

func (c *Client) welcome(l *link, e *envelope) error {
	server := e.payload.object("server")
	sessionID := e.payload.text("session_id", 128)
	if sessionID == "" {
		return errors.New("the daemon sent a WELCOME without session_id")
	}
	isSame := c.sessionID == sessionID
	isFirst := c.sessionID == ""
	c.name, c.sessionID = e.payload.text("agent", 128), sessionID
	c.token = e.payload.text("resume_token", 1024)
	c.frameBytes = frameBytesDefault
	if most := server.integer("max_frame_bytes", frameBytesDefault); most > 0 {
		c.frameBytes = frameBytesBound
		if most < frameBytesBound {
			c.frameBytes = int(most)
		}
	}
	c.heartbeat = server.milliseconds("heartbeat_ms", 5*time.Second, 100*time.Millisecond, time.Hour)
	l.isReady, l.readySince = true, time.Now()
	l.whenSilent = errors.New("the daemon is silent")
	if !isSame {
		c.inbox.positions = newRecent[stream, int64](streamsMax)
	}
	if len(c.unanswered) > 0 || !isSame {
		c.unanswered = map[string]string{}
		for _, pattern := range c.sortedPatterns() {
			id := newID()
			c.unanswered[id] = pattern
			c.put("SUBSCRIBE", id, object{}, pattern)
		}
	}
	if isFirst {
		close(c.joined)
	}
	c.wakeWriter()
	return nil
}

// deliver queues a message, or finishes the request that it answers.
func (c *Client) deliver(e *envelope) {
	if e.from == "@relay" && e.payload.text("kind", 16) == "response" {
		r := c.outbox.get(parseObject(e.metaText).text("replyTo", 128))
		if r != nil && r.awaits == response {
			r.response = e.payload["data"]
			c.outbox.finish(r, nil)
		}
		return // A late response without a waiting call is not a message.
	}
	m := newMessage(c, e)
	if m.RequiresAck && c.inbox.settled.has(m.ID) {
		c.put("ACK", newID(), map[string]any{"ack_id": m.ID, "seq": m.Seq}, "")
	} else if !c.isClosing {
		c.inbox.add(m)
		c.arrived.wake()
		if c.inbox.isFull(&c.limits, 4) {
			c.outbox.finishAll(ErrUnread)
		}
	}
	if m.From != "@relay" {
		c.inbox.note(m.From, m.Topic, m.Seq)
	}
}

// acknowledged handles the daemon's ACK of a message, a subscription or a question.
func (c *Client) acknowledged(e *envelope) {
	id := about(e)
	delete(c.unanswered, id)
	r := c.outbox.get(id)
	if r == nil {
		return
	}
	if r.awaits != written {
		r.busy = 0
	}
	switch {
	case r.awaits == accepted:
		r.ack = e.payload
		if r.pattern != "" {
			c.patterns[r.pattern] = true
		}
		c.outbox.finish(r, nil)
	case r.awaits == answered && e.payload.text("correlationId", 256) == r.correlation:
		data := e.payload["responseData"]
		_, isSaid := e.payload["response"]
		r.answer = &Answer{
			From: e.from, Body: parseObject(data).text("body", len(data)), Data: data,
			Response: !isSaid || e.payload.is("response"),
		}
		c.outbox.finish(r, nil)
	}
	c.wakeWriter() // Messages that must not overtake this one may follow.
}

// refused handles a NACK, or an ERROR that is not fatal.
func (c *Client) refused(e *envelope, refused *RefusedError) {
	delete(c.unanswered, refused.ID)
	if !c.inbox.isNewOutcome(e.id, refused.ID) {
		return
	}
	r := c.outbox.get(refused.ID)
	_, isAnswer := e.payload["correlationId"]
	isOfSeveral := r != nil && refused.To != "" && r.to == "*" && !isAnswer
	switch {
	case r != nil && !r.isReturned && !isOfSeveral:
		c.outbox.finish(r, refused)
		c.wakeWriter()
	case refused.Code != CodeSyncTimeout:
		c.fail(refused)
	}
}
