package relay

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	frameBytesDefault = 1 << 20
	frameBytesBound   = 64 << 20 // No frame may be longer, whatever WELCOME says.
	depthMax          = 128
)

// object is a JSON object that keeps the text of its members. encoding/json compares names of a
// struct's fields without case; here `Body` is not `body`.
type object map[string]json.RawMessage

// parseObject returns nil unless the text is an object.
func parseObject(raw json.RawMessage) object {
	var members object
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// text returns a member that is a string, or "", cut to that many bytes.
func (o object) text(name string, bytesMax int) string {
	var text string
	if json.Unmarshal(o[name], &text) != nil {
		return ""
	}
	return cut(text, bytesMax)
}

func (o object) is(name string) bool { return string(o[name]) == "true" }

func (o object) object(name string) object { return parseObject(o[name]) }

// integer returns a member that is a whole number in digits, or another value.
func (o object) integer(name string, otherwise int64) int64 {
	if number, err := strconv.ParseInt(string(o[name]), 10, 64); err == nil {
		return number
	}
	return otherwise
}

// milliseconds returns a member that is a number of milliseconds, within bounds, or another value.
func (o object) milliseconds(name string, otherwise, least, most time.Duration) time.Duration {
	wait := otherwise
	if ms, err := strconv.ParseFloat(string(o[name]), 64); err == nil {
		wait = most
		if ms < float64(most/time.Millisecond) {
			wait = time.Duration(ms * float64(time.Millisecond))
		}
	}
	return clamp(wait, least, most)
}

func clamp(wait, least, most time.Duration) time.Duration {
	if wait < least {
		return least
	}
	if wait > most {
		return most
	}
	return wait
}

// cut returns at most that many bytes of a text, in whole characters.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	for bytesMax > 0 && !utf8.RuneStart(text[bytesMax]) {
		bytesMax--
	}
	return text[:bytesMax]
}

// envelope is an envelope from the daemon.
type envelope struct {
	kind, id, from, to, topic string
	payload, delivery         object
	payloadText, metaText     json.RawMessage
	size                      int // of the frame, in bytes
}

// parse reads the envelope in a frame, without its length.
func parse(frame []byte) (*envelope, error) {
	if !utf8.Valid(frame) {
		return nil, errors.New("the daemon sent a frame that is not UTF-8")
	}
	if isDeep(frame) {
		return nil, fmt.Errorf("the daemon sent JSON deeper than %d", depthMax)
	}
	members := parseObject(frame)
	e := &envelope{
		kind: members.text("type", 64), from: members.text("from", 256),
		to: members.text("to", 256), topic: members.text("topic", 256),
		payload: members.object("payload"), delivery: members.object("delivery"),
		payloadText: members["payload"], metaText: members["payload_meta"], size: len(frame),
	}
	e.id = members.text("id", len(frame))
	if e.payload == nil || e.kind == "" || e.id == "" || len(e.id) > 128 {
		return nil, errors.New("the daemon sent JSON that is no envelope")
	}
	return e, nil
}

// isDeep tells whether arrays and objects nest deeper than 128. It reads texts without their content.
func isDeep(frame []byte) bool {
	depth, isText := 0, false
	for at := 0; at < len(frame); at++ {
		switch frame[at] {
		case '"':
			isText = !isText
		case '\\':
			at++ // An escaped quote ends no text.
		case '[', '{':
			if !isText {
				depth++
			}
		case ']', '}':
			if !isText {
				depth--
			}
		}
		if depth > depthMax {
			return true
		}
	}
	return false
}

// readFrame reads a frame. Its memory grows with what arrives, not with the length that is stated.
func readFrame(stream io.Reader, bytesMax int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[:]))
	if length < 1 || length > int64(bytesMax) {
		return nil, fmt.Errorf("the daemon sent a frame of %d bytes", length)
	}
	var frame bytes.Buffer
	if _, err := io.CopyN(&frame, stream, length); err != nil {
		return nil, err
	}
	return frame.Bytes(), nil
}

// encode returns a frame. Members that are "" are left out.
func encode(kind, id string, payload any, members map[string]any) ([]byte, error) {
	all := map[string]any{"v": 1, "type": kind, "id": id, "ts": time.Now().UnixMilli(), "payload": payload}
	for name, value := range members {
		if value != "" {
			all[name] = value
		}
	}
	frame := bytes.NewBuffer(make([]byte, 4, 512))
	encoder := json.NewEncoder(frame)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(all); err != nil {
		return nil, fmt.Errorf("relay: this cannot be sent as JSON: %w", err)
	}
	data := bytes.TrimRight(frame.Bytes(), "\n")
	if len(data)-4 > frameBytesBound {
		return nil, &RefusedError{CodeTooLarge, fmt.Sprintf("the message has more than %d bytes", frameBytesBound), "", id}
	}
	binary.BigEndian.PutUint32(data, uint32(len(data)-4))
	return data, nil
}

// newID returns a UUID of version 4.
func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic("relay: the system has no random numbers: " + err.Error())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
