// Command actorhost serves actors of one type, whose action insert inserts a row and answers with the number of rows: what bench has beside the actor hosts of
// others, in a process of its own as those are.
//
//	actorhost STORE ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: actorhost STORE ADDRESS")
		os.Exit(2)
	}
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "actorhost:", err)
		os.Exit(1)
	}
}

// drain is how long requests may take to end.
const drain = 10 * time.Second

// serve serves until ctx ends.
func serve(ctx context.Context, url, address string) (err error) {
	store, err := storeurl.Open(ctx, url, greenroom.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	h, err := host.Open(ctx, store.Engine(), []*host.Type{bench()}, &host.Options{MaxAwake: 10_000, Mailbox: 256, IdleTimeout: time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	secret, err := front.StoredSecret(ctx, store.Engine())
	if err != nil {
		return err
	}
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: secret})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := f.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err = errors.Join(server.Shutdown(end), f.Shutdown(end))
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// bench is the type of the actors.
func bench() *host.Type {
	return &host.Type{
		Name: "bench",
		Create: func(c *host.Context) error {
			_, err := c.Exec("create table t(id integer primary key, data text not null)")
			return err
		},
		Actions: []host.AnyAction{host.NewAction("insert", func(c *host.Context, data string) (n int64, err error) {
			if _, err := c.Exec("insert into t(data) values(?)", data); err != nil {
				return 0, err
			}
			err = c.QueryRow("select max(id) from t").Scan(&n)
			return n, err
		})},
	}
}
