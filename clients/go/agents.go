package relay

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// agentsMax is more than the number of names that a daemon knows.
const agentsMax = 65536

// Agent is an agent that the daemon knows.
type Agent struct {
	Name string
	// Host is the machine of an agent of another machine.
	Host string
	// Here says that the agent is connected, and Since since when, or since when it is away.
	Here  bool
	Since time.Time
	// Program and Directory are the agent's program and its working directory, as the agent stated
	// them.
	Program, Directory string
	// Activity is the agent's activity, if it has reported one since it is connected.
	Activity string
	// Queued is the number of messages for the agent: Waiting ones, and InFlight ones, which it has
	// been given and has not acknowledged. Why is the reason of the oldest that waits with one.
	Queued, Waiting, InFlight int
	Why                       string
	// Row is all that the daemon says (docs/RELAY-API.md).
	Row json.RawMessage
}

// Agents lists the agents that the daemon knows, in the order of their names.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var agents []Agent
	ask := map[string]any{"limit": 1000}
	for {
		data, err := c.Request(ctx, "agents", ask)
		if err != nil {
			return nil, err
		}
		page := parseObject(data)
		var rows []json.RawMessage
		if json.Unmarshal(page["agents"], &rows) != nil || len(agents)+len(rows) > agentsMax {
			return nil, errors.New("relay: the daemon's list of agents cannot be read")
		}
		for _, row := range rows {
			agents = append(agents, newAgent(row))
		}
		cursor := page.text("next_cursor", len(data))
		if cursor == "" || len(rows) == 0 {
			return agents, nil
		}
		ask["cursor"] = cursor
	}
}

func newAgent(row json.RawMessage) Agent {
	of := parseObject(row)
	number := func(name string) int { return int(of.integer(name, 0)) }
	text := func(name string) string { return of.text(name, len(row)) }
	return Agent{
		Name: text("name"), Host: text("host"), Here: of.is("here"), Since: time.UnixMilli(of.integer("since", 0)),
		Program: text("program"), Directory: text("directory"), Activity: text("activity"),
		Queued: number("queued"), Waiting: number("waiting"), InFlight: number("in_flight"), Why: text("why"),
		Row: row,
	}
}
