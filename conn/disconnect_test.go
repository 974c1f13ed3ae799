package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// Memory first, then OnDisconnect, then the record. An error of the hook is logged, and
// changes nothing.
func TestDisconnectOrder(t *testing.T) {
	var log bytes.Buffer
	var r *room
	var calls []string
	opts := quiet()
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	opts.OnDisconnect = func(_ context.Context, c *Conn, reason string) error {
		_, listed := r.set.Get(c.ID())
		_, found := r.set.Find(c.Gateway(), c.Request())
		_, stored := r.stored()[c.ID()]
		var state string
		must(t, c.DecodeState(&state))
		calls = append(calls, fmt.Sprint(reason, " listed ", listed, " found ", found, " subscribed ",
			len(r.set.Subscribers(nil, "tick")), " stored ", stored, " state ", state))
		return errors.New("the hook failed")
	}
	r = open(t, opts)
	c := r.create(1)
	must(t, c.Subscribe("tick"))
	must(t, c.SetState("here"))
	r.save()
	must(t, r.set.Disconnect(ctx, c, "bye"))
	if want := []string{"bye listed false found false subscribed 0 stored true state here"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if len(r.stored()) != 0 || !c.Gone() {
		t.Error("it is still there")
	}
	if !strings.Contains(log.String(), "the hook failed") {
		t.Errorf("the hook's error is not logged: %s", log.String())
	}
}

// A delete that fails is reported, and tried again with the next save, whoever makes it.
func TestDeleteRetried(t *testing.T) {
	for name, save := range map[string]func(r *room) error{
		"Save": func(r *room) error { return r.set.Save(ctx) },
		"Stage": func(r *room) error {
			var b batch.Batch
			must(r.t, r.set.Stage(&b))
			return r.actor.Commit(ctx, &b)
		},
		"Close": func(r *room) error { return r.set.Close(ctx) },
		"Cleanup": func(r *room) error {
			r.create(9)
			n, err := r.set.Cleanup(ctx, "")
			if n != 1 {
				r.t.Errorf("cleaned up %d, want 1", n)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			opts := quiet()
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			r := open(t, opts)
			c := r.create(1)
			r.save()
			r.refuse()
			err := r.set.Disconnect(ctx, c, "")
			var left *DeleteError
			if !errors.As(err, &left) || !errors.Is(err, ErrDelete) || !errors.Is(err, kv.ErrTooLarge) || left.ID != c.ID() || left.Tries != 1 {
				t.Fatalf("Disconnect: %v, want a DeleteError", err)
			}
			if !strings.Contains(log.String(), string(c.ID())) {
				t.Errorf("it is not logged: %s", log.String())
			}
			if _, ok := r.set.Get(c.ID()); ok || !c.Gone() {
				t.Error("it is still in memory")
			}
			r.refuse()
			if err := save(r); err == nil {
				t.Fatal("the second failure is not reported")
			}
			if u := r.set.Undeleted(); !slices.ContainsFunc(u, func(e *DeleteError) bool {
				return e.ID == c.ID() && e.Tries >= 1 && e.Err != nil
			}) {
				t.Errorf("Undeleted: %v", u)
			}
			if len(r.stored()) != 1 {
				t.Fatal("nothing failed")
			}
			must(t, save(r))
			if u := r.set.Undeleted(); len(u) != 0 || len(r.stored()) != 0 {
				t.Errorf("it is left: %v, %d stored", u, len(r.stored()))
			}
			r.crash()
			if r.set.Len() != 0 {
				t.Error("a ghost is back after a restart")
			}
			r.healthy()
		})
	}
}

// Nobody has to save: the delete is tried again by itself.
func TestDeleteRetriedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, Options{})
		c := r.create(1)
		synctest.Wait() // until it has been saved, at once
		r.refuse()
		if err := r.set.Disconnect(ctx, c, ""); !errors.Is(err, ErrDelete) {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if len(r.stored()) != 0 || r.set.Undeleted() != nil {
			t.Errorf("%d are left: %v", len(r.stored()), r.set.Undeleted())
		}
	})
}

