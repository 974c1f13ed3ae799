package conn_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
)

// The record of an actor and its connections are saved by one timer and one commit,
// whichever of them has changed.
func TestWithPersist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		eng := faultkv.New(memkv.New())
		store, err := actorstore.Open(ctx, eng, nil)
		check(err)
		actor, err := store.Named(ctx, "lobby", nil)
		check(err)

		var rec *persist.Record
		var mu sync.Mutex
		var acked []conn.Index
		set, err := conn.Open(ctx, actor, &conn.Options{
			Save: func(ctx context.Context) error {
				return rec.Save(ctx, &persist.SaveOptions{Immediate: true})
			},
			OnAck: func(acks []conn.Ack) {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range acks {
					acked = append(acked, a.Index)
				}
			},
		})
		check(err)
		rec, err = persist.Open(ctx, actor, &persist.Options{Create: true, Connections: set})
		check(err)
		state, err := persist.OpenState[int](ctx, rec, nil)
		check(err)
		c, err := set.Create(lobby)
		check(err)
		time.Sleep(time.Minute)
		synctest.Wait()

		// Both change, and a save was just made: one commit. The connection alone changes:
		// one as well.
		for i, change := range []func(){
			func() { check(state.Set(ctx, 7)) },
			func() {},
		} {
			check(c.Subscribe(string(rune('a' + i))))
			time.Sleep(time.Second)
			synctest.Wait()
			eng.Reset()
			change()
			_, err := c.Received(conn.Index(i+1), 10)
			check(err)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := eng.Counts().Commits; n != 1 {
				t.Errorf("%d: %d commits, want 1", i, n)
			}
		}
		mu.Lock()
		if !slices.Equal(acked, []conn.Index{1, 2}) {
			t.Errorf("acknowledged %v, want 1 and 2", acked)
		}
		mu.Unlock()
		if set.Changed() != 0 || !rec.Saved() {
			t.Errorf("%d connections have changed, record saved: %v", set.Changed(), rec.Saved())
		}
		check(rec.Close(ctx))
		check(set.Close(ctx))
		check(actor.Close())
		check(store.Close())
		check(eng.Close())
	})
}

// Connections that somebody's batch has landed without a wait are on stable storage when
// Save or Close of the actor's record say so.
func TestLanded(t *testing.T) {
	for _, end := range []func(context.Context, *persist.Record) error{
		func(ctx context.Context, r *persist.Record) error {
			return r.Save(ctx, &persist.SaveOptions{Immediate: true})
		},
		func(ctx context.Context, r *persist.Record) error { return r.Close(ctx) },
	} {
		ctx := context.Background()
		eng := faultkv.New(memkv.New())
		store, err := actorstore.Open(ctx, eng, nil)
		check(err)
		actor, err := store.Named(ctx, "lobby", nil)
		check(err)
		set, err := conn.Open(ctx, actor, &conn.Options{
			Save: func(context.Context) error { return nil }, // nothing by itself
		})
		check(err)
		rec, err := persist.Open(ctx, actor, &persist.Options{Create: true, Connections: set})
		check(err)
		if n := set.Landed(); n != 0 {
			t.Errorf("landed %d, and nothing has", n)
		}
		c, err := set.Create(lobby)
		check(err)
		for _, stage := range []func(*batch.Batch) error{
			set.Stage,
			func(b *batch.Batch) error { return set.StageDisconnect(b, c) },
		} {
			var b batch.Batch
			check(stage(&b))
			check(actor.Apply(ctx, &b))
			if n := set.Landed(); n != actor.Seq() {
				t.Errorf("landed %d, want %d", n, actor.Seq())
			}
		}
		eng.Reset()
		check(end(ctx, rec))
		if n := eng.Counts(); n.Commits != 0 || n.Syncs != 1 {
			t.Errorf("%+v", n)
		}
		check(rec.Close(ctx))
		check(set.Close(ctx))
		check(actor.Close())
		check(store.Close())
		check(eng.Close())
	}
}

// A state that the actor has no room for doesn't keep connections from being saved, nor
// their acknowledgements.
func TestStateWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store, err := actorstore.Open(ctx, memkv.New(), &actorstore.Options{Limits: batch.Limits{Storage: 4000}})
		check(err)
		actor, err := store.Named(ctx, "lobby", nil)
		check(err)
		var rec *persist.Record
		var mu sync.Mutex
		var log bytes.Buffer // of the connections; read when all are closed
		var acked []conn.Index
		set, err := conn.Open(ctx, actor, &conn.Options{
			Save: func(ctx context.Context) error {
				return rec.Save(ctx, &persist.SaveOptions{Immediate: true})
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnAck: func(acks []conn.Ack) {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range acks {
					acked = append(acked, a.Index)
				}
			},
		})
		check(err)
		rec, err = persist.Open(ctx, actor, &persist.Options{Create: true, Connections: set, SaveInterval: time.Hour})
		check(err)
		state, err := persist.OpenState[string](ctx, rec, nil)
		check(err)
		c, err := set.Create(lobby)
		check(err)
		check(rec.Save(ctx, &persist.SaveOptions{Immediate: true}))
		check(actor.Put(ctx, []byte{4}, make([]byte, 3000)))
		check(state.Set(ctx, string(make([]byte, 2000))))
		for i := range conn.Index(3) {
			_, err = c.Received(i+1, 10)
			check(err)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := set.Changed(); n != 0 {
				t.Errorf("message %d: %d connections have changed", i+1, n)
			}
		}
		mu.Lock()
		if !slices.Equal(acked, []conn.Index{1, 2, 3}) {
			t.Errorf("acknowledged %v, want 1 to 3", acked)
		}
		mu.Unlock()
		if rec.Saved() {
			t.Error("the state is saved")
		}
		check(actor.Delete(ctx, []byte{4}))
		check(rec.Close(ctx))
		check(set.Close(ctx))
		if log.Len() > 0 {
			t.Errorf("log: %s", log.String())
		}
		check(actor.Close())
		check(store.Close())
	})
}
