package relay

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// findEndpoint returns the endpoint of this user's daemon (docs/PROTOCOL.md, section 2).
func findEndpoint(option string) string {
	if option != "" {
		return option
	}
	if named := os.Getenv("AGENT_RELAY_ENDPOINT"); named != "" {
		return named
	}
	named := os.Getenv("AGENT_RELAY_HOME")
	home := named
	if home == "" {
		home = defaultHome()
	}
	if endpoint := readEndpoint(filepath.Join(home, "endpoint")); endpoint != "" {
		return endpoint
	}
	if named != "" { // The system's defaults are those of the default home only.
		return filepath.Join(named, "relay.sock")
	}
	return defaultEndpoint()
}

// readEndpoint returns the endpoint that a daemon wrote into this file, or "".
func readEndpoint(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