// A delete whose caller had no time is not forgotten either.
func TestDisconnectCancelled(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.set.Disconnect(cancelled, c, ""); !errors.Is(err, ErrDelete) || !errors.Is(err, context.Canceled) {
		t.Fatalf("Disconnect: %v", err)
	}
	if u := r.set.Undeleted(); len(u) != 1 {
		t.Errorf("Undeleted: %v", u)
	}
	r.save()
	r.same()
	if len(r.stored()) != 0 {
		t.Error("it is left")
	}
}

// A crash before the delete leaves a connection without a transport, which Cleanup finds.
func TestCleanup(t *testing.T) {
	var reasons []string
	opts := quiet()
	opts.OnDisconnect = func(_ context.Context, c *Conn, reason string) error {
		reasons = append(reasons, reason)
		return nil
	}
	r := open(t, opts)
	for i := range 5 {
		r.create(i)
	}
	ephemeral, err := r.set.Create(Info{Ephemeral: true})
	must(t, err)
	r.save()
	conns := r.set.Conns()
	kept := conns[slices.IndexFunc(conns, func(c *Conn) bool { return !c.Ephemeral() })]
	if _, err := kept.Attach("transport"); err != nil {
		t.Fatal(err)
	}
	n, err := r.set.Cleanup(ctx, "no transport")
	if err != nil || n != 4 {
		t.Fatalf("cleaned up %d, %v, want 4", n, err)
	}
	if len(reasons) != 4 || reasons[0] != "no transport" {
		t.Errorf("OnDisconnect: %q", reasons)
	}
	if r.set.Len() != 2 || kept.Gone() || ephemeral.Gone() {
		t.Errorf("%d are left", r.set.Len())
	}
	r.same()
	r.eng.Reset()
	if n, err := r.set.Cleanup(ctx, ""); n != 0 || err != nil || r.eng.Counts().Commits != 0 {
		t.Errorf("a second time: %d, %v, %+v", n, err, r.eng.Counts())
	}
}

func TestStageDisconnect(t *testing.T) {
	for _, order := range []string{"connection first", "set first"} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprint(order, ", stored ", stored), func(t *testing.T) {
				r := open(t, quiet())
				c := r.create(1)
				if stored {
					r.save()
				}
				must(t, c.SetState("changed"))
				for _, lands := range []bool{false, true} {
					var b batch.Batch
					if order == "set first" {
						must(t, r.set.Stage(&b))
					}
					must(t, r.set.StageDisconnect(&b, c))
					if order != "set first" {
						must(t, r.set.Stage(&b))
					}
					var other batch.Batch
					if err := r.set.StageDisconnect(&other, c); !errors.Is(err, ErrLeaving) {
						t.Errorf("staged twice: %v", err)
					}
					if c.Gone() {
						t.Error("it is gone before the batch has landed")
					}
					if !lands {
						r.refuse()
					}
					if err := r.actor.Commit(ctx, &b); (err == nil) != lands {
						t.Fatal(err)
					}
					if c.Gone() != lands {
						t.Errorf("gone %v, want %v", c.Gone(), lands)
					}
				}
				if len(r.stored()) != 0 {
					t.Error("it is stored")
				}
				r.save()
				r.same()
				r.healthy()
			})
		}
	}
}

// A batch that is given up gives the connection back; one that meets a Disconnect lands.
func TestStageDisconnectRaces(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	var b batch.Batch
	must(t, r.set.StageDisconnect(&b, c))
	b.Abort(nil)
	must(t, c.SetState("alive"))
	r.save()
	r.same()
	b.Reset()
	must(t, r.set.StageDisconnect(&b, c))
	must(t, c.SetState("still"))
	r.save() // the batch may never land: what it wants to remove is saved meanwhile
	r.same()
	must(t, r.set.Disconnect(ctx, c, ""))
	must(t, r.actor.Commit(ctx, &b))
	if len(r.stored()) != 0 || r.set.Undeleted() != nil {
		t.Error("it is left")
	}
	r.healthy()
}

