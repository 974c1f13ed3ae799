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
