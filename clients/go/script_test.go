//go:build unix

package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// side is the daemon's side of a connection to a scripted daemon. Its methods panic if the client does
// not do as it should; the script then fails.
type side struct{ conn net.Conn }

// frame is an envelope that the client has sent; its kind is "" after the last one.
type frame struct {
	kind, id, topic string
	payload         object
	text            []byte
}

func (s *side) read() frame {
	var head [4]byte
	if _, err := readFull(s.conn, head[:]); err != nil {
		must(!errors.Is(err, os.ErrDeadlineExceeded), "the client neither sends nor leaves")
		return frame{}
	}
	text := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := readFull(s.conn, text); err != nil {
		return frame{}
	}
	of := parseObject(text)
	return frame{of.text("type", 99), of.text("id", 999), of.text("topic", 999), of.object("payload"), text}
}

func readFull(conn net.Conn, into []byte) (int, error) {
	for read := 0; read < len(into); {
		count, err := conn.Read(into[read:])
		if read += count; err != nil {
			return read, err
		}
	}
	return len(into), nil
}

// expect reads up to the next envelope of a kind.
func (s *side) expect(kind string) frame {
	for {
		f := s.read()
		if f.kind == kind {
			return f
		}
		if f.kind == "" {
			panic("the client left before " + kind)
		}
	}
}

// untilEnd reads until the client has left.
func (s *side) untilEnd() {
	for kind := s.read().kind; kind != "" && kind != "BYE"; kind = s.read().kind {
	}
}

func (s *side) send(data []byte) {
	if _, err := s.conn.Write(data); err != nil {
		panic(err)
	}
}

type members = map[string]any

// of returns a frame. Members of the payload are names and values in turn.
func of(kind, id string, payload members, others members) []byte {
	if id == "" {
		id = newID()
	}
	data, err := encode(kind, id, payload, others)
	if err != nil {
		panic(err)
	}
	return data
}

func (s *side) write(kind string, payload members) { s.send(of(kind, "", payload, nil)) }

// fence returns once the client has handled everything sent to it.
func (s *side) fence() {
	nonce := newID()
	s.write("PING", members{"nonce": nonce})
	for s.expect("PONG").payload.text("nonce", 99) != nonce {
	}
}

// welcome reads HELLO or RESUME, and answers it.
func (s *side) welcome(session string, server members) frame {
	greeting := s.read()
	s.write("WELCOME", members{
		"session_id": session, "resume_token": "token of " + session, "agent": "Ann", "server": server})
	return greeting
}

func delivery(id string, seq int, ack bool) []byte {
	return of("DELIVER", id, members{"kind": "message", "body": id}, members{
		"from": "Bob", "to": "Ann", "delivery": members{"seq": seq, "requires_ack": ack}})
}

func question(id string) []byte {
	sync := members{"correlationId": "c", "timeoutMs": 60000}
	return of("DELIVER", id, members{"body": "?"}, members{
		"from": "Bob", "to": "Ann", "delivery": members{"seq": 1, "requires_ack": true},
		"payload_meta": members{"sync": sync}})
}

func (s *side) accept(f frame) { s.write("ACK", members{"ack_id": f.id, "state": "accepted"}) }

func (s *side) busy(f frame, ms int) {
	s.write("BUSY", members{"ack_id": f.id, "retry_after_ms": ms, "queue_depth": 1})
}

func must(isRight bool, otherwise ...any) {
	if !isRight {
		panic(fmt.Sprint(otherwise...))
	}
}

func same[T comparable](found, wanted T) { must(found == wanted, found, ", and not ", wanted) }

// script is a scripted daemon.
type script struct {
	t        *testing.T
	endpoint string
	finished func() error
}

