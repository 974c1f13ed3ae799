package inspector

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxQuiet is how long the browser may take nothing of a stream.
const maxQuiet = 30 * time.Second

// events passes on what changes in the store, as the API tells it, until the browser has gone or the session ends.
func events(v *visit) {
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	params := url.Values{}
	if actor := v.param("actor"); actor != "" {
		params.Set("actor", actor)
	}
	in, err := v.client.Stream(ctx, "events", params)
	if err != nil {
		fail(v.w, v, err)
		return
	}
	defer in.Close()
	v.w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(v.w)
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if to.SetWriteDeadline(time.Now().Add(maxQuiet)) != nil {
				return
			}
			if _, err := v.w.Write(buf[:n]); err != nil || to.Flush() != nil {
				return // the browser has gone
			}
		}
		if err != nil {
			if err != io.EOF {
				v.page.log.Debug("inspector: events", "error", err)
			}
			return
		}
	}
}
