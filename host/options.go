package host

import (
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/metrics"
)

// Defaults of Options.
const (
	DefaultMaxAwake    = 1000
	DefaultIdleTimeout = 30 * time.Second
	defaultTurnTimeout = 30 * time.Second
	defaultMailbox     = 64
	DefaultAwayTimeout = time.Minute
	defaultCouriers    = 64
	defaultRescan      = 5 * time.Second
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// Store are the options of the store that the host opens on the engine; its Host is
	// the host's name to others on the same engine. nil means the zero Options. Logger and
	// Metrics are the host's where the store's are nil.
	Store *greenroom.Options
	// MaxAwake bounds the actors in memory. For one more, the one that has been idle for
	// longest is put to sleep; if all are busy, the caller waits as long as
	// its context allows. 0 means 1000.
	MaxAwake int
	// Couriers bounds what wakes actors at once to bring them messages of others, and as
	// many bring messages to actors that are awake. 0 means a quarter of MaxAwake, and no
	// more than 64.
	Couriers int
	// Letters bound what actors send to others, of types without bounds of their own. nil
	// means that there are none.
	Letters *Letters
	// IdleTimeout is how long an actor without anything to do stays in memory. 0 means 30
	// seconds, a negative value that it goes at once.
	IdleTimeout time.Duration
	// TurnTimeout ends the context of a turn, and the SQL that runs in it. What the actor's
	// code does without its context nothing can end. 0 means 30 seconds, a negative value
	// no bound.
	TurnTimeout time.Duration
	// Mailbox bounds the turns that wait for one actor: more are ErrOverloaded. 0 means 64.
	Mailbox int
	// AwayTimeout is how long the client of a hibernating connection may be away, counted
	// from when the actor has woken without it, until the connection is disconnected. 0
	// means a minute, a negative value for ever.
	AwayTimeout time.Duration
	// Rescan is how often the host looks in the store for actors that must be woken: so soon it finds what
	// another process has stored. What its own process stores in an actor it hears of when the actor is closed. 0 means
	// 5 seconds; one look reads a page of an index, and what hosts there are if there is more than one.
	Rescan time.Duration
	// Traces makes the host record the turns of each actor as spans in the actor's own keys; nil
	// means that it records none.
	Traces *greenroom.TracesOptions
	// Peers, unless it is nil, has the host forward what is asked of actors that other hosts of the store have, and take what those forward: calls,
	// messages, and what else Host does with an Address. On an engine that one process has open it does nothing.
	Peers *Peers
	// Logger takes what goes wrong, and what actors log. nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what happens (Metrics lists it), unless it is nil.
	Metrics metrics.Sink
}

// orDefault returns o with its zero fields replaced.
func (o *Options) orDefault() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.MaxAwake = orInt(r.MaxAwake, DefaultMaxAwake)
	r.Couriers = orInt(r.Couriers, min(max(1, r.MaxAwake/4), defaultCouriers))
	r.Mailbox = orInt(r.Mailbox, defaultMailbox)
	r.IdleTimeout = orTime(r.IdleTimeout, DefaultIdleTimeout)
	r.TurnTimeout = orTime(r.TurnTimeout, defaultTurnTimeout)
	r.AwayTimeout = orTime(r.AwayTimeout, DefaultAwayTimeout)
	r.Rescan = orTime(r.Rescan, defaultRescan)
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return r
}

func orInt(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

func orTime(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// backoff is how long to wait after attempts that failed.
func backoff(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), maxBackoff)
}

const maxBackoff = 5 * time.Minute
