// Package signed signs HTTP requests that the hosts of one store send each other, and verifies them. All hosts of a store read the same
// secrets from it, so that a signature says one thing: the sender has the store open. A secret is replaced once a day.
//
// A signature (HMAC-SHA256) covers the method, the path, the query, the body and a Statement, and is good once, for a short time, at one
// host. It hides nothing: TLS does that. The package doesn't send requests, and knows nothing of actors.
//
// A receiver remembers what it has taken, by session and counter, as IPsec and DTLS do (https://www.rfc-editor.org/rfc/rfc4303#section-3.4.3,
// https://www.rfc-editor.org/rfc/rfc6347#section-4.1.2.6). Only senders with a secret make it read or remember anything; but for one read of
// the secrets a second, because a request may name a secret that it hasn't read yet.
//
// Files, from the top down:
//
//	signed.go secrets.go replay.go header.go keys.go errors.go
package signed

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// Options are those of Open. The zero value of a field means the default.
type Options struct {
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Rotate is the age at which a secret is replaced, 24 hours by default, and at least 2*MaxSkew. All hosts of a store have the same.
	Rotate time.Duration
	// MaxSkew is how far the time of a request may be from the receiver's clock, 1 minute by default. It covers both the
	// difference of two clocks and the way. All hosts of a store have the same.
	MaxSkew time.Duration
	// NotRotated is told why a new secret couldn't be stored, at most once per look at the row. Requests go on with the one that there
	// is, so that a full disk doesn't separate the hosts. It may be called by several goroutines, and must not call the Keys. nil ignores it.
	NotRotated func(error)
}

// Keys are the secrets of a store, the sender's session, and the receiver's memory. A process has one for a store. It is safe for
// concurrent use, and needs no Close.
type Keys struct {
	now      func() time.Time
	skew     time.Duration
	secrets  *secrets
	session  [sessionSize]byte
	counter  atomic.Uint64
	received *windows
}

// Open returns the Keys of the store in engine, which must hold a store already (actorstore.Make), because an engine with other rows
// alone is refused for good. The first host to ask makes the secret, by a durable commit. The Keys use engine until it is closed.
//
// Errors: ErrOptions; kv.ErrCorrupt and kv.ErrNewerFormat for the row of secrets; and those of the engine, which are also returned if a
// secret must be made or replaced and the engine refuses commits. With a secret that is new enough Open commits nothing.
func Open(ctx context.Context, engine kv.Engine, o *Options) (*Keys, error) {
	return open(ctx, engine, o, func(b []byte) { _, _ = rand.Read(b) }) // it never fails
}

// open is Open with a source of random bytes.
func open(ctx context.Context, engine kv.Engine, o *Options, random func([]byte)) (*Keys, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Rotate == 0 {
		opts.Rotate = 24 * time.Hour
	}
	if opts.MaxSkew == 0 {
		opts.MaxSkew = time.Minute
	}
	if opts.MaxSkew < time.Millisecond || opts.MaxSkew > maxSkew || opts.Rotate < 2*opts.MaxSkew || opts.Rotate > maxRotate {
		return nil, fmt.Errorf("%w: Rotate is %v, MaxSkew is %v", ErrOptions, opts.Rotate, opts.MaxSkew)
	}
	if opts.NotRotated == nil {
		opts.NotRotated = func(error) {}
	}
	k := &Keys{now: opts.Now, skew: opts.MaxSkew, received: newWindows(2 * opts.MaxSkew)}
	k.secrets = &secrets{
		engine: engine, now: opts.Now, rotate: opts.Rotate, skew: opts.MaxSkew, every: min(opts.Rotate/24, mostLooks),
		notRotated: opts.NotRotated, random: random, reading: make(chan struct{}, 1),
	}
	random(k.session[:])
	if _, err := k.secrets.load(ctx, true); err != nil {
		return nil, err
	}
	return k, nil
}

// Bounds of the options.
const (
	maxSkew   = 24 * time.Hour
	maxRotate = 366 * 24 * time.Hour
)

// Sign signs r, whose body is body (nil for none, and for the handshake of a WebSocket), and sets its header. Method, URL and body
// must not change any more; other headers and the host may. A request that is sent again is signed again, also after an error.
// Sign doesn't set r.Body. It retains neither body nor s.
//
// Errors: ErrRequest, ErrTooLarge, and those of reading the secrets, as of Open. r is unchanged then.
func (k *Keys) Sign(ctx context.Context, r *http.Request, body []byte, s *Statement) error {
	if s.To == [16]byte{} || s.Hop < 1 || s.Hop > maxHop || r.URL == nil || r.URL.Opaque != "" {
		return ErrRequest
	}
	list, err := k.secrets.current(ctx)
	if err != nil {
		return err
	}
	m := message{id: list[0].id, sent: k.now().UnixMilli(), session: k.session, counter: k.counter.Add(1), sum: sha256.Sum256(body), statement: *s}
	value, err := m.header(&list[0], r)
	if err != nil {
		return err
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header[Header] = []string{value}
	return nil
}

// Verify returns what the sender of r has signed, if that is for the host self, and for the first time. r is as it came, before any
// handler has changed its URL. Verify reads nothing of the body: from now on r.Body ends with ErrSignature instead of io.EOF if it isn't what was signed, so what is read
// of it counts only when io.EOF has come. self must be the id of this process alone, as actorstore.HostID is, because another
// Keys doesn't know what this one has taken. The caller owns the Statement.
//
// Errors: ErrSignature, ErrNotMine, ErrSkew, ErrReplayed and ErrBusy, in the order in which they are looked for; and those of reading the
// secrets, as of Open. The request is as if it had not come then: ErrReplayed alone says that an equal one came before.
func (k *Keys) Verify(ctx context.Context, r *http.Request, self [16]byte) (*Statement, error) {
	m, err := parse(r.Header[Header])
	if err != nil {
		return nil, err
	}
	secret, err := k.secrets.find(ctx, m.id)
	if err != nil {
		return nil, err
	}
	if !m.authentic(secret, r) {
		return nil, ErrSignature
	}
	if m.statement.To != self {
		return nil, ErrNotMine
	}
	now := k.now()
	if m.sent < now.Add(-k.skew).UnixMilli() || m.sent > now.Add(k.skew).UnixMilli() {
		return nil, ErrSkew
	}
	if err := k.received.take(now, m); err != nil {
		return nil, err
	}
	body := r.Body
	if body == nil {
		body = http.NoBody
	}
	r.Body = &checkedBody{body, m.sum, sha256.New()}
	return &m.statement, nil
}
