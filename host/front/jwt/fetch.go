package jwt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// maxSet is how many bytes a JWK set has at most.
const maxSet = 512 << 10

// maxRedirects bounds the redirects of a fetch.
const maxRedirects = 3

// fetched are keys that an issuer publishes. There is at most one fetch at a time, and requests that need
// it wait for it together.
type fetched struct {
	opts   Options
	client *http.Client
	ctx    context.Context // of all fetches
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the fetch

	mu     sync.Mutex
	set    *keySet   // +checklocks:mu, nil for none yet
	got    time.Time // +checklocks:mu, when the fetch of set began
	tried  time.Time // +checklocks:mu, when the last fetch began, zero for never
	failed bool      // +checklocks:mu, the last fetch that ended
	call   *call     // +checklocks:mu, the fetch that is under way, nil for none
	closed bool      // +checklocks:mu
}

// A call is a fetch that is under way.
type call struct {
	done chan struct{} // closed at its end
	// awaited says that the keys of before are too old to do without it.
	awaited bool
}

var _ source = (*fetched)(nil)

// newFetched fetches nothing yet.
func newFetched(ctx context.Context, opts Options) *fetched {
	f := &fetched{opts: opts}
	f.ctx, f.cancel = context.WithCancel(ctx)
	client := *opts.Client
	own := client.CheckRedirect
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case !mayFetch(r.URL) || r.URL.Scheme == "http" && via[0].URL.Scheme == "https":
			return errors.New("a redirect leads away from https")
		case len(via) > maxRedirects:
			return errors.New("there are too many redirects")
		case own != nil:
			return own(r, via)
		}
		return nil
	}
	f.client = &client
	return f
}

func (f *fetched) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}

// keys returns the keys of now, see source. It fetches them if there are none, if they are old, or if
// they are lacking, but not more often than every MinInterval.
func (f *fetched) keys(ctx context.Context, lacking *keySet) (*keySet, error) {
	wait := f.begin(lacking)
	if wait == nil {
		return f.known(lacking)
	}
	select {
	case <-wait.done:
		return f.known(lacking)
	case <-ctx.Done():
		return nil, fmt.Errorf("jwt: wait for keys: %w", context.Cause(ctx))
	}
}

// begin starts the fetch that is due, and returns one to wait for, nil for none.
func (f *fetched) begin(lacking *keySet) *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.opts.Now()
	set := f.usable(now)
	needed := set == nil || set == lacking
	old := f.opts.Refresh <= now.Sub(f.got)
	if idle := now.Sub(f.tried); f.call == nil && !f.closed && (needed || old) && (f.tried.IsZero() || idle >= f.opts.MinInterval) {
		f.call = &call{make(chan struct{}), idle >= 2*f.opts.Refresh}
		f.tried = now
		f.wg.Add(1)
		go f.run(f.call, now)
	}
	if f.call != nil && (needed || f.call.awaited) {
		return f.call
	}
	return nil
}

// known returns the keys that there are. An error says that others may come.
func (f *fetched) known(lacking *keySet) (*keySet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.usable(f.opts.Now())
	if set == nil || set == lacking && f.failed {
		return nil, ErrUnavailable
	}
	return set, nil
}

// usable returns the keys that there are, nil if they are too old.
//
// +checklocks:f.mu
func (f *fetched) usable(now time.Time) *keySet {
	if now.Sub(f.got) >= f.opts.MaxStale {
		return nil
	}
	return f.set
}

// run fetches the keys, from the time began on, and ends c.
func (f *fetched) run(c *call, began time.Time) {
	defer f.wg.Done()
	set, err := f.fetch()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed = err != nil; err == nil {
		f.set, f.got = set, began
	}
	if err != nil && !f.closed {
		f.opts.Logger.Warn("jwt: fetch keys", "error", err, "keys", f.set != nil)
	}
	f.call = nil
	close(c.done)
}

// fetch gets the keys once. Its errors have nothing of the URL, which may have a password.
func (f *fetched) fetch() (*keySet, error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.opts.FetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.opts.JWKS, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := f.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers with status %d", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxSet+1))
	switch {
	case err != nil:
		return nil, withoutURL(err)
	case len(body) > maxSet:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxSet)
	}
	set, skipped, err := parseSet(body)
	if err != nil {
		return nil, err
	}
	for _, err := range skipped {
		f.opts.Logger.Info("jwt: pass over a key", "error", err)
	}
	return set, nil
}

// withoutURL returns what is behind the URL in err.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
