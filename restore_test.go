package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/queue"
)

// A saved is a store with a backup.
type saved struct {
	*testing.T
	*greenroom.Store
	writer *archive.Writer
}

func newSaved(t *testing.T) *saved {
	engine, err := pebblekv.Open(filepath.Join(t.TempDir(), "store"), nil)
	must(t, err)
	to, err := bucket.Folder(filepath.Join(t.TempDir(), "backup"))
	must(t, err)
	w, err := archive.Start(engine, to, &archive.Options{Every: time.Millisecond})
	must(t, err)
	store, err := greenroom.New(t.Context(), engine, nil)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(store.Close(), w.Close(), engine.Close())) })
	return &saved{t, store, w}
}

// change runs fn with the actor shop.
func (s *saved) change(fn func(tx *greenroom.Tx) error) (mark archive.Bookmark) {
	s.Helper()
	a, err := s.Actor(s.Context(), "shop", nil)
	must(s, err)
	must(s, a.Update(s.Context(), fn))
	mark, err = a.Bookmark(s.Context())
	must(s, errors.Join(err, a.Close()))
	return mark
}

// tells returns what the actor has, in a line.
func (s *saved) tells() (line string) {
	s.Helper()
	a, err := s.Actor(s.Context(), "shop", &greenroom.ActorOptions{MustExist: true})
	must(s, err)
	must(s, a.View(s.Context(), func(v *greenroom.View) error {
		var rows int
		if err := v.QueryRow("SELECT count(*) FROM t").Scan(&rows); err != nil {
			return err
		}
		key, err := v.Get([]byte("key"))
		if err != nil && !errors.Is(err, greenroom.ErrNotFound) {
			return err
		}
		messages := 0
		for _, err := range v.Messages(nil) {
			if err != nil {
				return err
			}
			messages++
		}
		events, err := v.Events()
		if err != nil {
			return err
		}
		state, err := v.RawState()
		line = fmt.Sprintf("%d rows, key %q, %d messages, %d events, state %q, schema %d", rows, key, messages, len(events), state, v.Info().Attributes.Schema)
		return err
	}))
	must(s, a.Close())
	return line
}

func (s *saved) wants(want string) {
	s.Helper()
	if got := s.tells(); got != want {
		s.Errorf("the actor has %s, want %s", got, want)
	}
}

// write writes to every part of an actor.
func writeAll(tx *greenroom.Tx) error {
	if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1); PRAGMA user_version = 3"); err != nil {
		return err
	}
	if err := tx.Put([]byte("key"), []byte("then")); err != nil {
		return err
	}
	if _, err := tx.Enqueue(queue.Send{Name: "m"}); err != nil {
		return err
	}
	if _, err := tx.At(time.Now().Add(-time.Minute), "ring"); err != nil {
		return err
	}
	return tx.SetRawState([]byte{0x01})
}

const then = `1 rows, key "then", 1 messages, 1 events, state "\x01", schema 3`

// TestRestore: an actor is what it was, and what it was before that, and after it was dropped; what it sends goes on, and what left is named.
func TestRestore(t *testing.T) {
	s := newSaved(t)
	mark := s.change(writeAll)
	var last queue.ID
	s.change(func(tx *greenroom.Tx) (err error) {
		for range 5 {
			if last, err = tx.Enqueue(queue.Send{Name: "m"}); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT INTO t VALUES (2), (3); PRAGMA user_version = 4"); err != nil {
			return err
		}
		for n, size := range []int{1, 100_000} {
			l := mailrow.Letter{Number: uint64(n), To: fmt.Sprint("chat/", n), Name: "word", Body: make([]byte, size), Sent: 1_700_000_000_000}
			tx.Batch().Put(mailrow.LetterKey(l.Number), l.Append(nil))
		}
		return tx.Delete([]byte("key"))
	})
	s.change(func(tx *greenroom.Tx) error {
		tx.Batch().Delete(mailrow.LetterKey(0)) // it has come
		return tx.SetRawState([]byte{0x02})
	})
	const now = `3 rows, key "", 6 messages, 1 events, state "\x02", schema 4`
	s.wants(now)

	r, err := s.Restore(t.Context(), "shop", mark, nil)
	must(t, err)
	s.wants(then)
	sent := time.UnixMilli(1_700_000_000_000)
	if want := []greenroom.Left{{"chat/0", "word", sent}, {"chat/1", "word", sent}}; !slices.Equal(r.Left, want) || r.More {
		t.Errorf("%v left, more %t; want %v", r.Left, r.More, want)
	}
	s.change(func(tx *greenroom.Tx) error {
		id, err := tx.Enqueue(queue.Send{Name: "m"})
		if id != last+1 {
			t.Errorf("the next message is %d after %d", id, last)
		}
		return err
	})
	back, err := s.Restore(t.Context(), "shop", r.Before, nil)
	must(t, err)
	s.wants(now)
	if len(back.Left) > 0 {
		t.Errorf("%v left", back.Left)
	}
	must(t, s.Drop(t.Context(), "shop"))
	r, err = s.Restore(t.Context(), "shop", mark, nil)
	must(t, err)
	s.wants(then)
	if len(r.Left) != 2 {
		t.Errorf("%v left", r.Left)
	}
	if _, err := s.Restore(t.Context(), "shop", r.Before, nil); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("to where it wasn't there: %v", err)
	}
	for f, err := range s.Lower().Check(t.Context()) {
		t.Errorf("%v, %v", f, err)
	}
}

