package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// ErrClosed is the error of every call after [Client.Close].
var ErrClosed = errors.New("relay: the client is closed")

// ErrUnread is the error of a call that cannot read its answer, because too many received messages
// wait for [Client.Receive]. The daemon may or may not have the message.
var ErrUnread = errors.New("relay: too many messages are unread: call Receive")

// Code is a code of the protocol (docs/PROTOCOL.md, section 14), or [CodeNoDaemon]. It is an error,
// so that errors.Is(err, relay.CodeUnknownAgent) tells whether a call failed with it. The daemon may
// send codes that this package does not know.
type Code string

// The codes of the protocol.
const (
	CodeBadFrame           Code = "BAD_FRAME"
	CodeFrameTooLarge      Code = "FRAME_TOO_LARGE"
	CodeUnsupportedVersion Code = "UNSUPPORTED_VERSION"
	CodeHandshakeRequired  Code = "HANDSHAKE_REQUIRED"
	CodeHandshakeTimeout   Code = "HANDSHAKE_TIMEOUT"
	CodeInvalidName        Code = "INVALID_NAME"
	CodeUnauthorized       Code = "UNAUTHORIZED"
	CodeNameInUse          Code = "NAME_IN_USE"
	CodeSessionReplaced    Code = "SESSION_REPLACED"
	CodeHeartbeatTimeout   Code = "HEARTBEAT_TIMEOUT"
	CodeTooManyClients     Code = "TOO_MANY_CLIENTS"
	CodeShuttingDown       Code = "SHUTTING_DOWN"
	CodeInternal           Code = "INTERNAL"
	CodeInvalid            Code = "INVALID"
	CodeResumeRejected     Code = "RESUME_REJECTED"
	CodeForbidden          Code = "FORBIDDEN"
	CodeUnknownAgent       Code = "UNKNOWN_AGENT"
	CodeAgentOffline       Code = "AGENT_OFFLINE"
	CodeNoAck              Code = "NO_ACK"
	CodeExpired            Code = "EXPIRED"
	CodeRefused            Code = "REFUSED"
	CodeGaveUp             Code = "GAVE_UP"
	CodeStale              Code = "STALE"
	CodeSyncTimeout        Code = "SYNC_TIMEOUT"
	CodeTooLarge           Code = "TOO_LARGE"
	CodeLimit              Code = "LIMIT"
	CodeNotFound           Code = "NOT_FOUND"
	CodeStoreFailed        Code = "STORE_FAILED"
)

// CodeNoDaemon says that no daemon listens at the endpoint.
const CodeNoDaemon Code = "NO_DAEMON"

// Error returns the code.
func (c Code) Error() string { return string(c) }

// isTemporary tells whether the client connects again after a fatal ERROR with this code.
func (c Code) isTemporary() bool {
	switch c {
	case CodeHandshakeTimeout, CodeHeartbeatTimeout, CodeTooManyClients, CodeShuttingDown, CodeInternal:
		return true
	}
	return false
}

// RefusedError says that the daemon or a recipient refused a message, a subscription, a request or
// an answer. The message of another agent in it is as that agent wrote it.
type RefusedError struct {
	Code    Code
	Message string
	// To is the recipient that the refusal is about, if the daemon names one.
	To string
	// ID is the refused message's id: the ID of its Receipt.
	ID string
}

func (e *RefusedError) Error() string { return sentence(e.Message, e.Code) }

// Is tells whether the target is the error's code. SYNC_TIMEOUT is also context.DeadlineExceeded.
func (e *RefusedError) Is(target error) bool {
	if target == context.DeadlineExceeded {
		return e.Code == CodeSyncTimeout
	}
	return isCode(target, e.Code)
}

// EndedError says why the client has ended: a fatal error that would only repeat, or the attempts to
// connect are used up.
type EndedError struct {
	// Code is the code of the daemon's error, NO_DAEMON, or empty.
	Code    Code
	Message string
	// Err is the system's or the context's error, if there is one.
	Err error
}

func (e *EndedError) Error() string { return sentence(e.Message, e.Code) }

// Is tells whether the target is the error's code.
func (e *EndedError) Is(target error) bool { return isCode(target, e.Code) }

// Unwrap returns Err.
func (e *EndedError) Unwrap() error { return e.Err }

func isCode(target error, code Code) bool {
	wanted, ok := target.(Code)
	return ok && wanted == code && code != ""
}

// sentence returns an error's text. Others have written it, so control characters are escaped.
func sentence(message string, code Code) string {
	var text strings.Builder
	text.WriteString("relay: ")
	for _, r := range message {
		if unicode.IsPrint(r) {
			text.WriteRune(r)
		} else {
			text.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	if code != "" {
		fmt.Fprintf(&text, " (%s)", strings.Trim(strconv.QuoteToASCII(string(code)), `"`))
	}
	return text.String()
}
