package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Restore makes a new actor of what an actor had in a state that a backup of the store has; see archive.Archive.Actor. The actor may have
// been dropped since.
var Restore = quiet("restore", "Make a new actor with all that the actor had, of a backup.", restore)

// RestoreIn is the request of Restore.
type RestoreIn struct {
	Bookmark string `json:"bookmark"`       // of the state, as greenroom restore says it
	To       string `json:"to"`             // the name of the new actor, or id: and the text of its id
	Wake     bool   `json:"wake,omitempty"` // it is woken at once, where a host runs it; else it sleeps until it is called
	// Progress, where the store is open in this process, is told how many bytes were copied.
	Progress func(used int64) `json:"-"`
}

func restore(ctx context.Context, on On, actor string, in *RestoreIn) (err error) {
	mark, err := parseBookmark(in.Bookmark)
	if err != nil {
		return err
	}
	opts := actorstore.ForkOptions{Wake: in.Wake, Progress: in.Progress, Attributes: attributes.SetReadable}
	if err := nameNew(&opts, in.To); err != nil {
		return err
	}
	if on.Archive == nil {
		on.Archive = on.archive
	}
	a, err := on.Archive(ctx)
	if err != nil {
		return err
	}
	v, err := a.Actor(ctx, mark, actor)
	if err != nil {
		return notThere(err, actor, mark)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	_, err = on.Store.Lower().Fork(ctx, v.Snapshot, &opts)
	return forkError(in.To, err)
}

func parseBookmark(text string) (archive.Bookmark, error) {
	mark, err := archive.ParseBookmark(text)
	if err != nil {
		err = &Error{Code: "invalid", Message: err.Error()}
	}
	return mark, err
}

// notThere says what the backup doesn't have.
func notThere(err error, actor string, mark archive.Bookmark) error {
	switch {
	case errors.Is(err, archive.ErrNoState):
		return say(err, "the state %s is not in the backup", mark)
	case errors.Is(err, greenroom.ErrNotFound):
		return say(err, "there was no actor %s in the state %s", actor, mark)
	}
	return say(err, "%s", strings.TrimPrefix(err.Error(), "greenroom: "))
}

// Undo makes an actor what it was in a state that the backup has which this process writes of the store; see greenroom.Store.Restore.
var Undo = &StoreVerb[UndoIn, UndoOut]{"undo", "Make the actor what it was, of the backup that the process writes.", undo}

// UndoIn is the request of Undo.
type UndoIn struct {
	Bookmark string     `json:"bookmark,omitempty"` // of the state, as greenroom restore says it
	At       *time.Time `json:"at,omitempty"`       // in its place: the last state at that time or before
	Wake     bool       `json:"wake,omitempty"`     // the actor is woken at once, where a host runs it; else it sleeps until it is called
	// Progress, where the store is open in this process, is told how many bytes were compared.
	Progress func(read int64) `json:"-"`
}

// UndoOut is the answer of Undo.
type UndoOut struct {
	State  string `json:"state"`          // the bookmark of what the actor has
	Before string `json:"before"`         // the bookmark of what the actor had until then
	Left   []Left `json:"left,omitempty"` // what the actor has sent to others since, and isn't undone
	More   bool   `json:"more,omitempty"` // there was more than that, or it isn't known what left
}

// A Left is a message that an actor has sent to another one.
type Left struct {
	To   string    `json:"to"`   // the name of the other actor
	Name string    `json:"name"` // of the message
	Sent time.Time `json:"sent"`
}

func undo(ctx context.Context, on On, actor string, in *UndoIn) (*UndoOut, error) {
	mark, err := markOf(ctx, on, in)
	if err != nil {
		return nil, err
	}
	id, err := idOf(ctx, on.Store, actor)
	if err != nil {
		return nil, err
	}
	r, err := on.Actors.RestoreID(ctx, id, mark, &greenroom.RestoreOptions{Wake: in.Wake, Progress: in.Progress})
	if err != nil {
		return nil, notThere(err, actor, mark)
	}
	out := &UndoOut{State: mark.String(), Before: r.Before.String(), More: r.More}
	for _, l := range r.Left {
		out.Left = append(out.Left, Left(l))
	}
	return out, nil
}

// markOf returns the bookmark of the state that is asked for, of backups with all that was committed by now.
func markOf(ctx context.Context, on On, in *UndoIn) (mark archive.Bookmark, err error) {
	if in.At == nil {
		return parseBookmark(in.Bookmark)
	}
	if in.Bookmark != "" {
		return mark, &Error{Code: "invalid", Message: "a state is named by a bookmark or by a time, not by both"}
	}
	a, err := on.archive(ctx)
	if err == nil {
		mark, _, err = a.At(ctx, *in.At)
	}
	if errors.Is(err, archive.ErrNoState) {
		err = say(err, "no state of %s or before is in the backup", in.At.UTC().Format(time.RFC3339))
	}
	return mark, err
}

// archive opens the backups that this process writes of the store, with all that was committed by now.
func (on On) archive(ctx context.Context) (*archive.Archive, error) {
	w := archive.Of(on.Store.Engine())
	if w == nil {
		return nil, say(errkind.ErrUnsupported, "the process that has the store writes no backups")
	}
	return w.Archive(ctx)
}
