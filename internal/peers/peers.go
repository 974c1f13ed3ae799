// Package peers sends HTTP requests from one process that serves a store to another, and verifies them there. Each is signed with a secret of the store
// (package signed): for one process, over the method, the path, the query, the body, the time, a number that counts once, and what the sender says beside
// that. Nothing is encrypted by that: between machines it takes TLS. The package knows neither hosts of actors nor engines of RivetKit programs, which
// say what they ask of each other.
//
// Files, from the top down:
//
//	peers.go receive.go
package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrOptions: Open was given options that make no sense; the text says which.
var ErrOptions = errors.New("peers: bad options")

// Options are what Open needs.
type Options struct {
	// Address is where the others reach this process: HOST:PORT, or https://HOST:PORT if TLS is spoken there, as actorstore.CheckAddress says.
	Address string
	// Insecure lets requests go unencrypted to addresses that aren't of loopback.
	Insecure bool
	// TLS is for connections to others, such as with the certificates that sign theirs; nil means those of the system. It must not change.
	TLS *tls.Config
	// DialTimeout bounds connecting to another process. 0 means 2 seconds.
	DialTimeout time.Duration
	// Logger takes what is refused; nil means slog.Default().
	Logger *slog.Logger
}

// Peers are the other processes that serve a store, as one of them sees them. It is safe for concurrent use.
type Peers struct {
	opts   Options
	keys   *signed.Keys
	client *http.Client
}

// maxIdle bounds the connections to a process that are kept while nothing goes over them.
const maxIdle = 256

// Open returns the Peers of a process on an engine. It reads the secret of the store, or makes one. In an empty engine it makes the store.
//
// Errors: ErrOptions, and those of the engine.
func Open(ctx context.Context, engine kv.Engine, o *Options) (*Peers, error) {
	p := &Peers{opts: *o}
	if p.opts.Logger == nil {
		p.opts.Logger = slog.Default()
	}
	if p.opts.DialTimeout <= 0 {
		p.opts.DialTimeout = 2 * time.Second
	}
	if err := actorstore.CheckAddress(o.Address); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if !p.Safe(o.Address) {
		return nil, fmt.Errorf("%w: others would send requests to %s unencrypted, since it is neither https:// nor of loopback", ErrOptions, o.Address)
	}
	if err := actorstore.Make(ctx, engine); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	var err error
	p.keys, err = signed.Open(ctx, engine, &signed.Options{NotRotated: func(err error) {
		p.opts.Logger.Warn("peers: the secret of the store's hosts could not be replaced", slog.Any("error", err))
	}})
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	p.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: p.opts.DialTimeout}).DialContext,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    p.opts.DialTimeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // an answer is passed on as it is
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Address is that of the Options.
func (p *Peers) Address() string { return p.opts.Address }

// Close ends the connections to others over which nothing goes.
func (p *Peers) Close() { p.client.CloseIdleConnections() }

// Safe says whether requests may be sent to an address.
func (p *Peers) Safe(address string) bool {
	if p.opts.Insecure || strings.HasPrefix(address, "https://") {
		return true
	}
	name, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(name)
	return err == nil && (name == "localhost" || ip != nil && ip.IsLoopback())
}

// URL returns the beginning of the URLs of another process. It is an error if what is sent there would go unencrypted, and may not.
func (p *Peers) URL(to *actorstore.HostInfo) (string, error) {
	at := to.Offer.Address
	switch {
	case !p.Safe(at):
		return "", fmt.Errorf("host %q is at %s, to which requests would go unencrypted", to.Name, at)
	case strings.HasPrefix(at, "https://"):
		return at, nil
	}
	return "http://" + at, nil
}

// Sign signs a request, whose body is body, for another process, with what the sender says of its caller and beside that. It is forwarded for the first time. The
// errors are those of signed.Keys.Sign.
func (p *Peers) Sign(ctx context.Context, r *http.Request, body []byte, to *actorstore.HostInfo, caller, rest []byte) error {
	return p.keys.Sign(ctx, r, body, &signed.Statement{To: to.ID, Hop: 1, Caller: caller, Rest: rest})
}

// Client returns the client for signed requests, which follows no redirects and encodes nothing. It must not change.
func (p *Peers) Client() *http.Client { return p.client }

// Do sends a signed request, whose body is nil or has a GetBody, and again if its connection ends that was used before: another process takes a request once. sent says, if there is an
// error, whether something of the request has left this process, and else whether that was so before it was sent again: then an answer by which nothing was done may be that of a process
// which has taken the place of the one that did it.
func (p *Peers) Do(r *http.Request) (answer *http.Response, sent bool, err error) {
	var begun, reused atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:      func(c httptrace.GotConnInfo) { reused.Store(c.Reused) },
		WroteHeaders: func() { begun.Store(true) },
	}))
	answer, err = p.client.Do(r)
	sent = begun.Load()
	if err == nil {
		return answer, false, nil
	}
	if reused.Load() && r.Context().Err() == nil {
		// A connection over which nothing went may end just as a request goes over it.
		if err = nil; r.GetBody != nil {
			r.Body, err = r.GetBody()
		}
		if err == nil {
			answer, err = p.client.Do(r)
		}
	}
	return answer, sent || err != nil && begun.Load(), err
}
