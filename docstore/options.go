package docstore

import (
	"context"
	"log/slog"

	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/tuple"
)

// Options are the options of Open. The zero value is what a nil *Options means.
type Options struct {
	// Compat writes sets of less than 64 members as Implexus does: as one array, in the order in which the members
	// came. Writers of different documents conflict then.
	Compat bool
	// Hooks run in the transaction of each change, after it, in their order.
	Hooks []Hook
	// Transactions are those of the transactions that the store runs in.
	Transactions txn.Options
	// Logger hears of upkeep of text indexes that failed, which the next one makes good; nil means slog.Default.
	Logger *slog.Logger
	// Metrics receives what is counted; nil means nothing is.
	Metrics metrics.Sink
}

// A Hook is called after a change, in its transaction, and may change more, which calls the hooks again; at a depth of
// 16 that is ErrOperation. An error of a hook is returned by the method that changed something, and the transaction
// should not be committed then: Store.Update doesn't if its function returns the error. The event is
// the hook's while it runs.
type Hook func(ctx context.Context, tx *Tx, e *Event) error

// An Event is one change of one entity.
type Event struct {
	Op   Op
	Path Path
	From Path // where the entity was before, if Op is OpMove
	Kind Kind
	// Label is the type of a document, now or, if it was deleted, before.
	Label string
	// Before and After are the properties of a document: nil where it didn't exist.
	Before, After Properties
}

// An Op says what has changed.
type Op uint8

// The changes that hooks are called for.
const (
	OpCreate Op = 1 + iota
	OpUpdate
	OpDelete
	OpMove
)

// String returns the name, "create" for example.
func (o Op) String() string {
	if o < OpCreate || o > OpMove {
		return "unknown"
	}
	return [...]string{"create", "update", "delete", "move"}[o-1]
}

// formatVersion is that of the rows.
const formatVersion = 1

// An env is what a store's transactions share.
type env struct {
	sub      tuple.Subspace
	opts     Options
	meter    metrics.Meter
	programs *programs
	bounds   bounds
}