// play plays one function for each connection, in order.
func play(t *testing.T, steps ...func(*side)) *script {
	t.Helper()
	folder, err := os.MkdirTemp("", "relay")
	ok(t, err)
	s := &script{t: t, endpoint: filepath.Join(folder, "s")}
	listener, err := net.Listen("unix", s.endpoint)
	ok(t, err)
	s.finished = start(func() error {
		for _, step := range steps {
			if err := playStep(listener, step); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() {
		listener.Close()
		os.RemoveAll(folder)
	})
	return s
}

func playStep(listener net.Listener, step func(*side)) (failed error) {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	defer func() {
		if found := recover(); found != nil {
			failed = fmt.Errorf("the script: %v", found)
		}
	}()
	step(&side{conn})
	return nil
}

// finish waits until the script is played.
func (s *script) finish() {
	s.t.Helper()
	ok(s.t, s.finished())
}

// quick has no waits that matter.
func quick() limits {
	quick := usual
	quick.firstWait = time.Millisecond
	return quick
}

func TestConnectionCutWithinAFrameIsResumed(t *testing.T) {
	ctx := testContext(t)
	var hello, resume frame
	s := play(t, func(d *side) {
		hello = d.welcome("s-1", nil)
		d.send(append(delivery("d-1", 1, true), delivery("d-2", 2, false)...))
		same(d.expect("ACK").payload.text("ack_id", 9), "d-1")
		same(d.expect("ACK").payload.text("ack_id", 9), "d-2") // not needed, and allowed
		d.send(delivery("d-3", 3, true)[:50])
	}, func(d *side) {
		resume = d.welcome("s-1", nil)
		d.write("SYNC", members{"session_id": "s-1", "streams": []any{}})
		d.send(delivery("d-1", 1, true))
		d.send(delivery("d-2", 2, false))
		d.send(delivery("d-3", 3, true))
		same(d.expect("ACK").payload.text("ack_id", 9), "d-1") // once more
		ack := d.expect("ACK").payload
		same(ack.text("ack_id", 9)+strconv.Itoa(int(ack.integer("seq", 0))), "d-33")
		d.expect("BYE")
	})
	ann := join(t, ctx, s.endpoint, Options{})
	for _, id := range []string{"d-1", "d-2", "d-3"} {
		m := receive(t, ctx, ann)
		equal(t, m.ID, id)
		ok(t, m.Ack())
		ok(t, m.Ack())
	}
	ok(t, ann.Close())
	s.finish()
	equal(t, string(hello.payload["capabilities"]), `{"max_inflight":256,"resume":true}`)
	equal(t, resume.kind+resume.payload.text("resume_token", 99), "RESUMEtoken of s-1")
	equal(t, string(resume.payload["streams"]), `[{"last_seq":2,"peer":"Bob","topic":""}]`)
}

func TestUnreadMessagesThatComeAgainAreDropped(t *testing.T) {
	ctx := testContext(t)
	deliver := func(d *side) {
		d.welcome("s-1", nil)
		d.send(delivery("d-1", 1, true))
		d.send(delivery("d-2", 2, false))
		d.fence()
	}
	s := play(t, deliver, func(d *side) {
		deliver(d)
		d.send(delivery("d-3", 3, true))
		d.untilEnd()
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	for _, id := range []string{"d-1", "d-2", "d-3"} {
		equal(t, receive(t, ctx, ann).ID, id)
	}
	ok(t, ann.Close())
	s.finish()
}

func TestReturnedMessageComesAgain(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.send(delivery("d-1", 1, true))
		nack := d.expect("NACK").payload
		same(nack.text("ack_id", 9)+string(nack["retry_after_ms"]), "d-12000")
		d.send(delivery("d-1", 1, true))
		same(d.expect("ACK").payload.text("ack_id", 9), "d-1")
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	ok(t, receive(t, ctx, ann).NackWithDelay("later", 2*time.Second))
	ok(t, receive(t, ctx, ann).Ack())
	ok(t, ann.Close())
	s.finish()
}

func TestWrittenAtMostOnceMessagesAreNotSentAgain(t *testing.T) {
	ctx := testContext(t)
	sent := make(chan struct{})
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		<-sent
	}, func(d *side) {
		d.welcome("s-1", nil)
		d.write("PING", members{"nonce": "1"})
		same(d.read().kind, "PONG")
		d.write("PING", members{"nonce": "2"})
		same(d.read().kind, "PONG")
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	for number := 0; number < recentMax+10; number++ {
		_, err := ann.Send(ctx, Outgoing{To: "Bob", AtMostOnce: true})
		ok(t, err)
	}
	ann.mu.Lock()
	held := ann.outbox.order.Len()
	ann.mu.Unlock()
	if held > recentMax {
		t.Fatalf("%d messages are held", held)
	}
	close(sent)
	s.finish()
}

func TestUnansweredSendIsSentAgainUnchanged(t *testing.T) {
	ctx := testContext(t)
	var frames []string
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		frames = append(frames, string(d.expect("SEND").text))
	}, func(d *side) {
		d.welcome("s-1", nil)
		send := d.expect("SEND")
		frames = append(frames, string(send.text))
		for range [2]int{} {
			d.busy(send, 1)
			frames = append(frames, string(d.expect("SEND").text))
		}
		d.accept(send)
		d.expect("BYE")
	})
	ann := join(t, ctx, s.endpoint, Options{})
	_, err := ann.Send(ctx, Outgoing{To: "Bob", Body: "once <&> \u2028"})
	ok(t, err)
	ok(t, ann.Close())
	s.finish()
	equal(t, len(frames), 4)
	for _, frame := range frames {
		equal(t, frame, frames[0])
	}
}

func TestLaterMessageWaitsForABusyOne(t *testing.T) {
	ctx := testContext(t)
	var bodies []string
	isBusy := make(chan struct{})
	read := func(d *side) frame {
		send := d.expect("SEND")
		bodies = append(bodies, send.payload.text("body", 99))
		return send
	}
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.busy(read(d), 300)
		d.fence()
		close(isBusy)
		read(d) // to another
		first := read(d)
		d.busy(first, 1) // Written and not answered, it still comes before the second one.
		first = read(d)
		d.fence()
		d.accept(first)
		d.accept(read(d))
		d.expect("BYE")
	})
	ann := join(t, ctx, s.endpoint, Options{})
	send := func(m Outgoing) func() error {
		return start(func() error {
			_, err := ann.Send(ctx, m)
			return err
		})
	}
	first := send(Outgoing{To: "Bob", Body: "first"})
	<-isBusy
	second := send(Outgoing{To: "BOB", Body: "second"})
	ok(t, send(Outgoing{To: "Carl", Body: "to another", AtMostOnce: true})())
	ok(t, first())
	ok(t, second())
	ok(t, ann.Close())
	s.finish()
	equal(t, strings.Join(bodies, ", "), "first, to another, first, first, second")
}