// A delete that has landed with a part of a batch, and not the rest, leaves a connection
// whose record is written again.
func TestStageDisconnectInPart(t *testing.T) {
	r := openLimited(t, quiet(), batch.Limits{Entries: 2})
	c := r.create(1)
	r.save()
	b := batch.Batch{Mode: batch.Ordered}
	must(t, r.set.StageDisconnect(&b, c))
	b.Late(func(b *batch.Batch) error {
		for k := range byte(3) {
			b.Put([]byte{4, k}, nil)
		}
		return nil
	})
	r.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
	if err := r.actor.Commit(ctx, &b); err == nil || len(r.stored()) != 0 {
		t.Fatalf("%v, %d stored: not a part has landed", err, len(r.stored()))
	}
	if c.Gone() {
		t.Error("it is gone")
	}
	r.save()
	r.same()
	r.healthy()
}

// Close saves what hibernates, and says goodbye to what doesn't, for as long as that may
// take.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		parted := make(chan string, 2)
		opts := quiet()
		opts.OnDisconnect = func(ctx context.Context, c *Conn, reason string) error {
			parted <- reason
			<-ctx.Done()
			<-ended // it doesn't listen
			return ctx.Err()
		}
		r := open(t, opts)
		kept := r.create(1)
		must(t, kept.SetState("kept"))
		gone, err := r.set.Create(Info{Ephemeral: true})
		must(t, err)
		start := time.Now()
		must(t, r.set.Close(ctx))
		if d := time.Since(start); d != 1500*time.Millisecond {
			t.Errorf("Close took %v, want 1.5 s", d)
		}
		if reason := <-parted; !gone.Gone() || kept.Gone() || reason != "actor stopped" || len(parted) > 0 {
			t.Errorf("gone %v and %v, parted %q and %d more", gone.Gone(), kept.Gone(), reason, len(parted))
		}
		close(ended)
		synctest.Wait()
		r.crash()
		r.same()
		if r.set.Len() != 1 {
			t.Errorf("%d connections, want the one that hibernates", r.set.Len())
		}
	})
}

// A Close that can't save says so, lets nothing new in, and may be called again.
func TestCloseFails(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.refuse()
	if err := r.set.Close(ctx); !errors.Is(err, kv.ErrTooLarge) {
		t.Fatalf("Close: %v", err)
	}
	if _, err := r.set.Create(info(2)); !errors.Is(err, ErrClosed) {
		t.Errorf("Create: %v", err)
	}
	must(t, c.SetState("late"))
	must(t, r.set.Close(ctx))
	r.crash()
	r.same()
	if r.set.Len() != 1 {
		t.Error("it is lost")
	}
}

// What was staged before Close and lands after it writes nothing old.
func TestStagedBeforeClose(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	var b, d batch.Batch
	must(t, r.set.Stage(&b))
	must(t, r.set.StageDisconnect(&d, c))
	must(t, r.set.Close(ctx))
	must(t, r.actor.Commit(ctx, &b))
	if err := r.actor.Commit(ctx, &d); !errors.Is(err, ErrClosed) {
		t.Errorf("a disconnect after Close: %v", err)
	}
	if len(r.stored()) != 1 {
		t.Error("the record is gone")
	}
}

// The hook of a fault that comes after a commit was applied: the save is in the store,
// and the Set doesn't claim that it is safe.
func TestNotDurable(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	r.acks.take()
	if _, err := c.Received(1, 1); err != nil {
		t.Fatal(err)
	}
	r.eng.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
	if err := r.set.Save(ctx); err == nil {
		t.Fatal("Save is fine with a sync that failed")
	}
	if got := r.acks.take(); got != nil {
		t.Errorf("acknowledged %v, and nothing is on stable storage", got)
	}
}
