package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A server is the PostgreSQL server that a run measures on. Each side of a line has a
// store in a schema of its own there.
type server struct {
	url  string        // without a schema
	node *pglocal.Node // nil for a server that was there before
}

// serverSettings are those of a server that is started for a run: all that makes a
// commit durable is on, as it is by default, and no checkpoint falls into one side's
// turn.
var serverSettings = []string{"checkpoint_timeout=1h", "max_wal_size=8GB"}

// openServer returns the server at url; if that is empty, it starts one with its data
// below dir, which ends with stop, or with the process.
func openServer(dir, url string) (*server, error) {
	if url != "" {
		return &server{url: url}, nil
	}
	node, err := pglocal.Temporary(dir, serverSettings...)
	if err != nil {
		return nil, startError(err)
	}
	return &server{node.URL(""), node}, nil
}

// startError says what to do where no server could be started.
func startError(err error) error {
	if errors.Is(err, pglocal.ErrMissing) {
		return fmt.Errorf("-engine postgres starts a PostgreSQL server for the run, but can't here: %w; "+
			"install PostgreSQL 14 or newer (Debian's package is postgresql), or name a server with -engine postgres://USER@HOST/DATABASE", err)
	}
	return fmt.Errorf("start a PostgreSQL server: %w", err)
}

func (s *server) stop() error {
	if s.node == nil {
		return nil
	}
	return s.node.Stop()
}

// describe says what server it is.
func (s *server) describe() string {
	if s.node == nil {
		return storeurl.Display(s.url)
	}
	return "PostgreSQL on this machine, started for this run; fsync and synchronous_commit are on"
}

// newStore returns the address of a store that isn't there: in a schema of a new name.
func (s *server) newStore() string {
	separator := "?"
	if strings.Contains(s.url, "?") {
		separator = "&"
	}
	return s.url + separator + "schema=greenroom_bench_" + strings.ToLower(rand.Text())
}

// parseEngine takes the value of -engine apart: an engine, and the address of a
// PostgreSQL server that is there. Its errors hold no password.
func parseEngine(text string) (engine, address string, err error) {
	switch text {
	case enginePebble, engineMem, enginePostgres:
		return text, "", nil
	}
	kind, address, err := storeurl.Parse(text)
	if err != nil || kind != storeurl.Postgres {
		return "", "", fmt.Errorf("no engine is called %q: %s, %s, %s or postgres://USER@HOST/DATABASE",
			storeurl.Redact(text), enginePebble, engineMem, enginePostgres)
	}
	_, query, _ := strings.Cut(address, "?")
	if q, err := url.ParseQuery(query); err != nil || q.Has("schema") {
		return "", "", errors.New("-engine: the address may not name a schema: every store of a run is in a new one")
	}
	return enginePostgres, address, nil
}
