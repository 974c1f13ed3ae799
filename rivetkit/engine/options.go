package engine

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Options change what Open does.
type Options struct {
	// RunnerTokens are the tokens with which runners connect, and ClientTokens those of clients; a
	// runner's token opens everything. Without any, every client that can reach the engine is let in.
	RunnerTokens, ClientTokens []string
	// Origins are those of pages that may read answers, as browsers write them; empty means all if there are
	// tokens, and pages of this machine if there are none.
	Origins []string
	// Hosts are the names by which the engine may be addressed, without a port. Empty means any name if there are tokens, and
	// those of loopback if there are none.
	Hosts []string

	// LostThreshold is how long the actors of a runner are left alone that has lost its connection. 0 means 15 seconds.
	LostThreshold time.Duration
	// BrokenThreshold is how long they are left alone if the connection has broken off, as that of a killed program does, and another
	// runner of the name is connected. 0 means a third of LostThreshold.
	BrokenThreshold time.Duration
	// StartThreshold and StopThreshold are how long an actor may take to start and to stop. 0 means 30 seconds.
	StartThreshold, StopThreshold time.Duration
	// ReadyTimeout is how long a request waits for its actor to run. 0 means 10 seconds.
	ReadyTimeout time.Duration
	// AnswerTimeout is how long a request waits until its answer begins, a WebSocket until the actor takes it, and a message over one until
	// it may be stored. 0 means 5 minutes.
	AnswerTimeout time.Duration
	// PingInterval is how often runners are pinged. 0 means 3 seconds.
	PingInterval time.Duration

	// MaxBody bounds the body of a request, and of an answer, in bytes. 0 means 20 MiB.
	MaxBody int64
	// Memory bounds what clients send and are sent, requests, answers and messages alike, while it is in memory, in bytes. One
	// remote address may have a quarter of it, and one actor an eighth, though never less than four times MaxBody. While that is full
	// a client isn't read from, and what an actor says to it is refused; clients that don't read or write then are cut off.
	// 0 means 512 MiB.
	Memory int64
	// MaxSockets bounds the WebSockets of clients that are open at once; half of them may be from one remote address. 0 means any number.
	MaxSockets int
	// MaxPending bounds the bytes that wait for an actor over one WebSocket; the client isn't read from when there are
	// more. 0 means 4 MiB.
	MaxPending int
	// MaxKept bounds the bytes that are stored for an actor which it hasn't acknowledged; sockets for which something is stored aren't read
	// from when there are more, and none are when there is twice as much. 0 means 16 MiB.
	MaxKept int
	// MaxQueued bounds the bytes that wait to be sent over the WebSocket of one client; a slower one is cut off. 0 means 16 MiB.
	MaxQueued int

	// Peers make the engine one of several that share a store; nil for one that passes nothing on to others, nor they to it.
	Peers *Peers

	// Store changes how the store is opened; nil means with its defaults.
	Store *actorstore.Options
	// Version is what /metadata says.
	Version string
	// Logger takes what goes wrong; nil means slog.Default().
	Logger *slog.Logger
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
}

// Peers make an Engine one of several that share a store: what an actor of another one is asked for here goes there. Where all users of the kv.Engine are in
// one process they mean nothing.
type Peers struct {
	// Address is where the other engines reach this one: HOST:PORT, or https://HOST:PORT if TLS is spoken there, as actorstore.CheckAddress says. What is
	// served there is the Engine.
	Address string
	// Insecure lets engines send requests unencrypted to addresses that aren't of loopback.
	Insecure bool
	// TLS is for connections to other engines, such as with the certificates that sign theirs; nil means those of the system. It must not change.
	TLS *tls.Config
}

func (o *Options) withDefaults() Options {
	var all Options
	if o != nil {
		all = *o
	}
	orElse(&all.LostThreshold, 15*time.Second)
	orElse(&all.BrokenThreshold, all.LostThreshold/3)
	orElse(&all.StartThreshold, 30*time.Second)
	orElse(&all.StopThreshold, 30*time.Second)
	orElse(&all.ReadyTimeout, 10*time.Second)
	orElse(&all.AnswerTimeout, 5*time.Minute)
	orElse(&all.PingInterval, 3*time.Second)
	orElse(&all.MaxBody, 20<<20)
	orElse(&all.Memory, 512<<20)
	orElse(&all.MaxPending, 4<<20)
	orElse(&all.MaxKept, 16<<20)
	orElse(&all.MaxQueued, 16<<20)
	if all.Logger == nil {
		all.Logger = slog.Default()
	}
	if all.Clock == nil {
		all.Clock = time.Now
	}
	return all
}

func orElse[T comparable](v *T, d T) {
	if zero := *new(T); *v == zero {
		*v = d
	}
}

// startPause is after how long an actor may be started again that could not be.
const startPause = time.Second

// writeTimeout is how long a peer may take to take a piece of what it is sent.
const writeTimeout = 30 * time.Second
