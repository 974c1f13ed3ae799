package serve_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/serve"
)

// A program whose main is a line: go run . data --listen :6420 --token-file tokens
func ExampleMain() {
	add := host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
		return total, err
	})
	counter := &host.Type{Name: "counter", Actions: []host.AnyAction{add}}

	serve.Main(counter)
}

// One that serves a page beside the actors, behind a proxy that says in a header which user it has let in. Users reach their own carts.
func ExampleConfig_Main() {
	cart := &host.Type{Name: "cart"}
	program := &serve.Config{
		Types: []*host.Type{cart},
		Pages: http.FileServer(http.Dir("pages")),
		Authorize: func(_ context.Context, r *http.Request, a *front.Access) (*host.Caller, error) {
			user := r.Header.Get("X-User")
			if user == "" {
				return nil, front.ErrUnauthenticated
			}
			if a.Actor.Key != user {
				return nil, errors.New("the cart of another user")
			}
			return &host.Caller{ID: user}, nil
		},
	}

	program.Main()
}