// TestRestoreOpen: an actor that is open goes with its parts, and is closed; what is due waits.
func TestRestoreOpen(t *testing.T) {
	s := newSaved(t)
	mark := s.change(writeAll)
	a, err := s.Actor(t.Context(), "shop", nil)
	must(t, err)
	a.SQL() // all parts are open
	must(t, a.Update(t.Context(), writeAll))
	_, err = s.Restore(t.Context(), "shop", mark, nil)
	if !errors.Is(err, greenroom.ErrInUse) {
		t.Errorf("beside a handle: %v", err)
	}
	_, err = a.Restore(t.Context(), archive.Bookmark{Archive: mark.Archive, Line: 9, Number: 1}, nil)
	if !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("to what there isn't: %v", err)
	}
	must(t, a.Update(t.Context(), writeAll)) // it goes on
	_, err = a.Restore(t.Context(), mark, nil)
	must(t, err)
	if err := a.Update(t.Context(), writeAll); !errors.Is(err, greenroom.ErrClosed) {
		t.Errorf("after it: %v", err)
	}
	s.wants(then)
	wakes := func() (n int) {
		for _, err := range s.Lower().Wakes(t.Context(), time.Now().Add(time.Hour), true) {
			must(t, err)
			n++
		}
		return n
	}
	if wakes() > 0 {
		t.Error("it is to be woken")
	}
	_, err = s.Restore(t.Context(), "shop", mark, &greenroom.RestoreOptions{Wake: true})
	must(t, err)
	if wakes() != 1 {
		t.Error("it isn't to be woken")
	}
}

// TestRestoreRefused: without a backup there are no bookmarks, and what is refused leaves the actor as it was.
func TestRestoreRefused(t *testing.T) {
	none, err := greenroom.New(t.Context(), memkv.New(), nil)
	must(t, err)
	defer none.Close()
	a, err := none.Actor(t.Context(), "shop", nil)
	must(t, err)
	_, err = a.Bookmark(t.Context())
	_, rerr := none.Restore(t.Context(), "other", archive.Bookmark{}, nil)
	if !errors.Is(err, greenroom.ErrUnsupported) || !errors.Is(rerr, greenroom.ErrUnsupported) {
		t.Errorf("without a backup: %v, %v", err, rerr)
	}
	must(t, a.Close())

	s := newSaved(t)
	mark := s.change(writeAll)
	s.change(func(tx *greenroom.Tx) error { return tx.Put([]byte("key"), make([]byte, 9000)) })
	now := s.tells()
	_, err = s.Restore(t.Context(), "shop", mark, &greenroom.RestoreOptions{MaxBytes: 8})
	if !errors.Is(err, greenroom.ErrTooLarge) || !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("too much: %v", err)
	}
	_, err = s.Restore(t.Context(), "nobody", mark, nil)
	if !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("an actor that never was: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Restore(over, "shop", mark, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := s.Lower().View(t.Context(), actorstore.IDFromName("nobody")); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("what was refused has made an actor: %v", err)
	}
	s.wants(now)
}

// TestRestoreNames: an actor keeps the name that it has, and one that was dropped doesn't get a name that another one has by now.
func TestRestoreNames(t *testing.T) {
	s := newSaved(t)
	mark := s.change(writeAll)
	id := actorstore.IDFromName("shop")
	make := func(id actorstore.ID, name string) {
		t.Helper()
		a, err := s.Lower().Actor(t.Context(), id, &actorstore.ActorOptions{Name: name})
		must(t, err)
		must(t, errors.Join(a.User().Put(t.Context(), []byte("key"), []byte("now")), a.Close()))
	}
	must(t, s.Drop(t.Context(), "shop"))
	make(id, "bazaar")
	_, err := s.RestoreID(t.Context(), id, mark, nil)
	must(t, err)
	must(t, s.ViewID(t.Context(), id, func(v *greenroom.View) error {
		if key, err := v.Get([]byte("key")); err != nil || string(key) != "then" || v.Info().Name != "bazaar" {
			t.Errorf("%s has %q, %v", v.Info().Name, key, err)
		}
		return nil
	}))
	must(t, s.DropID(t.Context(), id))
	make(actorstore.NewID(), "shop")
	_, err = s.RestoreID(t.Context(), id, mark, nil)
	if !errors.Is(err, actorstore.ErrNameTaken) {
		t.Errorf("its name is another's: %v", err)
	}
}
