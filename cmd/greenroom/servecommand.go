package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A pageServer is greenroom serve.
type pageServer struct {
	*env
	listen string
	write  bool
}

func (p *pageServer) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve STORE",
		Short: "Serve a page that shows a store",
		Long: `Serve a page in a browser that shows a store: its actors, and what each of them has, which
is tables, keys, messages, workflow, traces, connections and state. It prints a link with a
token, which is good until it ends, and listens on loopback only.

With --write the token may change what is in the store, too; then the store must not be open
in another process, unless it is in PostgreSQL. Without it another process may have the store
open, if it lets tools in: the page shows what that process does when it is loaded again. A
host shows its own store at --admin, with live updates.`,
		Example: `  greenroom serve data`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			near, err := serving.OnLoopback(p.listen)
			if err != nil || !near {
				return serving.Usage(fmt.Sprintf("--listen %s is not an address and a port on loopback", p.listen))
			}
			return p.serve(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&p.listen, "listen", "127.0.0.1:6430", "`address` and port on loopback; port 0 takes any that is free")
	cmd.Flags().BoolVar(&p.write, "write", false, "let the token of the link change what is in the store")
	return cmd
}

// serve serves until ctx ends.
func (p *pageServer) serve(ctx context.Context, url string) error {
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return serving.WithStore(ctx, url, greenroom.Options{Limits: p.limits, Logger: log, MustExist: true, ReadOnly: !p.write}, func(s *storeurl.Store) (err error) {
		ln, err := serving.Listen(ctx, p.listen, false)
		if err != nil {
			return err
		}
		page := serving.NewPage(ln.Addr(), "", log)
		defer page.Close()
		token := admin.Token{Name: "page", Role: admin.RoleRead, Secret: rand.Text()}
		if p.write {
			token.Role = admin.RoleWrite
		}
		api, err := admin.Serve(ctx, ln, s.Store, &admin.Options{Logger: log, Tokens: []admin.Token{token}, Page: page})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, api.Close()) }()
		if _, err := fmt.Fprintf(p.stdout, "serving a page at http://%[1]s\n  open http://%[1]s/login#token=%[2]s\nend it with Ctrl-C\n", ln.Addr(), token.Secret); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}
