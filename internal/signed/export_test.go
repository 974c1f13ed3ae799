package signed

import (
	"context"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// RowKey is the key of the row of secrets.
var RowKey = rowKey

// Bounds of the receiver's memory.
const (
	MostSessions = mostSessions
	WindowSize   = windowSize
)

// OpenWith is Open with a source of random bytes.
func OpenWith(ctx context.Context, engine kv.Engine, o *Options, random func([]byte)) (*Keys, error) {
	return open(ctx, engine, o, random)
}

// As returns a Keys that sends in another session, and receives as k does.
func (k *Keys) As(session [16]byte) *Keys {
	return &Keys{now: k.now, skew: k.skew, secrets: k.secrets, session: session, received: k.received}
}

// Skip lets the next signature have the counter n.
func (k *Keys) Skip(n uint64) { k.counter.Store(n - 1) }

// Sessions returns how many sessions k remembers.
func (k *Keys) Sessions() int {
	k.received.mu.Lock()
	defer k.received.mu.Unlock()
	return len(k.received.sessions)
}

// ReadRow returns when the secrets of a row were made, newest first, and the row as it is written anew.
func ReadRow(row []byte) (created []time.Time, again []byte, err error) {
	list, err := parseRow(row)
	for i := range list {
		created = append(created, time.UnixMilli(list[i].created))
	}
	return created, appendRow(nil, list), err
}
