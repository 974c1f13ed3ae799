// Package fleet carries requests between the hosts of a store over HTTP, so that any of them takes any call: what is asked of an actor
// that another host has goes there, once.
//
//	POST /fleet/v1/request    a request of a host.Host, which host.Host.Answer answers
//	GET  /fleet/v1/socket     a WebSocket of a client of another host, which package front serves
//
// Each request is signed with a secret that lies in the store and is replaced once a day (package peers): for one host, over the method, the path, the
// body, the time, a number that counts once, how often it was forwarded, and its caller. Nothing is encrypted by that: between machines it
// takes TLS, see Options.
//
//	peers, err := fleet.Open(ctx, engine, &fleet.Options{Address: "10.0.0.5:6420"})
//	h, err := host.Open(ctx, engine, types, &host.Options{Peers: peers.Peers()})
//	f, err := front.New(h, &front.Options{Fleet: peers, …})
//
// docs/fleet.md says what a user sees.
package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrOptions: Open was given options that make no sense; the text says which.
var ErrOptions = peers.ErrOptions

// Options are what Open needs.
type Options struct {
	// Address is where the other hosts reach this one: HOST:PORT, or https://HOST:PORT if TLS is spoken there, as actorstore.CheckAddress says. What is served
	// there is Handler.
	Address string
	// Insecure lets hosts send requests unencrypted to addresses that aren't of loopback.
	Insecure bool
	// TLS is for connections to other hosts, such as with the certificates that sign theirs; nil means those of the system. It must not change.
	TLS *tls.Config
	// Here is that of host.Peers.
	Here bool
	// DialTimeout bounds connecting to another host; one that takes longer can't be reached. 0 means 2 seconds.
	DialTimeout time.Duration
	// Logger takes what goes wrong; nil means slog.Default().
	Logger *slog.Logger
}

// A Fleet is a host's place among the hosts of its store. It is safe for concurrent use.
type Fleet struct {
	peers *peers.Peers
	here  bool
}

// Open returns the place of a host on an engine. It reads the secret of the store's hosts, or makes one. In an empty engine it makes the store.
//
// Errors: ErrOptions, and those of the engine.
func Open(ctx context.Context, engine kv.Engine, o *Options) (*Fleet, error) {
	p, err := peers.Open(ctx, engine, &peers.Options{Address: o.Address, Insecure: o.Insecure, TLS: o.TLS, DialTimeout: o.DialTimeout, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return &Fleet{p, o.Here}, nil
}

// Peers returns what host.Options need.
func (f *Fleet) Peers() *host.Peers {
	return &host.Peers{Address: f.peers.Address(), Carry: f, Here: f.here}
}

// Close ends the connections to other hosts over which nothing goes. The Fleet's Host is closed before.
func (f *Fleet) Close() { f.peers.Close() }

// A caller is a host.Caller, on its way.
func encodeCaller(c *host.Caller) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	return json.Marshal(c)
}

// withCaller returns a context with the caller of a request.
func withCaller(ctx context.Context, text []byte) (context.Context, error) {
	if text == nil {
		return ctx, nil
	}
	c := &host.Caller{}
	if err := json.Unmarshal(text, c); err != nil {
		return ctx, err
	}
	return host.WithCaller(ctx, c), nil
}
