package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func pair(t *testing.T, ctx context.Context, d *daemon) (ann, bob *Client) {
	t.Helper()
	return join(t, ctx, d.endpoint, Options{Name: "Ann"}), join(t, ctx, d.endpoint, Options{Name: "Bob"})
}

func TestMessagesArriveInBothDirections(t *testing.T) {
	ctx := testContext(t)
	ann, bob := pair(t, ctx, startDaemon(t, ""))
	text := "Zoë, 你好 \U0001f600 \x00 <&> \u2028 \n"
	data := `{"n":1180591620717411303424,"x":["<&>",null]}`
	receipt, err := ann.Send(ctx, Outgoing{
		To: "bob", Body: text, Data: json.RawMessage(data),
		Thread: "t", TTL: time.Minute, Meta: map[string]any{"importance": 80}})
	ok(t, err)
	if receipt.ID == "" || receipt.Durability == "" || receipt.Away {
		t.Fatalf("%+v", receipt)
	}
	m := receive(t, ctx, bob)
	equal(t, m.From+" "+m.To+" "+m.Topic+" "+m.Thread+" "+m.Auth+" "+m.Kind, "Ann Bob  t claim message")
	equal(t, m.Body, text)
	equal(t, string(m.Data), data)
	meta := parseObject(m.Meta)
	equal(t, meta.integer("ttl_ms", 0), 60000)
	equal(t, meta.integer("importance", 0), 80)
	if !m.RequiresAck || m.Question != "" || m.Broadcast || m.Seq != 1 || m.Attempt != 1 {
		t.Fatalf("%+v", m)
	}
	ok(t, m.Ack())
	_, err = bob.Send(ctx, Outgoing{To: "Ann", Body: "back", AtMostOnce: true})
	ok(t, err)
	m = receive(t, ctx, ann)
	equal(t, m.Body, "back")
	equal(t, m.RequiresAck, false)
	ok(t, m.Ack())
	_, err = bob.Send(ctx, Outgoing{To: "Bob", Body: "to myself", Kind: "note"})
	ok(t, err)
	m = receive(t, ctx, bob)
	equal(t, m.Kind, "note")
	ok(t, m.Ack())
}

func TestOrderIsKept(t *testing.T) {
	ctx := testContext(t)
	ann, bob := pair(t, ctx, startDaemon(t, ""))
	sent := start(func() error { return sendNumbers(ctx, ann, "Bob", 200) })
	expectNumbers(t, ctx, bob, 200)
	ok(t, sent())
}

func sendNumbers(ctx context.Context, client *Client, to string, count int) error {
	for number := 0; number < count; number++ {
		if _, err := client.Send(ctx, Outgoing{To: to, Body: strconv.Itoa(number)}); err != nil {
			return err
		}
	}
	return nil
}

func expectNumbers(t *testing.T, ctx context.Context, client *Client, count int) {
	t.Helper()
	for number := 0; number < count; number++ {
		m := receive(t, ctx, client)
		equal(t, m.Body, strconv.Itoa(number))
		ok(t, m.Ack())
	}
}

func TestBroadcastsAndTopics(t *testing.T) {
	ctx := testContext(t)
	ann, bob := pair(t, ctx, startDaemon(t, ""))
	expectRecipients := func(m Outgoing, wanted int) {
		t.Helper()
		receipt, err := ann.Send(ctx, m)
		ok(t, err)
		equal(t, receipt.Recipients, wanted)
	}
	expectRecipients(Outgoing{To: "*", Body: "all"}, 1)
	m := receive(t, ctx, bob)
	equal(t, m.Broadcast, true)
	ok(t, m.Ack())
	expectRecipients(Outgoing{To: "*", Topic: "bäu.linux"}, 0)
	ok(t, bob.Subscribe(ctx, "bäu.*"))
	ok(t, bob.Subscribe(ctx, "bäu.>"))
	expectRecipients(Outgoing{Topic: "bäu.linux", Body: "passed"}, 1)
	m = receive(t, ctx, bob)
	equal(t, m.Topic+" "+m.Body, "bäu.linux passed")
	ok(t, m.Ack())
	ok(t, bob.Unsubscribe(ctx, "bäu.*"))
	ok(t, bob.Unsubscribe(ctx, "bäu.>"))
	expectRecipients(Outgoing{To: "*", Topic: "bäu.linux"}, 0)
}

