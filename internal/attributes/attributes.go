// Package attributes says by what an actor is found, from what the actor stores: the state of its workflow and the version of its
// schema. The packages whose data that is keep the attributes of their actors right in their own commits; this package is for those
// that store such data as it comes, and for building the index of a store that was made without one.
package attributes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/rivettables"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// Set sets those attributes that follow from what r shows. If the state of the workflow is another one than at has, Since is when the state was stored.
//
// Errors are those of reading; at is as it was then.
func Set(ctx context.Context, r actorstore.Reader, at *actorstore.Attributes) error {
	state, stuck, since, err := found(ctx, r)
	if err != nil {
		return err
	}
	schema, err := vfs.Schema(ctx, r)
	if err != nil {
		return err
	}
	if at.Workflow != state {
		at.Workflow, at.Since = state, since
	}
	at.Stuck, at.Schema = stuck, schema
	return nil
}

// found returns by which state of its workflow the actor is found that r shows, under its keys or in tables of its database.
func found(ctx context.Context, r actorstore.Reader) (state string, stuck bool, since time.Time, err error) {
	if r.Layout() != actorstore.LayoutRivetKit {
		return workflow.Found(ctx, r)
	}
	var db *vfs.DB
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	defer func() {
		if unreadable(whole, db, err) {
			err = fmt.Errorf("attributes: %w: the tables of the actor's program: %w", actorstore.ErrCorrupt, err)
		}
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	tables, err := rivettables.Of(ctx, r, func() (_ *sql.DB, err error) {
		if db, err = vfs.OpenReader(ctx, r, nil); err != nil {
			return nil, err
		}
		return db.DB, nil
	})
	if err != nil {
		return "", false, since, err
	}
	if tables == nil {
		return workflow.Found(whole, r)
	}
	state, stuck, err = tables.Found()
	for e, bad := range r.List(ctx, actorstore.ListOptions{Prefix: actorstore.PagesHeadKey()}) { // of its last commit: the state's, or a later one
		since, err = e.Updated, errors.Join(err, bad)
	}
	return state, stuck, since, err
}

// mostTime is how long the tables of an actor's program may take to be read: their rows may be many, and without an index.
const mostTime = 2 * time.Second

// unreadable says whether an error of reading tables, nil for none, is due to what the program has stored, and not to the store or to ctx, which bounds all.
func unreadable(ctx context.Context, db *vfs.DB, err error) bool {
	return err != nil && ctx.Err() == nil && (vfs.Damaged(err) || db != nil && (db.Cause() == nil || errors.Is(err, context.DeadlineExceeded)))
}

// SetReadable is Set, but for what is damaged: at stays as it is then.
func SetReadable(ctx context.Context, r actorstore.Reader, at *actorstore.Attributes) error {
	err := Set(ctx, r, at)
	if errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) {
		return nil
	}
	return err
}

// Stage has the attributes that follow from what an actor stores land with b: as it is stored before b lands. What is damaged doesn't refuse b, and
// leaves them as they are.
func Stage(ctx context.Context, a *actorstore.Actor, b *batch.Batch) {
	a.StageAttributes(b, func(at *actorstore.Attributes) error { return SetReadable(ctx, a, at) })
}

// Repair stores the attributes that follow from what an actor stores, in a commit that doesn't wait for stable storage; without one if
// they are stored already. Errors are those of Set and of actorstore.Actor.Apply.
func Repair(ctx context.Context, a *actorstore.Actor) error {
	var b batch.Batch
	Stage(ctx, a, &b)
	return a.Apply(ctx, &b)
}

// Wrong reports whether a view has other attributes than those that follow from what it shows, and which those are.
func Wrong(ctx context.Context, v *actorstore.View) (want actorstore.Attributes, wrong bool, err error) {
	has := v.Info().Attributes
	want = has
	if err := Set(ctx, v, &want); err != nil {
		return has, false, err
	}
	return want, !want.Equal(&has), nil
}