func TestBusyBroadcastHoldsBackBroadcastsOnly(t *testing.T) {
	ctx := testContext(t)
	isBusy := make(chan struct{})
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.send(question("d-1"))
		d.busy(d.expect("SEND"), 60000)
		d.fence()
		close(isBusy)
		d.accept(d.expect("SUBSCRIBE"))
		f := d.read()
		same(f.kind+string(f.payload["responseData"]), `ACK{"body":"yes"}`)
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	_, err := ann.Send(ctx, Outgoing{To: "*", Body: "first", AtMostOnce: true})
	ok(t, err)
	<-isBusy
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = ann.Send(short, Outgoing{Topic: "news", Body: "second", AtMostOnce: true})
	failsWith(t, err, context.DeadlineExceeded)
	ok(t, ann.Subscribe(ctx, "news"))
	ok(t, receive(t, ctx, ann).Answer(ctx, "yes"))
	ok(t, ann.Close())
	s.finish()
}

func TestAtMostOnceMessagesThatWaitAfterBusyAreBounded(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		for f := d.read(); f.kind != "BYE"; f = d.read() {
			d.busy(f, 60000)
		}
	})
	ann := join(t, ctx, s.endpoint, Options{})
	sent := 0
	for isFull := false; !isFull; {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := ann.Send(short, Outgoing{To: fmt.Sprint("agent-", sent), AtMostOnce: true})
		cancel()
		if err == nil {
			sent++
		} else {
			failsWith(t, err, context.DeadlineExceeded)
			isFull = sent >= recentMax
		}
	}
	ann.mu.Lock()
	held := ann.outbox.order.Len()
	ann.mu.Unlock()
	if held > 2*recentMax { // As many have been written, and possibly meet BUSY.
		t.Fatalf("%d messages are held", held)
	}
	ok(t, ann.Close())
	s.finish()
}

