package relay

import (
	"container/list"
	"encoding/json"
	"time"
)

// awaited is the event that ends a request.
type awaited int

const (
	written  awaited = iota // to a connection
	accepted                // by the daemon
	answered                // by an agent
	response                // from @relay
)

// request is an envelope that the client sends until its event comes, also over later connections.
// Client.mu guards the fields, except those of the first group, which never change.
type request struct {
	id          string
	frame       []byte
	awaits      awaited
	to          string // of a SEND: the recipient in lower case, or `*`
	correlation string // of a question
	pattern     string // of a SUBSCRIBE
	until       time.Time

	isWritten  bool // to the present connection
	isReturned bool // The caller no longer waits; BUSY may still come.
	busy       int  // BUSY answers on the present connection
	retryAt    time.Time

	done     chan struct{} // closed once the fields below are set
	err      error
	ack      object
	answer   *Answer
	response json.RawMessage
}

// lane returns the key of the requests that keep their order: those to one recipient.
func (r *request) lane() string {
	if r.to != "" {
		return r.to
	}
	return r.id
}

func newOutbox() outbox { return outbox{byID: map[string]*list.Element{}} }

// outbox holds the open requests in order. Client.mu guards it.
type outbox struct {
	order list.List // of requests
	byID  map[string]*list.Element
	busy  int // returned requests that wait after BUSY
}

func (o *outbox) get(id string) *request {
	if at, ok := o.byID[id]; ok {
		return at.Value.(*request)
	}
	return nil
}

func (o *outbox) add(r *request) { o.byID[r.id] = o.order.PushBack(r) }

func (o *outbox) remove(r *request) {
	at, ok := o.byID[r.id]
	if !ok {
		return
	}
	if r.isReturned && !r.isWritten && r.busy > 0 {
		o.busy--
	}
	o.order.Remove(at)
	delete(o.byID, r.id)
}

// finish ends the wait of a request's caller.
func (o *outbox) finish(r *request, err error) {
	if r.isReturned {
		return
	}
	r.err = err
	close(r.done)
	r.isReturned = true
	if r.awaits != written || err != nil {
		o.remove(r)
	}
}

// finishAll ends all waits.
func (o *outbox) finishAll(err error) {
	for at := o.order.Front(); at != nil; {
		r := at.Value.(*request)
		at = at.Next()
		o.finish(r, err)
	}
}

// disconnected makes the requests be written again, except at-most-once messages that were written
// and are possibly lost.
func (o *outbox) disconnected(now time.Time) {
	for at := o.order.Front(); at != nil; {
		r := at.Value.(*request)
		at = at.Next()
		if r.isReturned && !now.Before(r.until) {
			o.remove(r)
		}
		r.isWritten, r.busy, r.retryAt = false, 0, time.Time{}
	}
	o.busy = 0
}

// delay makes a request wait after BUSY.
func (o *outbox) delay(r *request, first time.Duration, now time.Time) {
	if !r.isWritten {
		return // BUSY came twice.
	}
	if r.isReturned {
		o.busy++
	}
	r.isWritten, r.retryAt = false, now.Add(backOff(first, r.busy))
	r.busy++
}

// take appends the frames that are due, and returns when to call it again at the latest; the zero
// time if nothing waits for a time.
func (o *outbox) take(frames []byte, now time.Time) ([]byte, time.Time) {
	var wakeAt time.Time
	blocked := map[string]bool{}
	for at := o.order.Front(); at != nil; at = at.Next() {
		r := at.Value.(*request)
		switch {
		case r.isWritten:
		case blocked[r.lane()]:
		case r.retryAt.After(now):
			blocked[r.lane()] = true
			if wakeAt.IsZero() || r.retryAt.Before(wakeAt) {
				wakeAt = r.retryAt
			}
		case r.awaits == written && !r.isReturned && o.busy >= recentMax:
			blocked[r.lane()] = true // Those that wait after BUSY have no caller: they are bounded.
		case len(frames) > 0 && len(frames)+len(r.frame) > batchBytes:
			return frames, now
		default:
			frames = append(frames, r.frame...)
			if r.isReturned && r.busy > 0 {
				o.busy--
			}
			r.isWritten = true
			if r.awaits == written {
				o.finish(r, nil)
			}
		}
		if r.busy > 0 && r.awaits != written {
			blocked[r.lane()] = true // Until it is accepted, no later message may overtake it.
		}
	}
	o.forget()
	return frames, wakeAt
}

// forget removes the oldest at-most-once messages and answers that have been written. The others are
// kept, since BUSY may follow, or the answer may have to be written to the next connection.
func (o *outbox) forget() {
	count, bytes := 0, 0
	for at := o.order.Back(); at != nil; {
		r := at.Value.(*request)
		at = at.Prev()
		if r.awaits != written || !r.isWritten {
			continue
		}
		if count, bytes = count+1, bytes+len(r.frame); count > recentMax || bytes > recentBytes {
			o.remove(r)
		}
	}
}
