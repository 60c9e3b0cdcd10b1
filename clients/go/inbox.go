package relay

// stream is one sender's messages on one topic.
type stream struct{ peer, topic string }

// inbox has received messages, and tells which are duplicates. Client.mu guards it.
type inbox struct {
	unread      []*Message
	unreadBytes int
	open        *recent[string, struct{}] // ids of deliveries that the program has, or will get
	settled     *recent[string, struct{}] // ids of those that were acknowledged
	once        *recent[string, struct{}] // ids of those at most once
	outcomes    *recent[string, struct{}] // ids of ACKs and NACKs about messages
	positions   *recent[stream, int64]    // the last number of each stream
}

func newInbox() inbox {
	ids := func() *recent[string, struct{}] { return newRecent[string, struct{}](seenMax) }
	return inbox{
		open: ids(), settled: ids(), once: ids(), outcomes: ids(),
		positions: newRecent[stream, int64](streamsMax),
	}
}

// isFull tells whether that many times the usual number of messages is unread.
func (i *inbox) isFull(limits *limits, times int) bool {
	return len(i.unread) >= times*limits.unread || i.unreadBytes >= times*unreadBytes
}

// add queues a message unless it is a duplicate.
func (i *inbox) add(m *Message) {
	if i.open.has(m.ID) || i.settled.has(m.ID) || i.once.has(m.ID) {
		return
	}
	if m.RequiresAck {
		i.open.put(m.ID, struct{}{})
	} else {
		i.once.put(m.ID, struct{}{})
	}
	i.unread = append(i.unread, m)
	i.unreadBytes += m.size
}

// pop returns the next message, or nil.
func (i *inbox) pop() *Message {
	if len(i.unread) == 0 {
		return nil
	}
	m := i.unread[0]
	i.unread[0] = nil
	i.unread = i.unread[1:]
	i.unreadBytes -= m.size
	return m
}

// isNewOutcome tells whether an answer has not come before. After a crash, the daemon repeats some.
func (i *inbox) isNewOutcome(id, about string) bool {
	key := id + " " + about
	if i.outcomes.has(key) {
		return false
	}
	i.outcomes.put(key, struct{}{})
	return true
}

// note notes the number of a delivery in its stream.
func (i *inbox) note(peer, topic string, seq int64) {
	of := stream{peer, topic}
	if last, _ := i.positions.get(of); last > seq {
		seq = last
	}
	i.positions.put(of, seq)
}