func TestAnswerIsSentAgain(t *testing.T) {
	ctx := testContext(t)
	var answers []string
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.send(question("d-1"))
		answers = append(answers, string(d.expect("ACK").text))
	}, func(d *side) {
		d.welcome("s-1", nil)
		answers = append(answers, string(d.expect("ACK").text))
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	ok(t, receive(t, ctx, ann).Answer(ctx, "yes"))
	s.finish()
	equal(t, answers[0], answers[1])
	payload := parseObject([]byte(answers[0])).object("payload")
	equal(t, payload.text("correlationId", 9)+string(payload["responseData"]), `c{"body":"yes"}`)
}

func TestQuestionIsOverWhenTheDaemonSaysSo(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		send := d.expect("SEND")
		d.accept(send)
		d.write("ACK", members{"ack_id": send.id, "correlationId": "of another question", "response": true})
		d.write("NACK", members{"ack_id": send.id, "code": "SYNC_TIMEOUT", "message": "no answer", "correlationId": "c"})
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	_, err := ann.Ask(ctx, Outgoing{To: "Bob"})
	failsWith(t, err, CodeSyncTimeout)
	failsWith(t, err, context.DeadlineExceeded)
	ok(t, ann.Close())
	s.finish()
}

func TestOneRecipientOfSeveralDoesNotEndTheCall(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		send := d.expect("SEND")
		nack := of("NACK", "n-1", members{"ack_id": send.id, "code": "NO_ACK", "message": "why", "to": "Bob"}, nil)
		d.send(nack)
		d.send(nack) // The daemon may repeat it after a crash.
		d.write("ACK", members{"ack_id": send.id, "state": "accepted", "recipients": 1})
		d.write("NACK", members{"ack_id": send.id, "code": "EXPIRED", "message": "why", "to": "Carl"})
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	receipt, err := ann.Send(ctx, Outgoing{To: "*"})
	ok(t, err)
	equal(t, receipt.Recipients, 1)
	for _, wanted := range []string{"NO_ACK Bob ", "EXPIRED Carl "} {
		refused := failure(t, ctx, ann)
		equal(t, string(refused.Code)+" "+refused.To+" "+refused.ID, wanted+receipt.ID)
	}
	ok(t, ann.Close())
	s.finish()
}

func TestFreshSessionIsSubscribedAgain(t *testing.T) {
	ctx := testContext(t)
	var kinds []string
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.accept(d.expect("SUBSCRIBE"))
		d.fence()
	}, func(d *side) {
		kinds = append(kinds, d.read().kind)
		d.write("ERROR", members{"code": "RESUME_REJECTED", "fatal": false, "message": "expired"})
		hello := d.welcome("s-2", nil)
		must(hello.payload["session"] == nil, "the rejected token was shown again")
		kinds = append(kinds, hello.kind)
		d.expect("SUBSCRIBE") // It is lost.
	}, func(d *side) {
		kinds = append(kinds, d.welcome("s-2", nil).kind)
		subscribe := d.read()
		kinds = append(kinds, subscribe.kind+" "+subscribe.topic)
		d.accept(subscribe)
		d.fence()
	}, func(d *side) {
		d.welcome("s-2", nil)
		d.write("PING", members{"nonce": "last"})
		kinds = append(kinds, d.read().kind) // The session has the subscription.
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	ok(t, ann.Subscribe(ctx, "news"))
	s.finish()
	equal(t, strings.Join(kinds, ", "), "RESUME, HELLO, RESUME, SUBSCRIBE news, PONG")
	equal(t, failure(t, ctx, ann).Code, CodeResumeRejected)
}

