// Lets the conformance kit drive the Go client: go_client NAME.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"agent-relay/relay"
)

type envelope struct {
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"`
	From    string `json:"from,omitempty"`
	Payload any    `json:"payload"`
}

// adapter prints envelopes, and has the questions that are not answered.
type adapter struct {
	client    *relay.Client
	mu        sync.Mutex
	questions map[string]*relay.Message
}

func (a *adapter) show(of envelope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(of); err != nil {
		exit(err)
	}
}

func (a *adapter) showRefusal(refused *relay.RefusedError) {
	nack := map[string]any{"ack_id": refused.ID, "code": refused.Code, "message": refused.Message}
	if refused.To != "" {
		nack["to"] = refused.To
	}
	a.show(envelope{Type: "NACK", Payload: nack})
}

func (a *adapter) receive(ctx context.Context) error {
	for {
		m, err := a.client.Receive(ctx)
		if err != nil {
			return err
		}
		if m.Question != "" {
			a.mu.Lock()
			a.questions[m.ID] = m
			a.mu.Unlock()
		}
		a.show(envelope{"DELIVER", m.ID, m.From, m.Payload})
		if m.Question == "" {
			if err := m.Ack(); err != nil {
				return err
			}
		}
	}
}

func (a *adapter) send(ctx context.Context, m relay.Outgoing) error {
	receipt, err := a.client.Send(ctx, m)
	if err == nil {
		a.show(envelope{Type: "ACK", Payload: map[string]any{"ack_id": receipt.ID, "state": "accepted"}})
	}
	return err
}

func (a *adapter) obey(ctx context.Context, command, target, rest string) error {
	switch command {
	case "send":
		return a.send(ctx, relay.Outgoing{To: target, Body: rest})
	case "publish":
		return a.send(ctx, relay.Outgoing{Topic: target, Body: rest})
	case "subscribe":
		return a.client.Subscribe(ctx, target)
	case "unsubscribe":
		return a.client.Unsubscribe(ctx, target)
	case "ask":
		answer, err := a.client.Ask(ctx, relay.Outgoing{To: target, Body: rest})
		if err == nil {
			payload := map[string]any{"response": answer.Response, "responseData": answer.Data}
			a.show(envelope{Type: "ACK", From: answer.From, Payload: payload})
		}
		return err
	case "answer":
		a.mu.Lock()
		m := a.questions[target]
		a.mu.Unlock()
		if m == nil {
			return fmt.Errorf("there is no question %q", target)
		}
		return m.Answer(ctx, rest)
	}
	return fmt.Errorf("there is no command %q", command)
}

func (a *adapter) takeCommands(ctx context.Context) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := append(strings.SplitN(lines.Text(), " ", 3), "", "")
		err := a.obey(ctx, words[0], words[1], words[2])
		var refused *relay.RefusedError
		if errors.As(err, &refused) {
			a.showRefusal(refused)
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	a.client.Close()
}

func exit(err error) {
	if errors.Is(err, relay.ErrClosed) {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	ctx := context.Background()
	client, err := relay.Connect(ctx, relay.Options{Name: os.Args[1]})
	if err != nil {
		exit(err)
	}
	a := &adapter{client: client, questions: map[string]*relay.Message{}}
	go func() {
		for refused := range client.Failures() {
			a.showRefusal(refused)
		}
	}()
	go a.takeCommands(ctx)
	exit(a.receive(ctx))
}
