package front_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A counter, served on loopback to every client on this machine.
func ExampleNew() {
	ctx := context.Background()
	add := host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
		return total, err
	})
	counter := &host.Type{Name: "counter", Actions: []host.AnyAction{add}}
	engine := memkv.New()
	h, err := host.Open(ctx, engine, []*host.Type{counter}, nil)
	if err != nil {
		log.Fatal(err)
	}
	secret, err := front.StoredSecret(ctx, engine)
	if err != nil {
		log.Fatal(err)
	}
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: secret})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(f) // a program uses f.Server(), for its time limits

	for _, args := range []string{"2", "40", `"x"`} {
		resp, err := http.Post(server.URL+"/actors/counter/lobby/actions/add", "application/json", strings.NewReader(args))
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body))
	}
	// First the clients, then the actors.
	if err := f.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	server.Close()
	if err := h.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 200 2
	// 200 42
	// 400 {"code":"bad_arguments","message":"The action \"add\" takes an integer."}
}

// Each user may call one account, and the boss may call any. Here a header names the user; a real program looks at a session, or at a token (package jwt).
func ExampleOptions_authorize() {
	ctx := context.Background()
	spend := host.NewAction("spend", func(c *host.Context, n int) (left int, err error) {
		if n > 10 && c.Caller().ID != "boss" {
			return 0, &host.Error{Code: "too_much", Message: "Only the boss may spend so much."}
		}
		err = greenroom.Mutate(c, func(t *int) error { *t -= n; left = *t; return nil })
		return left, err
	})
	account := &host.Type{Name: "account", Actions: []host.AnyAction{spend}}
	engine := memkv.New()
	h, err := host.Open(ctx, engine, []*host.Type{account}, nil)
	if err != nil {
		log.Fatal(err)
	}
	secret, err := front.StoredSecret(ctx, engine)
	if err != nil {
		log.Fatal(err)
	}
	f, err := front.New(h, &front.Options{Secret: secret, Authorize: func(_ context.Context, r *http.Request, a *front.Access) (*host.Caller, error) {
		user := r.Header.Get("User")
		switch {
		case user == "":
			return nil, front.ErrUnauthenticated
		case user != "boss" && a.Actor.Key != user:
			return nil, fmt.Errorf("account of %s, not of %s", a.Actor.Key, user) // for the log
		}
		return &host.Caller{ID: user}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(f)
	for _, call := range []struct{ user, of, amount string }{
		{"", "ann", "1"}, {"bob", "ann", "1"}, {"ann", "ann", "3"}, {"ann", "ann", "30"}, {"boss", "ann", "30"},
	} {
		r, err := http.NewRequest("POST", server.URL+"/actors/account/"+call.of+"/actions/spend", strings.NewReader(call.amount))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User", call.user)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body))
	}
	if err := f.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	server.Close()
	if err := h.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 401 {"code":"unauthorized","message":"The request does not say from whom it is."}
	// 403 {"code":"forbidden","message":"This is not allowed."}
	// 200 -3
	// 422 {"code":"too_much","message":"Only the boss may spend so much."}
	// 200 -33
}
