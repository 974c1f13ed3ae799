package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/greenroomdb/greenroom/traces"
)

// Defaults of ClientOptions.
const (
	defaultTimeout    = 10 * time.Second
	defaultGiveUp     = time.Minute
	defaultFirstWait  = 500 * time.Millisecond
	defaultMaxWait    = 30 * time.Second
	defaultBatchSpans = 512
	defaultBatchBytes = 4 << 20
)

// ClientOptions change what NewClient does. The zero value is fine.
type ClientOptions struct {
	// HTTP makes the requests; nil means http.DefaultClient. It is copied, and redirects are
	// not followed: some would turn a request into one without a body, and all would show
	// Header to somebody else.
	HTTP *http.Client
	// Header is added to every request: what the endpoint wants to know its callers by.
	// It is copied.
	Header http.Header
	// JSON sends JSON; otherwise it is protobuf.
	JSON bool
	// Uncompressed sends bodies as they are; otherwise with gzip.
	Uncompressed bool
	// Timeout bounds one attempt, the answer included. 0 means 10 seconds.
	Timeout time.Duration
	// GiveUp is after what time no other attempt is made at a request, counted from its
	// first one. 0 means a minute, a negative value never: the context ends it.
	GiveUp time.Duration
	// FirstWait and MaxWait bound the wait for another attempt, which doubles each time
	// and is varied by a half. 0 means 500 ms, and 30 seconds. An endpoint that says how
	// long to wait is obeyed.
	FirstWait, MaxWait time.Duration
	// BatchSpans and BatchBytes are how much one request has at most, in bytes before
	// compression; a span that is larger goes alone. 0 means 512 spans and 4 MiB.
	BatchSpans, BatchBytes int
}

func (opts *ClientOptions) orDefault() ClientOptions {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	client := *o.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &client
	o.Header = o.Header.Clone()
	def(&o.Timeout, defaultTimeout)
	def(&o.GiveUp, defaultGiveUp)
	def(&o.FirstWait, defaultFirstWait)
	def(&o.MaxWait, defaultMaxWait)
	def(&o.BatchSpans, defaultBatchSpans)
	def(&o.BatchBytes, defaultBatchBytes)
	return o
}

func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// A Client sends spans to an endpoint that speaks OTLP over HTTP, such as an OpenTelemetry
// collector. It is safe for concurrent use.
type Client struct {
	url  string
	opts ClientOptions
}

// NewClient returns a Client of the endpoint with that http or https URL; without a path
// it is /v1/traces there. Nothing is sent. nil opts are the zero ClientOptions.
//
// Errors: ErrOptions.
func NewClient(endpoint string, opts *ClientOptions) (*Client, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		// The error of net/url has the text, which may have a password in it.
		return nil, fmt.Errorf("%w: the endpoint is no URL", ErrOptions)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%w: the endpoint is no URL with http:// or https:// and a host", ErrOptions)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	c := &Client{u.String(), opts.orDefault()}
	if c.opts.Timeout < 0 || c.opts.FirstWait < 0 || c.opts.MaxWait < 0 || c.opts.BatchSpans < 0 || c.opts.BatchBytes < 0 {
		return nil, fmt.Errorf("%w: a negative time or size", ErrOptions)
	}
	return c, nil
}

// Sent is what has become of spans that were sent.
type Sent struct {
	Spans    int // that were in requests which the endpoint took
	Rejected int // of them, those that it threw away, by its own word
	Requests int // that it took
	Retries  int // attempts that failed and were followed by another
	// Message is the endpoint's last word about what it threw away, or warns of: for
	// people, printable, and not long.
	Message string
}

// Send sends spans, in as many requests as the options want, one after the other. What is
// attempted again are requests that got no answer, or one of the statuses 429, 502, 503
// and 504; an endpoint may so get spans twice. Spans that the endpoint throws away are not
// sent again, as OTLP wants it, and no error.
//
// On an error, Sent says how much was sent before: *StatusError, that of the connection,
// or the context's.
func (c *Client) Send(ctx context.Context, spans []traces.SpanData) (sent Sent, err error) {
	for len(spans) > 0 {
		n := min(len(spans), c.opts.BatchSpans)
		body, err := c.encode(spans[:n])
		for err == nil && len(body) > c.opts.BatchBytes && n > 1 {
			n = (n + 1) / 2
			body, err = c.encode(spans[:n])
		}
		if err != nil {
			return sent, err
		}
		if err := c.deliver(ctx, body, &sent); err != nil {
			return sent, err
		}
		sent.Spans += n
		spans = spans[n:]
	}
	return sent, nil
}

func (c *Client) encode(spans []traces.SpanData) ([]byte, error) {
	if c.opts.JSON {
		return AppendJSON(nil, spans)
	}
	return AppendBinary(nil, spans)
}

// deliver sends one body until it is taken.
func (c *Client) deliver(ctx context.Context, body []byte, sent *Sent) error {
	if !c.opts.Uncompressed {
		body = zip(body)
	}
	r := newRetry(&c.opts)
	for {
		a, err := c.attempt(ctx, body)
		if err == nil {
			sent.Requests++
			sent.Rejected += a.rejected
			if a.message != "" {
				sent.Message = a.message
			}
			return nil
		}
		if cause := ctx.Err(); cause != nil {
			return cause
		}
		wait, again := r.next(err)
		if !again {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		sent.Retries++
	}
}

// attempt makes one request.
func (c *Client) attempt(ctx context.Context, body []byte) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	maps.Copy(req.Header, c.opts.Header)
	req.Header.Set("Content-Type", typeBinary)
	if c.opts.JSON {
		req.Header.Set("Content-Type", typeJSON)
	}
	if !c.opts.Uncompressed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "greenroom-otlp")
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("otlp: %w", err)
	}
	// What is left of the body is read, within bounds, for the connection to be used again.
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return parseAnswer(resp, text, err)
}

// zip returns b in gzip.
func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		panic("otlp: gzip into memory: " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("otlp: gzip into memory: " + err.Error())
	}
	return out.Bytes()
}

// sleep waits, at most as long as the context lasts.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryable reports whether an attempt that failed is to be followed by another: OTLP names
// the statuses, and what got no answer may have been nobody's fault.
func retryable(err error) bool {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return status.temporary()
	}
	// A URL that can't be asked, or a redirect for ever, stays what it is.
	return !errors.Is(err, ErrOptions)
}
