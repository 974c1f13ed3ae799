package greenroom

import (
	"bytes"
	"slices"

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

// of returns the options with what the actor says itself, none of which is nil but Traces.
func (o *ActorOptions) of(a *Actor) ActorOptions {
	d := orZero(o)
	db, q, tr := orZero(d.DB), orZero(d.Queue), orZero(d.Traces)
	db.Env, db.MayWrite, db.Pragmas = a.env, a.outside, slices.Clone(db.Pragmas)
	q.Env, tr.Env = a.env, a.env
	d.DB, d.Queue, d.Input = &db, &q, bytes.Clone(d.Input)
	if d.Traces != nil {
		d.Traces = &tr
	}
	return d
}

// orZero returns what o points to, and the zero T if o is nil.
func orZero[T any](o *T) (v T) {
	if o != nil {
		v = *o
	}
	return v
}