func TestLongTopicsDoNotMakeResumeTooLarge(t *testing.T) {
	ctx := testContext(t)
	const bytesMax = 1 << 16
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"max_frame_bytes": bytesMax})
		for number := 0; number < 100; number++ {
			topic := fmt.Sprintf("%03d", number) + strings.Repeat("\x01", 242)
			d.send(of("DELIVER", "of "+topic[:3], members{"body": ""}, members{
				"from": "Bob", "topic": topic, "delivery": members{"seq": 7}}))
		}
		d.fence()
	}, func(d *side) {
		resume := d.welcome("s-1", nil)
		same(resume.kind, "RESUME")
		must(len(resume.text) <= bytesMax, len(resume.text))
		var streams []json.RawMessage
		must(json.Unmarshal(resume.payload["streams"], &streams) == nil, "no streams")
		must(len(streams) > 30, len(streams))
		for at, stream := range streams { // the latest
			same(parseObject(stream).text("topic", 3), fmt.Sprintf("%03d", 99-at))
		}
	})
	joinWith(t, ctx, s.endpoint, Options{}, quick())
	s.finish()
}

func TestTooLongRefusalsAndAnswersAreNotSent(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.send(question("d-1"))
		same(string(d.read().payload["responseData"]), `{"body":"yes"}`)
		d.expect("BYE")
	})
	ann := join(t, ctx, s.endpoint, Options{})
	m := receive(t, ctx, ann)
	long := strings.Repeat("x", 2_000_000)
	failsWith(t, m.Nack(long), CodeTooLarge)
	failsWith(t, m.NackWithDelay(long, time.Second), CodeTooLarge)
	failsWith(t, m.Answer(ctx, long), CodeTooLarge)
	ok(t, m.Answer(ctx, "yes"))
	ok(t, ann.Close())
	s.finish()
}

func TestStaleResumeContinuesWithHello(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) { d.welcome("s-1", nil) }, func(d *side) {
		resume := d.read()
		d.write("NACK", members{"ack_id": resume.id, "code": "STALE", "message": "gone"})
		hello := d.welcome("s-1", nil)
		same(string(hello.payload["session"]), `{"resume_token":"token of s-1"}`)
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	s.finish()
	equal(t, failure(t, ctx, ann).Code, CodeStale)
}

func fails(code string) func(*side) {
	return func(d *side) {
		d.welcome("s-1", nil)
		d.write("ERROR", members{"code": code, "fatal": true, "message": "why"})
	}
}

func TestErrorsThatWouldRepeatEndTheClient(t *testing.T) {
	ctx := testContext(t)
	s := play(t, fails("SHUTTING_DOWN"), fails("INTERNAL"), fails("SESSION_REPLACED"))
	ann := joinWith(t, ctx, s.endpoint, Options{ReconnectAttempts: Forever}, quick())
	_, err := ann.Receive(ctx)
	failsWith(t, err, CodeSessionReplaced)
	equal(t, err.Error(), "relay: why (SESSION_REPLACED)")
	_, err = ann.Send(ctx, Outgoing{To: "Bob"})
	failsWith(t, err, CodeSessionReplaced)
	failsWith(t, ann.Subscribe(ctx, "x"), CodeSessionReplaced)
	if _, isOpen := <-ann.Failures(); isOpen {
		t.Fatal("a failure came")
	}
	s.finish()
}