func TestQuestions(t *testing.T) {
	ctx := testContext(t)
	ann, bob := pair(t, ctx, startDaemon(t, ""))
	ask := func(body string, answer func(*Message) error) (*Answer, error) {
		t.Helper()
		answered := start(func() error {
			m, err := bob.Receive(ctx)
			if err != nil {
				return err
			}
			if m.Question == "" || m.Body != body || m.QuestionTimeout <= 0 {
				return fmt.Errorf("no question: %+v", m)
			}
			return answer(m)
		})
		got, err := ann.Ask(ctx, Outgoing{To: "Bob", Body: body})
		ok(t, answered())
		return got, err
	}
	answer, err := ask("Which port?", func(m *Message) error { return m.Answer(ctx, "8080") })
	ok(t, err)
	equal(t, answer.From+" "+answer.Body+" "+string(answer.Data), `Bob 8080 {"body":"8080"}`)
	equal(t, answer.Response, true)
	answer, err = ask("May I?", func(m *Message) error { return m.AnswerNo(ctx, []int{1, 2}) })
	ok(t, err)
	equal(t, answer.Body+string(answer.Data), "[1,2]")
	equal(t, answer.Response, false)
	// An acknowledgement is not an answer; the second one answers.
	answer, err = ask("Again?", func(m *Message) error {
		if err := m.Ack(); err != nil {
			return err
		}
		return m.Answer(ctx, map[string]any{"body": "yes", "n": 1})
	})
	ok(t, err)
	equal(t, answer.Body, "yes")
	_, err = ask("Please?", func(m *Message) error { return m.Nack("no\x1b[2J time") })
	failsWith(t, err, CodeRefused)
	if !strings.HasSuffix(err.Error(), `no\x1b[2J time (REFUSED)`) {
		t.Fatal(err)
	}
	// An agent that never answers.
	short, cancel := context.WithCancel(ctx)
	asked := start(func() error {
		_, err := ann.Ask(short, Outgoing{To: "Bob", Body: "Are you there?"})
		return err
	})
	m := receive(t, ctx, bob)
	cancel()
	failsWith(t, asked(), context.Canceled)
	ok(t, m.Ack())
	_, err = ann.Send(ctx, Outgoing{To: "Bob", Body: "no question"})
	ok(t, err)
	m = receive(t, ctx, bob)
	if err = m.Answer(ctx, "?"); err == nil {
		t.Fatal("what is no question was answered")
	}
	ok(t, m.Ack())
}

func TestRefusalsHaveCodes(t *testing.T) {
	ctx := testContext(t)
	ann, bob := pair(t, ctx, startDaemon(t, ""))
	for _, of := range []struct {
		m    Outgoing
		code Code
	}{
		{Outgoing{To: "Nobody"}, CodeUnknownAgent},
		{Outgoing{To: "two words"}, CodeInvalid},
		{Outgoing{}, CodeInvalid},
		{Outgoing{To: "*", Topic: "x.*"}, CodeInvalid},
		{Outgoing{To: "Bob", Meta: map[string]any{"ttl_ms": "soon"}}, CodeInvalid},
		{Outgoing{To: "Bob", Body: "\xff"}, CodeInvalid},
		{Outgoing{To: "Bob", Data: raw(nested(130))}, CodeInvalid},
		{Outgoing{To: "Bob", Body: strings.Repeat("x", 1<<20)}, CodeTooLarge},
		{Outgoing{To: "@relay", Kind: "request", Body: "nonsense"}, CodeInvalid},
	} {
		_, err := ann.Send(ctx, of.m)
		failsWith(t, err, of.code)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.ID == "" || errors.Is(err, CodeExpired) {
			t.Fatal(err)
		}
	}
	failsWith(t, ann.Subscribe(ctx, "a..b"), CodeInvalid)
	_, err := ann.Ask(ctx, Outgoing{To: "Nobody"})
	failsWith(t, err, CodeUnknownAgent)
	_, err = ann.Request(ctx, "stop", nil)
	failsWith(t, err, CodeForbidden)
	if _, err = ann.Send(ctx, Outgoing{To: "Bob", Data: func() {}}); err == nil {
		t.Fatal("a function was sent")
	}

	lost, err := ann.Send(ctx, Outgoing{To: "Nobody", AtMostOnce: true})
	ok(t, err)
	refused := failure(t, ctx, ann)
	equal(t, string(refused.Code)+refused.ID, "UNKNOWN_AGENT"+lost.ID)
	returned, err := ann.Send(ctx, Outgoing{To: "Bob", Body: "returned"})
	ok(t, err)
	ok(t, receive(t, ctx, bob).Nack("not mine"))
	refused = failure(t, ctx, ann)
	equal(t, string(refused.Code)+refused.ID+refused.To, "REFUSED"+returned.ID+"Bob")
	_, err = ann.Send(ctx, Outgoing{To: "Bob", Body: "later"})
	ok(t, err)
	ok(t, receive(t, ctx, bob).NackWithDelay("busy", 50*time.Millisecond))
	m := receive(t, ctx, bob)
	equal(t, m.Body+strconv.Itoa(m.Attempt), "later2")
	ok(t, m.Ack())
}

