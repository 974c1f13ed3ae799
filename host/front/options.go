package front

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/metrics"
)

// MinToken is how many bytes a bearer token has at least.
const MinToken = 16

// Options change what New does.
type Options struct {
	// Tokens are the bearer tokens, each of which opens everything: at least MinToken bytes
	// long, without spaces.
	Tokens []string
	// Authorize is asked about each call, socket and subscription of a request without one of the Tokens. It returns the caller, which the actor finds in
	// host.Context.Caller and host.Conn.Caller; nil is a caller that isn't known. An error refuses the request: ErrUnauthenticated, one that wraps a *host.Error,
	// which the client is told, or any other one, which the client isn't told. Of what goes through a socket the request is that of the socket, so what
	// isn't right any more, such as a token that has ended, ends calls and subscriptions; and about an open socket it is asked every PingInterval, as AccessConnect, so
	// that no more events reach it then: an error but for "unavailable", "timeout" and "cancelled" closes the socket. A connection is resumed by a caller with the ID of the one that made it.
	// Authorize must not change or keep the request or read its body; its context ends with CallTimeout. It is called from many goroutines at once. A panic of it refuses the request, is
	// "internal" to the client, and is logged. nil refuses everything.
	Authorize func(ctx context.Context, r *http.Request, a *Access) (*host.Caller, error)
	// WithoutToken serves without tokens: then only what comes to a loopback address of this
	// machine, and is addressed to it by such a name, so that no page of the web gets here
	// by giving its own name the address 127.0.0.1.
	WithoutToken bool
	// Secret is what the tokens of connections are made with, the same for all fronts of a
	// store: at least 16 bytes, see StoredSecret.
	Secret []byte
	// Origins are those of pages that may come from elsewhere, as browsers write them:
	// https://example.com. Pages of other origins are refused.
	Origins []string
	// Hosts are the names by which the Front may be addressed, without a port. Empty means
	// any name, and with WithoutToken those of loopback.
	Hosts []string
	// Fleet takes the requests of the other hosts of the store, below /fleet/, which need no token: it is that of the host's host.Options.Peers. nil means that the host
	// takes none.
	Fleet *fleet.Fleet
	// Degraded, if it isn't nil, says what beside the calls doesn't work, such as a backup, "" for nothing: /readyz tells it, and goes on
	// to answer 200.
	Degraded func() string

	// MaxBody bounds the body of a call and a message of a socket, in bytes. 0 means 1 MiB.
	MaxBody int64
	// MaxCalls bounds the calls over HTTP that are under way: those whose body has arrived
	// and whose result isn't there. 0 means 1000.
	MaxCalls int
	// MaxTransfers bounds that for which the Front waits for clients: bodies and messages
	// that have begun to arrive, sockets whose first message hasn't, and results that are
	// taken. MaxTransfersPerAddress bounds those of one remote address, or network of 64
	// bits in IPv6; behind a proxy, which has one, make it as large as MaxTransfers. One
	// more ends the one that has stood still for longest. 0 means 1000, and a quarter of
	// MaxTransfers.
	MaxTransfers, MaxTransfersPerAddress int
	// MaxTransferBytes bounds the memory of the bodies and messages among them, in the same
	// way; a single one may take MaxBody. 0 means 64 MiB.
	MaxTransferBytes int64
	// MinRate is how many bytes a second have to move of each of them, once HeaderTimeout is
	// over, or WriteTimeout for results. 0 means 16 KiB.
	MinRate int
	// MaxSockets bounds the sockets whose first message has come. 0 means 10000.
	MaxSockets int
	// MaxPending bounds the requests of one socket that wait. 0 means 16.
	MaxPending int
	// MaxQueued and MaxQueuedBytes bound what waits for a client to read it. A client that
	// is slower than that is cut off. 0 means 256, and 4 MiB.
	MaxQueued, MaxQueuedBytes int

	// CallTimeout bounds a call, the actor's wait for its turn included. 0 means 30 seconds.
	CallTimeout time.Duration
	// HeaderTimeout is for the header of a request, and then for its body, or a message of a
	// socket, to arrive, or else at MinRate; 0 means 10 seconds. BodyTimeout is for a body,
	// however fast; 0 means 30 seconds. WriteTimeout is for a client to take a message, or a
	// result, or else that at MinRate; 0 means 10 seconds.
	HeaderTimeout, BodyTimeout, WriteTimeout time.Duration
	// PingInterval is how often a socket is pinged; without an answer within PongTimeout it
	// is closed. 0 means 30 and 10 seconds.
	PingInterval, PongTimeout time.Duration
	// SocketIdle closes a socket over which the client has asked for nothing for that long. 0
	// means never.
	SocketIdle time.Duration

	// MetricsPage serves /metrics; nil means that the Front doesn't have that page.
	MetricsPage http.Handler
	// Pages serves all other paths, without a token; nil means that there are none.
	Pages http.Handler
	// LogCalls has the Logger get a line for each call, over HTTP or a socket: the actor, the action, "ok" or the code of the error, how long it took, the caller, and the id of the
	// trace that has the span of its turn.
	LogCalls bool
	// Logger takes what goes wrong; nil means slog.Default().
	Logger *slog.Logger
	// Metrics receives what the function Metrics lists; nil drops it.
	Metrics metrics.Sink
}

// orDefault returns o with its zero fields replaced.
func (o *Options) orDefault() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	or(&r.MaxBody, 1<<20)
	or(&r.MaxCalls, 1000)
	or(&r.MaxTransfers, 1000)
	or(&r.MaxTransfersPerAddress, max(r.MaxTransfers/4, 1))
	or(&r.MaxTransferBytes, 64<<20)
	or(&r.MinRate, 16<<10)
	or(&r.MaxSockets, 10000)
	or(&r.MaxPending, 16)
	or(&r.MaxQueued, 256)
	or(&r.MaxQueuedBytes, 4<<20)
	or(&r.CallTimeout, 30*time.Second)
	or(&r.HeaderTimeout, 10*time.Second)
	or(&r.BodyTimeout, 30*time.Second)
	or(&r.WriteTimeout, 10*time.Second)
	or(&r.PingInterval, 30*time.Second)
	or(&r.PongTimeout, 10*time.Second)
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return r, r.check()
}

func or[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// check says what can't be served. It repeats no token.
func (o *Options) check() error {
	for i, token := range o.Tokens {
		if len(token) < MinToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%w: token %d has to have at least %d characters, all of them printable ASCII", ErrOptions, i+1, MinToken)
		}
	}
	switch {
	case len(o.Tokens) == 0 && o.Authorize == nil && !o.WithoutToken:
		return fmt.Errorf("%w: there are neither tokens nor Authorize", ErrOptions)
	case (len(o.Tokens) > 0 || o.Authorize != nil) && o.WithoutToken:
		return fmt.Errorf("%w: WithoutToken goes neither with tokens nor with Authorize", ErrOptions)
	case len(o.Secret) < minSecret:
		return fmt.Errorf("%w: the secret has %d bytes, and needs %d", ErrOptions, len(o.Secret), minSecret)
	}
	return nil
}

// minSecret is how many bytes Options.Secret has at least.
const minSecret = 16
