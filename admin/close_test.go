package admin_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// Reluctant are actors of a store, whose visits end some time after their contexts.
type reluctant struct {
	admin.Actors
	began, given, release chan struct{}
}

func (r *reluctant) Visit(ctx context.Context, id actorstore.ID, fn func(context.Context, *greenroom.Actor) error) error {
	return r.Actors.Visit(ctx, id, func(ctx context.Context, a *greenroom.Actor) error {
		close(r.began)
		<-ctx.Done()
		close(r.given)
		<-r.release
		return fn(context.WithoutCancel(ctx), a)
	})
}

// TestCloseWaits: Close gives up what takes long, and waits until that doesn't use the store any more, though its client has gone.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := greenroom.New(t.Context(), memkv.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &served{T: t, store: store}
		s.put("room")
		slow := &reluctant{store, make(chan struct{}), make(chan struct{}), make(chan struct{})}
		ln := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		server, err := admin.Serve(t.Context(), ln, store, &admin.Options{
			Logger: slog.New(slog.DiscardHandler), Actors: slow, Tokens: []admin.Token{{Name: "ops", Role: admin.RoleWrite, Secret: writeSecret}},
		})
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: ln.dial}
		defer transport.CloseIdleConnections()
		answered := make(chan error, 1)
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://greenroom/v1/actors/room/keys/put", strings.NewReader(`{"key":"late","value":"dg=="}`))
			if err != nil {
				answered <- err
				return
			}
			req.Header = bearer(writeSecret)
			resp, err := transport.RoundTrip(req)
			if err == nil {
				err = errors.Join(errors.New("it is answered"), resp.Body.Close())
			}
			answered <- err
		}()
		<-slow.began
		closed := make(chan error, 1)
		go func() { closed <- server.Close() }()
		<-slow.given
		if err := <-answered; err == nil || err.Error() == "it is answered" {
			t.Errorf("the client: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v, and an actor is being visited", err)
		default:
		}
		close(slow.release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		var late []byte
		err = store.View(t.Context(), "room", func(v *greenroom.View) (err error) {
			late, err = v.Get([]byte("late"))
			return err
		})
		if err != nil || string(late) != "v" {
			t.Errorf("after Close the key has %q, %v", late, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
