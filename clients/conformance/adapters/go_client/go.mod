module go_client

go 1.19

require agent-relay/relay v0.0.0

replace agent-relay/relay => ../../../go
