// Package fleet carries requests between the hosts of a store over HTTP, so that any of them takes any call: what is asked of an actor
// that another host has goes there, once.
//
//	POST /fleet/v1/request    a request of a host.Host, which host.Host.Answer answers
//	GET  /fleet/v1/socket     a WebSocket of a client of another host, which package front serves
//
// Each request is signed with a secret that lies in the store and is replaced once a day (package signed): for one host, over the method, the path, the
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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrOptions: Open was given options that make no sense; the text says which.
var ErrOptions = errors.New("fleet: bad options")

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
	opts   Options
	keys   *signed.Keys
	client *http.Client
	log    *slog.Logger
}

// Open returns the place of a host on an engine. It reads the secret of the store's hosts, or makes one. In an empty engine it makes the store.
//
// Errors: ErrOptions, and those of the engine.
func Open(ctx context.Context, engine kv.Engine, o *Options) (*Fleet, error) {
	f := &Fleet{opts: *o, log: o.Logger}
	if f.log == nil {
		f.log = slog.Default()
	}
	if f.opts.DialTimeout <= 0 {
		f.opts.DialTimeout = 2 * time.Second
	}
	if err := actorstore.CheckAddress(o.Address); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if !f.safe(o.Address) {
		return nil, fmt.Errorf("%w: other hosts would send requests to %s unencrypted, since it is neither https:// nor of loopback", ErrOptions, o.Address)
	}
	if err := actorstore.Make(ctx, engine); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	var err error
	f.keys, err = signed.Open(ctx, engine, &signed.Options{NotRotated: func(err error) {
		f.log.Warn("fleet: the secret of the hosts could not be replaced", slog.Any("error", err))
	}})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	f.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: f.opts.DialTimeout}).DialContext,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    f.opts.DialTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f, nil
}

// maxIdle bounds the connections to a host that are kept while nothing goes over them.
const maxIdle = 256

// safe says whether requests may be sent to an address.
func (f *Fleet) safe(address string) bool {
	if f.opts.Insecure || strings.HasPrefix(address, "https://") {
		return true
	}
	name, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(name)
	return err == nil && (name == "localhost" || ip != nil && ip.IsLoopback())
}

// Peers returns what host.Options need.
func (f *Fleet) Peers() *host.Peers {
	return &host.Peers{Address: f.opts.Address, Carry: f, Here: f.opts.Here}
}

// Close ends the connections to other hosts over which nothing goes. The Fleet's Host is closed before.
func (f *Fleet) Close() { f.client.CloseIdleConnections() }

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
