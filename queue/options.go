package queue

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/part"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// MaxMessages bounds the messages of all names together: more are a *FullError. 0
	// means 1000, a negative value no bound. Dead letters are let in.
	MaxMessages int
	// MaxMessageBytes bounds a message as it is stored, in bytes: a larger one is a
	// *SizeError. 0 means the largest value there can be, which is the actor's limit on
	// values less what a lease and the name of a dead letter add. A larger value is
	// ErrOptions.
	MaxMessageBytes int
	// Visibility is how long a received message stays invisible, unless the receiver
	// says otherwise. 0 means 30 seconds; to the millisecond.
	Visibility time.Duration
	// MaxReceive is how often a message is handed out before it becomes a dead letter.
	// 0 means for ever. One whose receiver fails with a Permanent error becomes one before that.
	MaxReceive int
	// DeadLetter is appended to a message's name when it becomes a dead letter; names
	// that end with it have no dead letters. "" means ".dlq".
	DeadLetter string
	// Names, unless it is nil, are the only names that Enqueue takes: others are
	// ErrUnknownName.
	Names []string
	// Plain keeps leases, delays and counts in memory alone, for actors that are also
	// opened by readers that don't know these fields: what is stored then means the same
	// to all. A restart ends every lease; a delayed Enqueue is ErrPlain. What others
	// have stored with these fields is read all the same.
	Plain bool
	// KeyWindow is how long a sender's key is remembered. 0 means 5 minutes.
	KeyWindow time.Duration
	// MaxKeys bounds the keys that are remembered: more are ErrKeysFull. 0 means 10,000,
	// and there may be at most actorstore.MaxNotes.
	MaxKeys int
	// MemoryBytes bounds the bodies that are kept in memory, in bytes. 0 means 1 MiB, a
	// negative value none.
	MemoryBytes int
	// Env is what the parts of an actor share. Its clock rings for delayed messages and the ends of leases.
	part.Env
}

// Defaults of Options.
const (
	defaultMaxMessages = 1000
	defaultVisibility  = 30 * time.Second
	defaultDeadLetter  = ".dlq"
	defaultKeyWindow   = 5 * time.Minute
	defaultMaxKeys     = 10_000
	defaultMemoryBytes = 1 << 20
)

// settings are what Open fixes: the actor, its Options with their defaults, and what follows from them. They don't change
// afterwards, so no lock guards them.
type settings struct {
	actor *actorstore.Actor
	opts  Options
	names map[string]bool // nil: any
	limit int             // of a stored value
	most  int             // of one that becomes a dead letter, or is one
	tells bool            // what is stored may say which attempts have failed

	clock    *alarm.Clock
	ownClock bool
	log      *slog.Logger
	meter    metrics.Meter
}

// init checks the options and puts the defaults in.
func (s *settings) init() error {
	o := &s.opts
	o.MaxMessages = cmp.Or(o.MaxMessages, defaultMaxMessages)
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	o.DeadLetter = cmp.Or(o.DeadLetter, defaultDeadLetter)
	o.KeyWindow = cmp.Or(o.KeyWindow, defaultKeyWindow)
	o.MaxKeys = cmp.Or(o.MaxKeys, defaultMaxKeys)
	o.MemoryBytes = cmp.Or(o.MemoryBytes, defaultMemoryBytes)
	limits := s.actor.Limits()
	s.limit = limits.ValueSize
	// As a dead letter it takes a commit with the message before and the metadata, and the
	// length of its name may take a byte more.
	s.most = min(s.limit, limits.Payload-burialRoom)
	s.tells = !o.Plain && s.actor.Layout() != actorstore.LayoutRivetKit
	most := s.most - leaseRoom - len(o.DeadLetter) - 1
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, most)
	switch {
	case o.MaxMessageBytes > most || o.MaxMessageBytes < 0:
		return fmt.Errorf("%w: MaxMessageBytes is %d, and a value may have %d", ErrOptions, o.MaxMessageBytes, most)
	case o.Visibility < time.Millisecond:
		return fmt.Errorf("%w: Visibility is %v", ErrOptions, o.Visibility)
	case o.MaxReceive < 0 || o.MaxReceive > math.MaxInt32:
		return fmt.Errorf("%w: MaxReceive is %d", ErrOptions, o.MaxReceive)
	case o.KeyWindow < 0:
		return fmt.Errorf("%w: KeyWindow is %v", ErrOptions, o.KeyWindow)
	case o.MaxKeys < 0 || o.MaxKeys > actorstore.MaxNotes:
		return fmt.Errorf("%w: MaxKeys is %d, limit %d", ErrOptions, o.MaxKeys, actorstore.MaxNotes)
	}
	if o.Names != nil {
		s.names = map[string]bool{}
		for _, name := range o.Names {
			s.names[name] = true
		}
	}
	if s.clock = o.Clock; s.clock == nil {
		s.clock, s.ownClock = alarm.New(nil), true
	}
	if s.log = o.Logger; s.log == nil {
		s.log = slog.Default()
	}
	s.meter.To = o.Metrics
	return nil
}

// burialRoom is what a commit that makes a dead letter takes besides its value, in bytes.
const burialRoom = 3*(maxMessageKey+batch.WrapperBytes) + metadataSize

// millis is the time of day in Unix milliseconds.
func (s *settings) millis() int64 { return s.clock.Now().UnixMilli() }

// visibility is Options.Visibility in milliseconds.
func (s *settings) visibility() int64 { return after(0, s.opts.Visibility) }

// room is how many bytes the actor may store besides what it does.
func (s *settings) room() int64 { return s.actor.Limits().Storage - s.actor.Used() }

// dying says whether a message of that name has been handed out often enough.
func (o *Options) dying(name string, l lease) bool {
	return o.MaxReceive > 0 && l.deliveries >= uint32(o.MaxReceive) && o.mortal(name)
}

// mortal says whether messages of that name may become dead letters.
func (o *Options) mortal(name string) bool { return !strings.HasSuffix(name, o.DeadLetter) }

// firstName returns the name that a dead letter had, and whether name is that of a dead letter.
func (o *Options) firstName(name string) (first string, ok bool) {
	return strings.CutSuffix(name, o.DeadLetter)
}