// nested returns lists in lists.
func nested(depth int) any {
	var of any = []any{}
	for ; depth > 1; depth-- {
		of = []any{of}
	}
	return of
}

func TestNames(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	join(t, ctx, d.endpoint, Options{})
	for name, code := range map[string]Code{
		"ANN": CodeNameInUse, "two words": CodeInvalidName, "Zoë": CodeInvalidName, "admin": CodeInvalidName,
		"": CodeInvalidName} {
		_, err := Connect(ctx, Options{Name: name, Endpoint: d.endpoint, ConnectAttempts: Forever})
		failsWith(t, err, code)
		var ended *EndedError
		if !errors.As(err, &ended) {
			t.Fatalf("%T", err)
		}
	}
}

func TestAgentsAreListed(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	ann, bob := pair(t, ctx, d)
	_, err := ann.Send(ctx, Outgoing{To: "Bob", Body: "wait"})
	ok(t, err)
	receive(t, ctx, bob)
	ok(t, bob.Close())
	agents, err := ann.Agents(ctx)
	ok(t, err)
	equal(t, len(agents), 2)
	equal(t, agents[0].Name+" "+agents[1].Name, "Ann Bob")
	if !agents[0].Here || agents[1].Here || agents[1].Queued != 1 || time.Since(agents[1].Since) > time.Hour {
		t.Fatalf("%+v", agents)
	}
	equal(t, parseObject(agents[1].Row).integer("queued", 0), 1)
}

func TestBusyRecipientGetsEverythingInOrder(t *testing.T) {
	ctx := testContext(t)
	// A mailbox of eight messages, four for each sender.
	d := startDaemon(t, "queue_max_messages = 8\n")
	ann, bob := join(t, ctx, d.endpoint, Options{}), join(t, ctx, d.endpoint, Options{Name: "Bob", MaxInflight: 1})
	carl := join(t, ctx, d.endpoint, Options{Name: "Carl"})
	sent := start(func() error { return sendNumbers(ctx, ann, "Bob", 30) })
	for busyCount(t, ctx, carl) == 0 {
	}
	_, err := ann.Send(ctx, Outgoing{To: "Carl", Body: "Carl is not busy", AtMostOnce: true})
	ok(t, err)
	receive(t, ctx, carl)
	expectNumbers(t, ctx, bob, 30)
	ok(t, sent())
}

