package front

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/remote"
)

// serveCall is one call over HTTP.
func (f *Front) serveCall(w http.ResponseWriter, r *http.Request, from *host.Caller) {
	if err := f.enter(); err != nil {
		f.refuse(w, r, err)
		return
	}
	defer f.leave()
	in, err := contentType(r)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	out, err := accepted(r, in)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	result, err := f.call(w, r, from, in)
	if err != nil {
		f.answerError(w, r, out, err)
		return
	}
	body, err := out.encode(wire.Value(result))
	if err != nil {
		f.answerError(w, r, out, err)
		return
	}
	writeHead(w, out, http.StatusOK, len(body))
	rc := http.NewResponseController(w)
	f.transfers.begin(&transfer{
		from: remote.Addr(r), grace: f.opts.WriteTimeout, cut: func() { _ = rc.SetWriteDeadline(past) },
	}).write(w, body)
}

// past is a time limit that is over.
var past = time.Unix(1, 0)

// call calls the action that a request names.
func (f *Front) call(w http.ResponseWriter, r *http.Request, from *host.Caller, in media) (host.Raw, error) {
	a, err := f.address(r)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return nil, err
	}
	body, err := f.body(w, r)
	if err != nil {
		return nil, err
	}
	if err := f.reserve(&f.calls, f.opts.MaxCalls); err != nil {
		return nil, err
	}
	defer f.release(&f.calls)
	args := host.Raw(body) // Host.Do looks whether it is one value
	if in == mediaJSON && len(body) > 0 {
		if args, err = wire.FromJSON(body); err != nil {
			return nil, &host.Error{Code: host.Code(err), Message: "The body is not one value in JSON.", Err: err}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.opts.CallTimeout)
	defer cancel()
	// What Shutdown gives up doesn't wait for its client, either.
	defer context.AfterFunc(f.ctx, cancel)()
	trace, span := callerSpan(r)
	var replayed bool
	result, err := f.do(withCaller(ctx, from), &host.Call{
		Actor: a, Action: r.PathValue("action"), Args: args, IdempotencyKey: key, Replayed: &replayed, Trace: trace, Span: span,
	})
	if replayed {
		w.Header().Set(replayedHeader, "true")
	}
	return result, err
}

// do calls an action, and counts.
func (f *Front) do(ctx context.Context, call *host.Call) (host.Raw, error) {
	f.meter.Count(metricCalls, 1)
	if f.opts.LogCalls && call.Trace.IsZero() {
		_, _ = rand.Read(call.Trace[:]) // it never fails; the turn's span has it
	}
	began := time.Now()
	result, err := f.host.Do(ctx, call)
	if err != nil {
		f.meter.Count(metricFailed, 1)
	}
	if f.opts.LogCalls {
		logCall(ctx, f.log, call, time.Since(began), err)
	}
	return result, err
}

// logCall logs one line for a call.
func logCall(ctx context.Context, log *slog.Logger, call *host.Call, took time.Duration, err error) {
	code := "ok"
	if err != nil {
		code = host.Code(err)
	}
	attrs := []slog.Attr{
		slog.String("actor", call.Actor.String()), slog.String("action", call.Action), slog.String("code", code), slog.Duration("took", took), slog.String("trace", call.Trace.String()),
	}
	if c := host.CallerOf(ctx); c != nil {
		attrs = append(attrs, slog.String("caller", c.ID))
	}
	if call.Conn != "" {
		attrs = append(attrs, slog.String("connection", string(call.Conn)))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "front: call", attrs...)
}

// body reads the body of a request; nil if it is empty.
func (f *Front) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	// Of what has no time limits a body is read without: there is nothing else to do.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(f.opts.BodyTimeout))
	t := f.transfers.begin(&transfer{
		from: remote.Addr(r), early: true, grace: f.opts.HeaderTimeout, cut: func() { _ = rc.SetReadDeadline(past) },
	})
	body, err := t.read(http.MaxBytesReader(w, r.Body, f.opts.MaxBody))
	var large *http.MaxBytesError
	var told *host.Error
	switch {
	case err == nil:
		if !f.leaving.Load() {
			w.Header().Del("Connection")
		}
		return body, nil
	case errors.As(err, &large):
		return nil, errBody
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case errors.As(err, &told), errors.Is(err, host.ErrClosed):
		return nil, err
	}
	return nil, errCut
}
