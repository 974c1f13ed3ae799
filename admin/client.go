package admin

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/adminsock"
	"github.com/greenroomdb/greenroom/internal/remotekv"
	"github.com/greenroomdb/greenroom/kv"
)

// A Client asks the process that has a store open. It is safe for concurrent use.
type Client struct {
	dial  func(ctx context.Context) (net.Conn, error)
	host  string // that requests are for
	token string // that they bear; "" for none
	http  *http.Client
}

// Dial returns a client of the process that has the store in the directory dir open. The caller closes it.
//
// Errors: ErrNoServer; one of the network, or of the process.
func Dial(ctx context.Context, dir string) (*Client, error) {
	return newClient(ctx, &Client{host: "greenroom", dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := adminsock.Dial(ctx, dir)
		if errors.Is(err, adminsock.ErrNoSocket) {
			err = fmt.Errorf("%w: %w", ErrNoServer, err)
		}
		return conn, err
	}})
}

// DialAddress returns a client of the process whose API is at an address, as actorstore.HostInfo.Address has it, with the secret of one of its tokens. The
// caller closes it. Only an address that begins with https:// is spoken to in TLS, with a certificate that the system trusts; to any other the token goes unencrypted, so
// that the caller has to trust the network between. Nothing is asked for at another address, whatever the process answers.
//
// Errors: one of the network, an *Error of the process; one of an address that actorstore.CheckAddress refuses.
func DialAddress(ctx context.Context, address, token string) (*Client, error) {
	if err := actorstore.CheckAddress(address); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	at, secure := strings.CutPrefix(address, "https://")
	c := &Client{host: at, token: token, dial: func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", at)
	}}
	if secure {
		d := &tls.Dialer{NetDialer: dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
		c.dial = func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", at) }
	}
	return newClient(ctx, c)
}

// dialer gives up a process that isn't there.
var dialer = &net.Dialer{Timeout: 10 * time.Second}

// newClient completes a client whose process answers.
func newClient(ctx context.Context, c *Client) (*Client, error) {
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if _, err := c.Process(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connections that wait.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Process returns what is known of the process.
func (c *Client) Process(ctx context.Context) (*Process, error) {
	p := &Process{}
	return p, c.do(ctx, http.MethodGet, "/v1/process", "", nil, p)
}

// Get reads what the API has at a path behind /v1/, such as "actors/id:…/queue", with the parameters that openapi.json lists there. The path is escaped, as
// by url.PathEscape. Out is the type of the answer, such as MessageList.
func Get[Out any](ctx context.Context, c *Client, path string, params url.Values) (*Out, error) {
	out := new(Out)
	return out, c.do(ctx, http.MethodGet, "/v1/"+path+"?"+params.Encode(), "", nil, out)
}

// Query runs a statement of SQL that only reads on the database of an actor, which is named as in a store with greenroom.Options.IDs.
func (c *Client) Query(ctx context.Context, actor string, in *QueryIn) (*QueryOut, error) {
	return (&Verb[QueryIn, QueryOut]{name: "query"}).Ask(ctx, c, actor, false, in)
}

// Stream reads an answer that isn't JSON, such as that at "events", "metrics" or "actors/NAME/database", as Get. The caller closes it.
func (c *Client) Stream(ctx context.Context, path string, params url.Values) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, "/v1/"+path+"?"+params.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(answered(resp), resp.Body.Close())
	}
	return resp.Body, nil
}

// engineProtocol is what a connection is upgraded to on which the engine is read; see package remotekv.
const engineProtocol = "greenroom-engine/1"

// sqlProtocol is what a connection is upgraded to on which SQL is run for a shell. A sqlRequest is answered by sqlEvents, the last of which is
// done; both are values of encoding/gob.
const sqlProtocol = "greenroom-sql/1"

// request returns a request. Whatever its URL says, it goes where dial connects.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.host+path, body)
	if err == nil && c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, err
}

// do makes a request, with a body of a type unless that is nil, and decodes the answer into out.
func (c *Client) do(ctx context.Context, method, path, mediaType string, body io.Reader, out any) error {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", mediaType)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the address says nothing
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answered(resp)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("admin: read the answer: %w", err)
	}
	return nil
}

// maxErrorBody bounds what is read of an answer that is an error, in bytes.
const maxErrorBody = 1 << 20

// answered returns the error that a response is.
func answered(resp *http.Response) error {
	e := &Error{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(e); err != nil || e.Message == "" {
		return fmt.Errorf("admin: the process answers %s", resp.Status)
	}
	return e
}

// Engine returns the engine of the store: all of it can be read, and what belongs to none of the actors can be written. The caller closes it.
func (c *Client) Engine(ctx context.Context) (kv.Engine, error) {
	return remotekv.Open(ctx, func(ctx context.Context) (net.Conn, error) { return c.upgrade(ctx, "/v1/engine", engineProtocol) })
}

// upgrade opens a connection on which a protocol is spoken that isn't HTTP.
func (c *Client) upgrade(ctx context.Context, path, protocol string) (net.Conn, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := c.request(ctx, http.MethodGet, path, nil)
	if err == nil {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", protocol)
		err = r.Write(conn)
	}
	var resp *http.Response
	if err == nil {
		// Nothing follows the head before the first request.
		resp, err = http.ReadResponse(bufio.NewReader(conn), r)
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = answered(resp)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Usage returns what actors that are awake in the process have used, and the store doesn't say yet.
func (c *Client) Usage(ctx context.Context) (all []actorstore.ActorUsage, err error) {
	for after := ""; ; {
		page := &UsageList{}
		if err := c.do(ctx, http.MethodGet, "/v1/usage?limit=1000&after="+url.QueryEscape(after), "", nil, page); err != nil {
			return nil, err
		}
		for _, a := range page.Actors {
			id, err := actorstore.ParseID(a.ID)
			if err != nil {
				return nil, err
			}
			u := actorstore.Usage{Turns: a.Usage.Turns, Awake: time.Duration(a.Usage.Awake) * time.Millisecond, Written: a.Usage.Written, Rows: a.Usage.Rows}
			for _, f := range a.Usage.Failures {
				at, err := time.Parse(time.RFC3339Nano, string(f.Last))
				if err != nil {
					return nil, err
				}
				u.Fail(actorstore.Failure{Code: f.Code, Place: f.Place, Count: f.Count, Last: at})
			}
			all = append(all, actorstore.ActorUsage{ID: id, Name: a.Name, Usage: u})
		}
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}
