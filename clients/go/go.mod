module agent-relay/relay

go 1.19
