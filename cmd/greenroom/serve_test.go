package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestServiceLate: a service ends well beside a request that doesn't end in time.
func TestServiceLate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &service{
		server: &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done() // until its connection is closed
		})},
		listener: ln, log: slog.New(slog.DiscardHandler), drain: 50 * time.Millisecond,
		announce: func() error { return nil }, shutdown: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	if resp, err := http.Get("http://" + ln.Addr().String()); err == nil {
		_ = resp.Body.Close()
		t.Error("the request is answered")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestByteSize: sizes have units, and are written as they are read.
func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{"1GiB": 1 << 30, "512MiB": 512 << 20, "3KiB": 3 << 10} {
		var s byteSize
		if err := s.Set(text); err != nil || int64(s) != want || s.String() != text {
			t.Errorf("%s: %d, which is %s: %v", text, s, &s, err)
		}
	}
	for _, text := range []string{"", "1", "GiB", "-1MiB", "0KiB", "1.5GiB", "1GB", "99999999999999GiB", "1024MiB2"} {
		s := byteSize(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
}