func TestCycleOfAttemptsEndsUnlessItIsForever(t *testing.T) {
	ctx := testContext(t)
	steps := make([]func(*side), 10)
	for at := range steps {
		steps[at] = func(*side) {}
	}
	steps[0] = func(d *side) { d.welcome("s-1", nil) }
	s := play(t, steps...)
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	waited := start(func() error { return ann.Subscribe(ctx, "x") })
	_, err := ann.Receive(ctx)
	equal(t, err != nil && strings.HasSuffix(err.Error(), " (attempts: 10)"), true)
	var ended *EndedError
	equal(t, errors.As(waited(), &ended), true)
	s.finish()

	quick := quick()
	quick.steady = 0 // Each connection that was ready begins a new cycle: the waits stay short.
	steps = steps[:1]
	for len(steps) < 30 {
		steps = append(steps, steps[0])
	}
	steps = append(steps, func(d *side) {
		d.welcome("s-1", nil)
		d.accept(d.expect("SEND"))
		d.untilEnd()
	})
	s = play(t, steps...)
	ann = joinWith(t, ctx, s.endpoint, Options{ReconnectAttempts: Forever}, quick)
	_, err = ann.Send(ctx, Outgoing{To: "Bob"})
	ok(t, err)
	ok(t, ann.Close())
	s.finish()
}

func TestByeFromTheDaemonIsFollowedByANewConnection(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.write("BYE", members{"reason": "upgrade", "retry_after_ms": 10})
	}, func(d *side) { d.welcome("s-1", nil) })
	join(t, ctx, s.endpoint, Options{})
	s.finish()
}

func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func TestFramesThatAreNotValidEndTheConnection(t *testing.T) {
	ctx := testContext(t)
	many := framed(`{"v":1,"type":"PONG","id":"x","ts":1,"payload":{"body":"` + strings.Repeat("[{", 1000) + `\""}}`)
	number := framed(`{"v":1,"type":"PONG","id":"x","ts":1,"payload":{"n":` + strings.Repeat("9", 900_000) + `}}`)
	deep := strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000)
	bad := [][]byte{
		{0, 0, 0, 0},
		{255, 255, 255, 255},
		framed(strings.Repeat(" ", 5000)),
		framed(`{"v":1,"type":"DELIVER","id":"x","ts":1,"payload":{"body":` + deep + `}}`),
		framed("[]"),
		framed("\xff{}"),
		framed(`{"type":"PING","id":"x","payload":{"body":"` + "\xff" + `"}}`),
		framed("{}"),
		framed("null"),
		framed(`{"type":"PING","id":"x","payload":[]}`),
		framed(`{"type":"PING","id":"x","payload":null}`),
		framed(`{"type":"PING","id":"` + strings.Repeat("x", 129) + `","payload":{}}`),
		framed(`{"Type":"PING","id":"x","payload":{}}`),
		framed(`{"type":"PING","id":"x","payload":{}} {}`),
	}
	var steps []func(*side)
	for _, data := range bad {
		data := data
		steps = append(steps, func(d *side) {
			d.welcome("s-1", members{"max_frame_bytes": 4096 + len(data)/8192*(1<<20), "heartbeat_ms": -1})
			if len(data) > 10_000 {
				d.send(append(many, number...)) // These are valid.
				d.fence()
			}
			d.conn.Write(data) // The client is possibly gone before it has all.
			d.untilEnd()
		})
	}
	s := play(t, steps...)
	forever := Options{ReconnectAttempts: Forever}
	quick := quick()
	quick.steady = 0
	joinWith(t, ctx, s.endpoint, forever, quick)
	s.finish()
}

