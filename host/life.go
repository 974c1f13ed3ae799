package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/callrow"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/internal/metering"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// A life is an actor's stay in memory. One goroutine, main, opens its parts, runs its
// turns, and closes everything; what else it starts only asks for turns.
type life struct {
	stay
	host  *Host
	kind  *kind
	addr  Address
	birth *birth // nil: the actor must exist
	log   *slog.Logger

	ctx    context.Context // ends when the actor is to sleep, or was lost
	cancel context.CancelFunc
	steady context.Context // doesn't end
	turns  context.Context // of turns, which are part of going to sleep, too: ends with the host, or when all is over
	end    context.CancelFunc

	mailbox chan *turn // turns that users ask for
	inner   chan *turn // turns that the actor's own parts ask for, also while it goes to sleep
	over    chan struct{}

	failure   error // why it didn't wake; written before woken is closed
	stillborn bool  // it was to be created, which failed, and nothing of it is stored; likewise

	// What follows belongs to main.
	course   course
	creation creation
	door     *greenroom.Actor  // main sets it with host.mu held, with which others read it
	actor    *actorstore.Actor // of door, and so are its parts
	conns    connections
	record   *persist.Record
	queue    *queue.Queue
	recorder
	workflow *flow
	vars     any
	gate     gate
	out      outbox
	used     metering.Stay
	turn     context.Context                 // of the turn that runs, nil for none
	seen     map[mailrow.Sender]mailrow.Seen // what has come from other actors, of those of late
	answered *callrow.Index                  // calls with idempotency keys whose results are stored; nil until the first one of the stay
	had      actorstore.Wake                 // what the store said when it woke
	seq      uint64                          // of the actor's newest commit, when it woke
	woke     time.Time                       // when that was
	found    map[string]int                  // messages by name, when it woke although versions of its type had tried
	strange  bool                            // a turn has scheduled what its type can't do
	inLine   inLine
	running  atomic.Bool    // of the workflow, whose goroutine sets it
	sources  sync.WaitGroup // of goroutines that ask for turns
	destroy  bool           // the actor is to be removed, with everything that it has
	restore  func() error   // what is done at the end instead; nil for nothing
	restored bool           // that was done, and the actor is to sleep on; written before left is closed
}

// report logs an error that has no caller.
func (l *life) report(what string, err error) {
	var p *panicError
	switch {
	case errors.As(err, &p):
		l.log.Error("host: "+what, slog.Any("panic", p.value), slog.String("stack", string(p.stack)))
	case err != nil && !errors.Is(err, context.Canceled):
		l.log.Error("host: "+what, slog.Any("error", err))
	}
}
