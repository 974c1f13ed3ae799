package greenroom

import (
	"log/slog"
	"slices"

	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// Options of the parts of an actor are those of the parts' packages. What ties the parts together is the actor's, whatever they
// say: Env, vfs.Options.MayWrite, and workflow.Options.Queue and RunContext.

// QueueOptions change the queue of an actor: see queue.Options.
type QueueOptions = queue.Options

// DBOptions change the database of an actor: see vfs.Options.
type DBOptions = vfs.Options

// TracesOptions change how the spans of an actor are recorded: see traces.Options.
type TracesOptions = traces.Options

// WorkflowOptions change the workflow of an actor: see workflow.Options.
type WorkflowOptions = workflow.Options

// dbOptions returns the options of the database of a. They are made when a part is opened, since most actors leave most
// parts alone.
func dbOptions(o *DBOptions, a *Actor) *vfs.Options {
	d := orZero(o)
	d.Env, d.MayWrite, d.Pragmas = partEnv(a.log, a), a.outside, slices.Clone(d.Pragmas)
	return &d
}

// queueOptions returns the options of the queue of a.
func queueOptions(o *QueueOptions, a *Actor) *queue.Options {
	d := orZero(o)
	d.Env = partEnv(a.log, a)
	return &d
}

// tracesOptions returns the options of the spans of a.
func tracesOptions(o *TracesOptions, a *Actor) *traces.Options {
	d := orZero(o)
	d.Env = partEnv(a.log, a)
	return &d
}

// partEnv returns what the parts of a share, with their logger.
func partEnv(log *slog.Logger, a *Actor) part.Env {
	return part.Env{Clock: a.clock, Logger: log, Metrics: a.store.opts.Metrics}
}

// orZero returns what o points to, and the zero T if o is nil.
func orZero[T any](o *T) (v T) {
	if o != nil {
		v = *o
	}
	return v
}