func TestEnvelopesOfTheWrongKindsAreIgnored(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"max_frame_bytes": "many", "heartbeat_ms": 1e308})
		send := d.expect("SEND")
		for _, kind := range []string{"DELIVER", "ACK", "NACK", "BUSY", "ERROR", "SYNC", "PONG", "KIT"} {
			d.send(framed(`{"type":"` + kind + `","id":"` + kind + `","from":7,"to":[],"topic":{},"delivery":[],` +
				`"payload_meta":"x","payload":{"ack_id":7,"code":{},"message":[],"retry_after_ms":"x","to":1,"Body":"B"}}`))
		}
		d.accept(send)
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	_, err := ann.Send(ctx, Outgoing{To: "Bob"})
	ok(t, err)
	m := receive(t, ctx, ann)
	equal(t, m.ID+m.From+m.Body+m.Question, "DELIVER")
	ok(t, m.Ack())
	equal(t, failure(t, ctx, ann).Code, Code("NACK"))
	ok(t, ann.Close())
	s.finish()
}

func TestDaemonThatNeverAnswers(t *testing.T) {
	ctx := testContext(t)
	short := usual
	short.welcome = 100 * time.Millisecond
	s := play(t, (*side).untilEnd)
	_, err := connect(ctx, Options{Name: "Ann", Endpoint: s.endpoint}, short)
	equal(t, err.Error(), "relay: the daemon sent no WELCOME (attempts: 1)")
	s.finish()

	s = play(t, (*side).untilEnd)
	within, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Connect(within, Options{Name: "Ann", Endpoint: s.endpoint})
	failsWith(t, err, context.Canceled)

	s = play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.untilEnd()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := ann.Send(ctx, Outgoing{To: "Bob"}); return err },
		func(ctx context.Context) error { _, err := ann.Ask(ctx, Outgoing{To: "Bob"}); return err },
		func(ctx context.Context) error { _, err := ann.Receive(ctx); return err },
		func(ctx context.Context) error { _, err := ann.Agents(ctx); return err },
		func(ctx context.Context) error { return ann.Subscribe(ctx, "x") },
	} {
		within, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		failsWith(t, call(within), context.DeadlineExceeded)
		cancel()
	}
	ann.mu.Lock()
	equal(t, ann.outbox.order.Len()+len(ann.outbox.byID), 0)
	ann.mu.Unlock()
	ok(t, ann.Close())
	s.finish()
}

func TestSilentDaemonIsLeft(t *testing.T) {
	ctx := testContext(t)
	short := quick()
	short.silence = 300 * time.Millisecond
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"heartbeat_ms": 100})
		d.untilEnd() // The client ends the connection.
	}, func(d *side) { d.welcome("s-1", nil) })
	joinWith(t, ctx, s.endpoint, Options{ReconnectAttempts: Forever}, short)
	s.finish()
}

func TestDaemonThatHangsDoesNotKeepClose(t *testing.T) {
	ctx := testContext(t)
	end := make(chan struct{})
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"heartbeat_ms": 3600000})
		<-end
	})
	closed := make(chan error, 1)
	ann := join(t, ctx, s.endpoint, Options{})
	go func() { closed <- ann.Close() }()
	select {
	case err := <-closed:
		ok(t, err)
	case <-ctx.Done():
		t.Error("Close does not return")
	}
	close(end)
	s.finish()
}

func TestClientThatDoesNotReceiveStopsReadingAndStaysAlive(t *testing.T) {
	ctx := testContext(t)
	paused := make(chan struct{})
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"heartbeat_ms": 100})
		var all bytes.Buffer
		for number := 1; number <= 1100; number++ {
			all.Write(delivery(fmt.Sprint("d-", number), number, false))
		}
		d.send(all.Bytes())
		pong := d.expect("PONG")
		must(pong.payload.text("nonce", 9) == "", "a nonce without a PING")
		close(paused)
		d.expect("BYE")
	})
	ann := join(t, ctx, s.endpoint, Options{})
	<-paused
	ann.mu.Lock()
	equal(t, len(ann.inbox.unread), usual.unread)
	ann.mu.Unlock()
	for number := 1; number <= 1100; number++ {
		equal(t, receive(t, ctx, ann).Seq, int64(number))
	}
	ok(t, ann.Close())
	s.finish()
}

