package greenroom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/queue"
)

// errNoBackup says that there are no bookmarks.
var errNoBackup = errkind.New("greenroom: this process writes no backup of the store, see archive.Start", errkind.ErrUnsupported)

// A backed is what an Actor has in a backup.
type backed struct {
	lower  *actorstore.Actor
	engine kv.Engine
	check  func() error                  // of the Actor
	end    func(last func() error) error // likewise
}

// Bookmark returns the name of the state that the actor has now, for Store.Restore, when it is in the backup of the store: about a second later, as a
// rule. It can be restored as long as the backup keeps it.
//
// Errors: ErrUnsupported if no archive.Writer backs the store up in this process; those of archive.Writer.Sync.
func (b backed) Bookmark(ctx context.Context) (archive.Bookmark, error) {
	if err := b.check(); err != nil {
		return archive.Bookmark{}, err
	}
	w := archive.Of(b.engine)
	if w == nil {
		return archive.Bookmark{}, errNoBackup
	}
	return w.Bookmark(ctx)
}

// RestoreOptions say how Store.Restore goes. The zero value is fine.
type RestoreOptions struct {
	// Wake has the actor woken at once, where a host runs it, to do what is due by the state. Else it sleeps until it is called.
	Wake bool
	// MaxBytes bounds what the commit writes, which is how much the actor and the state differ; 0 means 512 MiB. It takes memory a few times as large.
	MaxBytes int64
	// Progress, unless it is nil, is told now and then how many bytes of the state were compared.
	Progress func(read int64)
}

// Restored is what Store.Restore has done.
type Restored struct {
	// Before names the state that the actor had until then, to go back to; if the actor didn't exist it is one in which it doesn't.
	Before archive.Bookmark
	// Left are messages that the actor has sent to others since the state that was restored, in the order in which it did: they aren't undone. At
	// most MaxLeft are named.
	Left []Left
	// More says that there were more than those, or, if the backup has another lineage since, that it isn't known what left.
	More bool
}

// MaxLeft is how many messages Restored names.
const MaxLeft = 1000

// Left is a message that an actor has sent to another one.
type Left struct {
	To   string // the address of the other actor
	Name string // of the message
	Sent time.Time
}

// Restore is Store.Restore of an actor that is open, and closes it, as Close does. After an error it is closed, too, unless that is one of Close, or says why
// nothing was begun.
func (b backed) Restore(ctx context.Context, to archive.Bookmark, opts *RestoreOptions) (r *Restored, err error) {
	var was undo
	if err := was.open(ctx, b.engine, b.lower.ID(), to, opts); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, was.state.Close()) }()
	err = b.end(func() (err error) {
		r, err = was.do(ctx, b.lower)
		return err
	})
	return r, err
}

// An undo is one call of Restore.
type undo struct {
	opts    RestoreOptions
	writer  *archive.Writer
	archive *archive.Archive
	to      archive.Bookmark
	state   *archive.Actor
	next    queue.ID // above the ids that the actor's queue has given since, as far as that is known
}

// open opens the state.
func (u *undo) open(ctx context.Context, engine kv.Engine, id actorstore.ID, to archive.Bookmark, opts *RestoreOptions) (err error) {
	u.opts, u.to = orZero(opts), to
	if u.writer = archive.Of(engine); u.writer == nil {
		return errNoBackup
	}
	u.archive, err = u.writer.Archive(ctx)
	if err == nil {
		u.state, err = u.archive.Actor(ctx, to, "id:"+id.String())
	}
	if err != nil {
		return fmt.Errorf("greenroom: restore actor %s: %w", id, err)
	}
	return nil
}

// do restores the state.
func (u *undo) do(ctx context.Context, a *actorstore.Actor) (*Restored, error) {
	r := &Restored{}
	var err error
	if r.Before, err = u.writer.Bookmark(ctx); err != nil {
		return nil, err
	}
	err = u.since(ctx, a.ID(), r)
	if errors.Is(err, archive.ErrNoState) {
		r.More, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	back := actorstore.Restoration{
		From: u.state.Snapshot, Wake: u.opts.Wake, MaxBytes: u.opts.MaxBytes, Progress: u.opts.Progress, Attributes: attributes.SetReadable,
		Amend: func(ctx context.Context, now, from actorstore.Reader, b *batch.Batch) error {
			return queue.CarryIDs(ctx, now, from, u.next, b)
		},
	}
	return r, back.Apply(ctx, a)
}

// since finds what the actor has sent since the state, and which ids its queue has given.
func (u *undo) since(ctx context.Context, id actorstore.ID, r *Restored) error {
	for record, err := range u.archive.Changes(ctx, id, u.to, r.Before) {
		if err != nil {
			return err
		}
		var set []kv.Entry
		for op, err := range record.Ops() {
			if err != nil {
				return err
			}
			if op.Value != nil {
				set = append(set, kv.Entry{Key: op.Key, Value: op.Value})
			}
		}
		if err := errors.Join(r.letters(id, set), u.ids(id, set)); err != nil {
			return err
		}
	}
	return nil
}

// letters takes letters that an actor has sent with one commit.
func (r *Restored) letters(id actorstore.ID, set []kv.Entry) error {
	start, end := mailrow.LetterRange()
	for e, err := range actorstore.Puts(id, set, start, end) {
		if err != nil {
			return err
		}
		l, err := mailrow.ParseLetter(e.Key, e.Value)
		if err != nil {
			return err
		}
		if len(r.Left) == MaxLeft {
			r.More = true
			return nil
		}
		r.Left = append(r.Left, Left{To: l.To, Name: l.Name, Sent: time.UnixMilli(l.Sent)})
	}
	return nil
}

// ids takes the ids that the queue had given with one commit.
func (u *undo) ids(id actorstore.ID, set []kv.Entry) error {
	key := u.state.Layout().AppendQueueMetadata(nil)
	for e, err := range actorstore.Puts(id, set, key, append(bytes.Clone(key), 0)) {
		if err != nil {
			return err
		}
		next, err := queue.NextID(e.Value)
		if err != nil {
			return err
		}
		u.next = max(u.next, next)
	}
	return nil
}
