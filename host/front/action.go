package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/greenroomdb/greenroom/host"
)

// serveCall is one call over HTTP.
func (f *Front) serveCall(w http.ResponseWriter, r *http.Request) {
	done, err := f.begin()
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	defer done()
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
	result, err := f.call(w, r, in)
	if err != nil {
		f.answerError(w, r, out, err)
		return
	}
	body, err := out.encode(value(result))
	if err != nil {
		f.answerError(w, r, out, err)
		return
	}
	f.write(w, out, http.StatusOK, body)
}

// call calls the action that a request names.
func (f *Front) call(w http.ResponseWriter, r *http.Request, in media) (host.Raw, error) {
	a, err := f.address(r)
	if err != nil {
		return nil, err
	}
	args, err := f.arguments(w, r, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.opts.CallTimeout)
	defer cancel()
	// What Shutdown gives up doesn't wait for its client, either.
	defer context.AfterFunc(f.ctx, cancel)()
	trace, span := callerSpan(r)
	return f.do(ctx, &host.Call{Actor: a, Action: r.PathValue("action"), Args: args, Trace: trace, Span: span})
}

// do calls an action, and counts.
func (f *Front) do(ctx context.Context, call *host.Call) (host.Raw, error) {
	f.count(metricCalls, 1)
	result, err := f.host.Do(ctx, call)
	if err != nil {
		f.count(metricFailed, 1)
	}
	return result, err
}

// arguments reads the body of a request; nil if there is none.
func (f *Front) arguments(w http.ResponseWriter, r *http.Request, in media) (host.Raw, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, f.opts.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, errBody
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	case err != nil:
		return nil, errCut
	case len(body) == 0:
		return nil, nil
	case in == mediaJSON:
		return fromJSON(body)
	}
	return body, nil // Host.Do looks whether it is one value
}

// write answers a request. Who doesn't take the answer has gone, and nobody is to be told.
func (f *Front) write(w http.ResponseWriter, as media, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", as.String())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