func TestPausedClientNoticesThatTheDaemonIsGone(t *testing.T) {
	ctx := testContext(t)
	few := quick()
	few.unread = 2
	s := play(t, func(d *side) {
		d.welcome("s-1", members{"heartbeat_ms": 100})
		d.send(append(delivery("d-1", 1, true), delivery("d-2", 2, true)...))
		d.expect("PONG")
	}, func(d *side) {
		d.welcome("s-1", nil)
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, few)
	s.finish()
	equal(t, receive(t, ctx, ann).ID+receive(t, ctx, ann).ID, "d-1d-2")
}

func TestDaemonThatDoesNotReadCannotFillMemory(t *testing.T) {
	ctx := testContext(t)
	few := quick()
	few.controlBytes = 500_000
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		pings := bytes.Repeat(of("PING", "", members{"nonce": strings.Repeat("x", 1000)}, nil), 100)
		for {
			if _, err := d.conn.Write(pings); err != nil {
				must(!errors.Is(err, os.ErrDeadlineExceeded), "the client stopped reading")
				return
			}
		}
	})
	joinWith(t, ctx, s.endpoint, Options{}, few)
	s.finish()
}

func TestOldestFailuresMakeRoom(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		for number := 0; number < failuresMax+10; number++ {
			d.write("NACK", members{"ack_id": fmt.Sprint(number), "code": "EXPIRED", "message": ""})
		}
		d.fence()
	})
	ann := join(t, ctx, s.endpoint, Options{})
	s.finish()
	equal(t, len(ann.Failures()), failuresMax)
	equal(t, failure(t, ctx, ann).ID, "10")
}

func TestHelloThatIsInvalidEndsTheClient(t *testing.T) {
	ctx := testContext(t)
	s := play(t, func(d *side) {
		hello := d.read()
		d.write("ERROR", members{"code": "KIT_CODE", "fatal": false, "message": "of the future"})
		d.write("ERROR", members{"code": "INVALID", "fatal": false, "message": "no such mode", "ref": hello.id})
		d.untilEnd()
	})
	_, err := Connect(ctx, Options{Name: "Ann", Endpoint: s.endpoint, ConnectAttempts: Forever})
	failsWith(t, err, CodeInvalid)
	s.finish()
}

func TestAgentsOfSeveralPages(t *testing.T) {
	ctx := testContext(t)
	answer := func(d *side, data members) frame {
		ask := d.expect("SEND")
		d.send(of("DELIVER", "", members{"kind": "response", "body": "agents", "data": data}, members{
			"from": "@relay", "to": "Ann", "payload_meta": members{"replyTo": ask.id}, "delivery": members{"seq": 1}}))
		return ask
	}
	s := play(t, func(d *side) {
		d.welcome("s-1", nil)
		d.expect("SEND") // It is lost with the connection.
	}, func(d *side) {
		d.welcome("s-1", nil)
		answer(d, members{"agents": []members{{"name": "Ann", "here": true, "since": 1000}}, "next_cursor": "Ann"})
		data := answer(d, members{"agents": []members{{"name": "Bob", "why": 7}}}).payload.object("data")
		same(data.text("cursor", 9), "Ann")
		answer(d, members{"agents": "many"})
		d.untilEnd()
	})
	ann := joinWith(t, ctx, s.endpoint, Options{}, quick())
	agents, err := ann.Agents(ctx)
	ok(t, err)
	equal(t, len(agents), 2)
	equal(t, agents[0].Name+agents[1].Name+agents[1].Why, "AnnBob")
	equal(t, agents[0].Since.Unix(), 1)
	if _, err = ann.Agents(ctx); err == nil {
		t.Fatal("what is no list was read")
	}
	ok(t, ann.Close())
	s.finish()
}
