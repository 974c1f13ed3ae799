// Package client calls the actors of a remote host, and connects to them, over HTTP and WebSockets: the protocol of package front, as the client for JavaScript speaks it.
//
//	c, err := client.New("https://shop.example", &client.Options{Token: client.Token(secret)})
//	cart := c.Actor(host.Address{Type: "cart", Key: "ann"})
//	total, err := client.Invoke(ctx, cart, Add, 2) // Add is a *host.Action[int, int]
//	err = cart.Do(ctx, "add", 2, &total, nil)      // without its declaration
//
// A call has an idempotency key that the client makes up, so that it is safe to send it again: it is, when its answer is lost or the host refuses it for now, and it runs once.
// Connect makes a connection, which comes back by itself when its socket breaks, and Follow reads what an actor keeps and announces, without gaps.
package client

// Files, from the top down:
//
//	follow.go session.go conn.go listener.go program.go client.go request.go errors.go

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Options change what New does.
type Options struct {
	// Token returns the bearer token of now. It is asked before each request and each socket, from several goroutines at once; nil for none. See Token.
	Token func(ctx context.Context) (string, error)
	// HTTP makes the requests, and dials the sockets; nil for http.DefaultClient. Its Timeout should be 0, as it would end sockets: contexts bound calls.
	HTTP *http.Client
	// Retries is how often a call over HTTP is sent again after a failure that passes: 0 means 4, less than 0 never.
	Retries int
}

// Token returns a function for Options.Token that always returns the same token.
func Token(token string) func(ctx context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// defaultRetries is Options.Retries unless it is set.
const defaultRetries = 4

// A Client reaches the actors of the hosts behind one address. It needs no Close, and may be used from many goroutines at once.
type Client struct {
	base string
	opts Options
}

// New returns a client of the hosts at a URL, http: or https:, which may have a path. opts may be nil.
func New(baseURL string, opts *Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: %q is not the http: or https: address of a host", u.Redacted())
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/")}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.HTTP == nil {
		c.opts.HTTP = http.DefaultClient
	}
	if c.opts.Retries == 0 {
		c.opts.Retries = defaultRetries
	}
	return c, nil
}

// An Actor is one that a Client reaches. It needs no Close, and may be used from many goroutines at once.
type Actor struct {
	client  *Client
	address host.Address
}

// Actor returns the actor with an address, whether it exists or not.
func (c *Client) Actor(a host.Address) *Actor { return &Actor{c, a} }

// url returns the address of what the front has of the actor.
func (a *Actor) url(rest ...string) string {
	u := a.client.base + "/actors/" + url.PathEscape(a.address.Type) + "/" + url.PathEscape(a.address.Key)
	for _, part := range rest {
		u += "/" + url.PathEscape(part)
	}
	return u
}

// A Doer makes calls of one actor: an Actor over HTTP, a Conn over its socket.
type Doer interface {
	// Do calls an action with one value, and decodes what it returns into what result points to; nil leaves it. A host.Raw is a value as it is. opts may be
	// nil.
	//
	// What the host refuses is a *host.Error, in which errors.Is finds host.ErrNoActor and the other sentinels of package host. host.ErrUnknownOutcome says that the call may
	// have landed, also when ctx ends after it was sent.
	Do(ctx context.Context, action string, args, result any, opts *CallOptions) error
}

var _ Doer = (*Actor)(nil)

// Invoke calls a declared action, as Doer.Do does without options.
func Invoke[In, Out any](ctx context.Context, d Doer, a *host.Action[In, Out], in In) (out Out, err error) {
	err = d.Do(ctx, a.Name(), abi.Args(in), &out, nil)
	return out, err
}

// Command calls a declared command, as Doer.Do does without options.
func Command[In any](ctx context.Context, d Doer, c *host.Command[In], in In) error {
	return d.Do(ctx, c.Name(), abi.Args(in), nil, nil)
}

// Do implements Doer, over HTTP. What fails and may pass is sent again, Options.Retries times, no sooner than the host's Retry-After asks for.
func (a *Actor) Do(ctx context.Context, action string, args, result any, opts *CallOptions) error {
	r, err := newRequest(action, args, opts)
	if err != nil {
		return err
	}
	for failures := 0; ; failures++ {
		body, least, err := a.post(ctx, r)
		if err == nil {
			return decode(action, body, result)
		}
		if !r.again(err) || failures >= a.client.opts.Retries {
			return r.final(err)
		}
		if err := sleep(ctx, least+pause(failures)); err != nil {
			return r.left(err)
		}
	}
}

// maxAnswer bounds an answer over HTTP, in bytes.
const maxAnswer = 64 << 20

// post sends a call once. least is how long to wait at least before the next time.
func (a *Actor) post(ctx context.Context, r *request) (body host.Raw, least time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url("actions", r.Action), strings.NewReader(string(r.Args)))
	if err != nil {
		return nil, 0, err
	}
	req.Header, err = a.client.header(ctx)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", mediaType)
	req.Header.Set("Accept", mediaType)
	if r.IdempotencyKey != nil {
		req.Header.Set("Idempotency-Key", *r.IdempotencyKey)
	}
	resp, err := a.client.opts.HTTP.Do(req)
	if err != nil {
		return nil, 0, unanswered(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, 0, unanswered(err)
	case resp.Request.Method != http.MethodPost:
		return nil, 0, told("bad_response", fmt.Sprintf("The address leads elsewhere, to %s.", resp.Request.URL.Redacted()))
	case resp.StatusCode != http.StatusOK:
		return nil, retryAfter(resp.Header), problemOf(resp, text)
	case !isCBOR(resp.Header) || len(text) > maxAnswer: // the call may have landed
		return nil, 0, &host.Error{
			Code: "bad_response", Message: fmt.Sprintf("The answer is not one of a host: %s, %d bytes.", resp.Header.Get("Content-Type"), len(text)), Err: host.ErrUnknownOutcome,
		}
	}
	return text, 0, nil
}

// isCBOR says whether an answer is in the form of calls, whatever parameters something in between has added.
func isCBOR(h http.Header) bool {
	of, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && of == mediaType
}

// header returns the header with which the client says from whom a request is.
func (c *Client) header(ctx context.Context) (http.Header, error) {
	h := http.Header{}
	if c.opts.Token == nil {
		return h, nil
	}
	token, err := c.opts.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("client: the token: %w", err)
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, nil
}

// unanswered is the error of a request without an answer: unless no connection came to be, it may have arrived.
func unanswered(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &host.Error{Code: host.Code(host.ErrUnreachable), Message: "The host can't be reached.", Err: fmt.Errorf("%w: %w", host.ErrUnreachable, err)}
	}
	return &host.Error{Code: host.Code(host.ErrUnknownOutcome), Message: "No answer came.", Err: fmt.Errorf("%w: %w", host.ErrUnknownOutcome, err)}
}

// retryAfter returns how long a host asks to wait.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
