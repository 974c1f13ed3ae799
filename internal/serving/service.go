package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Listen listens on an address; quick connections acknowledge at once (quickAcks). Half of the files that the process may have open are for connections, the other half for
// the store.
func Listen(ctx context.Context, address string, quick bool) (net.Listener, error) {
	ln, err := listen(ctx, address)
	if err != nil {
		return nil, err
	}
	if quick {
		ln = quickAcks{ln}
	}
	if most := MaxFiles() / 2; most > 0 {
		ln = newConnLimit(ln, most)
	}
	return ln, nil
}

// listen listens on an address, without bounds. Its errors are for the terminal.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, errkind.Say(err, "can't listen on %s: %v", address, RootCause(err))
	}
	return ln, nil
}

// A Service is a server while it serves.
type Service struct {
	Server   *http.Server
	Listener net.Listener
	Limit    net.Listener // below the listener, if that speaks TLS; nil for the listener itself
	Log      *slog.Logger
	Drain    time.Duration
	Announce func() error                // says that it serves
	Failed   <-chan struct{}             // closed when the store has failed for good
	Why      func(context.Context) error // the error of a store that has
	handOver func(context.Context) error // gives what it serves to others while it serves; nil for nothing
	Shutdown func(context.Context) error // ends what the server doesn't end, beside its Shutdown
}

// Run serves until ctx ends, or the store has failed for good: then the error is kv.ErrPoisoned.
func (s *Service) Run(ctx context.Context) error {
	below := s.Limit
	if below == nil {
		below = s.Listener
	}
	if l, ok := below.(*connLimit); ok {
		s.Server.ConnState = l.watch
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Server.Serve(s.Listener) }()
	err := s.Announce()
	served := true
	if err == nil {
		select {
		case err = <-ended:
			served = false
		case <-s.Failed:
			// What can't be done any more is answered with an error.
			err = s.Why(ctx)
			s.Log.Error("greenroom: the store has failed: shutting down", slog.Any("error", err))
		case <-ctx.Done():
			s.Log.Info("greenroom: shutting down")
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	if s.handOver != nil && err == nil {
		s.giveAway(end)
		if err = s.Listener.Close(); err == nil {
			<-ended
			served = false
			s.linger(end, lastRequests)
			if l, ok := below.(*connLimit); ok {
				l.closeIdle()
			}
		}
	}
	closed := make(chan error, 1)
	go func() {
		err := s.Server.Shutdown(end)
		if served {
			<-ended // a connection that was accepted meanwhile is seen by then
		}
		closed <- errors.Join(err, s.Server.Shutdown(end))
	}()
	for _, ended := range []error{s.Shutdown(end), <-closed} {
		if errors.Is(ended, context.DeadlineExceeded) {
			// A client doesn't read its answer, or an actor works on: that isn't a failure of the service.
			s.Log.Warn("greenroom: what hasn't ended in time is cut off", slog.Any("error", ended))
			ended = s.Server.Close()
		}
		err = errors.Join(err, ended)
	}
	return err
}

// giveAway hands over what is served, for half of the time that the end may take, and then goes on for a moment: clients are told with each answer
// that their connections end, so that few are cut while a request is on its way.
func (s *Service) giveAway(end context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(end, s.Drain/2)
	defer cancel()
	err := s.handOver(ctx)
	level, attrs := slog.LevelInfo, []any{slog.Duration("took", time.Since(began))}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	s.Log.Log(end, level, "greenroom: handed over to other hosts", attrs...)
	s.linger(end, lameDuck)
}

// linger serves for a while.
func (s *Service) linger(end context.Context, d time.Duration) {
	select {
	case <-time.After(min(d, s.Drain/4)):
	case <-end.Done():
	}
}

const (
	// lameDuck is how long a service that ends answers on connections that it then closes.
	lameDuck = time.Second
	// lastRequests is how long it answers on those that it has, once it accepts no more: an http.Server that is told to shut down drops requests that it has just read.
	lastRequests = 100 * time.Millisecond
)