func TestBusyRecipientOfAtMostOnceMessages(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "queue_max_messages = 8\n")
	few := usual
	few.unread = 20
	ann, bob := join(t, ctx, d.endpoint, Options{}), joinWith(t, ctx, d.endpoint, Options{Name: "Bob"}, few)
	sent := start(func() error {
		for number := 0; number < 100; number++ {
			m := Outgoing{To: "Bob", Body: fmt.Sprint(number, strings.Repeat(" x", 10_000)), AtMostOnce: true}
			if _, err := ann.Send(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	// Nobody receives, so that Bob's client stops reading, and then his mailbox is full.
	carl := join(t, ctx, d.endpoint, Options{Name: "Carl"})
	for busyCount(t, ctx, carl) == 0 {
	}
	received := map[string]bool{}
	for number := 0; number < 100; number++ {
		body, _, _ := strings.Cut(receive(t, ctx, bob).Body, " ")
		received[body] = true
	}
	ok(t, sent())
	equal(t, len(received), 100)
	equal(t, len(ann.Failures()), 0)
}

func TestWaitingCallReadsOnAndFailsWhenTooMuchIsUnread(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	few := usual
	few.unread = 5
	ann, bob := join(t, ctx, d.endpoint, Options{}), joinWith(t, ctx, d.endpoint, Options{Name: "Bob"}, few)
	asked := start(func() error {
		_, err := bob.Ask(ctx, Outgoing{To: "Ann", Body: "?"})
		return err
	})
	ok(t, receive(t, ctx, ann).Ack())
	for number := 0; number < 20; number++ {
		_, err := ann.Send(ctx, Outgoing{To: "Bob", Body: strconv.Itoa(number), AtMostOnce: true})
		ok(t, err)
	}
	failsWith(t, asked(), ErrUnread)
	_, err := bob.Send(ctx, Outgoing{To: "Ann"})
	failsWith(t, err, ErrUnread)
	for number := 0; number < 20; number++ {
		equal(t, receive(t, ctx, bob).Body, strconv.Itoa(number))
	}
	_, err = bob.Send(ctx, Outgoing{To: "Ann"})
	ok(t, err)
}

func TestMailWaitsForANameAndCloseKeepsIt(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	ann, bob := pair(t, ctx, d)
	ok(t, bob.Close())
	receipt, err := ann.Send(ctx, Outgoing{To: "Bob", Body: "for later"})
	ok(t, err)
	equal(t, receipt.Away, true)
	bob = join(t, ctx, d.endpoint, Options{Name: "Bob"})
	m := receive(t, ctx, bob)
	ok(t, bob.Close())
	ok(t, bob.Close())
	failsWith(t, m.Ack(), ErrClosed)
	_, err = bob.Receive(ctx)
	failsWith(t, err, ErrClosed)
	_, err = bob.Send(ctx, Outgoing{To: "Ann"})
	failsWith(t, err, ErrClosed)
	if _, isOpen := <-bob.Failures(); isOpen {
		t.Fatal("a failure of a client without one")
	}
	bob = join(t, ctx, d.endpoint, Options{Name: "Bob"})
	ok(t, receive(t, ctx, bob).Ack())
	// Close ends calls that wait, after it has written earlier acknowledgements.
	waited := start(func() error {
		_, err := bob.Receive(ctx)
		return err
	})
	ok(t, bob.Close())
	failsWith(t, waited(), ErrClosed)
	bob = join(t, ctx, d.endpoint, Options{Name: "Bob"})
	_, err = ann.Send(ctx, Outgoing{To: "Bob", Body: "the only one"})
	ok(t, err)
	equal(t, receive(t, ctx, bob).Body, "the only one")
}

func TestDaemonIsFoundOrNot(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	none := t.TempDir()
	t.Setenv("AGENT_RELAY_ENDPOINT", "")
	t.Setenv("AGENT_RELAY_HOME", none)
	for _, endpoint := range []string{filepath.Join(none, "none"), ""} { // not the daemon of the default home
		_, err := Connect(ctx, Options{Name: "Ann", Endpoint: endpoint})
		failsWith(t, err, CodeNoDaemon)
		failsWith(t, err, fs.ErrNotExist)
		if !strings.Contains(err.Error(), filepath.Base(none)) {
			t.Fatal(err)
		}
	}
	// Waiting for a daemon ends with the context.
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := Connect(short, Options{Name: "Ann", ConnectAttempts: Forever})
	failsWith(t, err, context.DeadlineExceeded)
	failsWith(t, err, CodeNoDaemon)
	t.Setenv("AGENT_RELAY_HOME", d.home)
	ann, err := Connect(ctx, Options{Name: "Ann"})
	ok(t, err)
	equal(t, ann.Name(), "Ann")
	ok(t, ann.Close())
}

func TestMessagesSurviveSIGKILL(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	lasting := Options{ReconnectAttempts: Forever}
	ann := join(t, ctx, d.endpoint, lasting)
	lasting.Name = "Bob"
	bob := join(t, ctx, d.endpoint, lasting)
	ok(t, bob.Subscribe(ctx, "news"))
	sessions := ann.SessionID() + bob.SessionID()
	const count, kills = 300, 3
	progress := make(chan int, count)
	run := func(client *Client, to string, received func(int)) func() error {
		sent := start(func() error { return sendNumbers(ctx, client, to, count) })
		got := start(func() error {
			for number := 0; number < count; number++ {
				m, err := client.Receive(ctx)
				if err != nil {
					return err
				}
				if m.Body != strconv.Itoa(number) {
					return fmt.Errorf("%s received %s, and not %d", client.Name(), m.Body, number)
				}
				if err := m.Ack(); err != nil {
					return err
				}
				received(number + 1)
			}
			return nil
		})
		return func() error {
			if err := got(); err != nil {
				return err
			}
			return sent()
		}
	}
	ofAnn := run(ann, "Bob", func(int) {})
	ofBob := run(bob, "Ann", func(number int) { progress <- number })
	for kill := 1; kill <= kills; kill++ {
		for reached := 0; reached < count*kill/(kills+1); {
			select {
			case reached = <-progress:
			case <-ctx.Done():
				t.Fatalf("Bob has received no more than %d", reached)
			}
		}
		d.kill()
		d.start()
	}
	ok(t, ofAnn())
	ok(t, ofBob())
	equal(t, ann.SessionID()+bob.SessionID(), sessions)
	receipt, err := ann.Send(ctx, Outgoing{To: "*", Topic: "news", Body: "still subscribed"})
	ok(t, err)
	equal(t, receipt.Recipients, 1)
	equal(t, receive(t, ctx, bob).Body, "still subscribed") // and no message a second time before it
	for _, client := range []*Client{ann, bob} {
		for len(client.Failures()) > 0 {
			if refused := <-client.Failures(); refused.Code != CodeStale {
				t.Fatal(refused)
			}
		}
	}
}

func TestKeyOfAName(t *testing.T) {
	ctx := testContext(t)
	d := startDaemon(t, "")
	made, err := d.command("policy", "key", "Ann").CombinedOutput()
	ok(t, err)
	key := regexp.MustCompile(`\b[0-9a-f]{64}\b`).FindString(string(made))
	rule := regexp.MustCompile(`(?m)^\[[^\n]*\n(?:[^\n]+\n?)*`).FindString(string(made))
	if key == "" || rule == "" {
		t.Fatalf("the output of `policy key` is not understood: %s", made)
	}
	ok(t, os.WriteFile(filepath.Join(d.home, "policy.toml"), []byte(rule), 0o600))
	if out, err := d.command("policy", "reload").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err = Connect(ctx, Options{Name: "Ann", Endpoint: d.endpoint})
	failsWith(t, err, CodeUnauthorized)
	ann := join(t, ctx, d.endpoint, Options{Key: key})
	session := ann.SessionID()
	_, err = ann.Send(ctx, Outgoing{To: "Ann", Body: "the store has it and the session"})
	ok(t, err)
	ok(t, receive(t, ctx, ann).Ack())
	d.kill()
	d.start()
	_, err = ann.Send(ctx, Outgoing{To: "Ann", Body: "back"})
	ok(t, err)
	equal(t, receive(t, ctx, ann).Auth, "key")
	equal(t, ann.SessionID(), session)
	expectSecretsStayHidden(t, ann, key)
}

// expectSecretsStayHidden prints all that a program has in its hands, in all ways.
func expectSecretsStayHidden(t *testing.T, client *Client, key string) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{client, client.options, &client.options, struct{ C *Client }{client}} {
			text := fmt.Sprintf(verb, value)
			for _, secret := range []string{key, client.token, fmt.Sprintf("%x", key)} {
				if secret == "" || strings.Contains(text, secret) {
					t.Fatalf("%s prints %q", verb, text)
				}
			}
		}
	}
	for _, value := range []any{client, client.options} {
		if text := string(raw(value)); strings.Contains(text, key) || strings.Contains(text, client.token) {
			t.Fatal(text)
		}
	}
}
