package serving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
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
	s := &Service{
		Server: &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done() // until its connection is closed
		})},
		Listener: ln, Log: slog.New(slog.DiscardHandler), Drain: 50 * time.Millisecond,
		Announce: func() error { return nil }, Shutdown: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if resp, err := http.Get("http://" + ln.Addr().String()); err == nil {
		_ = resp.Body.Close()
		t.Error("the request is answered")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// closing is a listener that does something when it is closed.
type closing struct {
	net.Listener
	once sync.Once
	then func()
}

func (l *closing) Close() error {
	err := l.Listener.Close()
	l.once.Do(l.then)
	return err
}

// TestServiceLastRequest: a service that has handed over answers requests on connections that it has accepted when it accepts no more, and doesn't wait for those that never
// ask for something.
func TestServiceLastRequest(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	accepted := make(chan struct{}, 2)
	limit := newConnLimit(ln, 10)
	last := make(chan error, 1)
	var asks, silent net.Conn
	listener := &closing{Listener: limit, then: func() {
		_, err := io.WriteString(asks, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		go func() {
			answer, readErr := http.ReadResponse(bufio.NewReader(asks), nil)
			if readErr == nil {
				readErr = answer.Body.Close()
			}
			last <- errors.Join(err, readErr)
		}()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log bytes.Buffer
	s := &Service{
		Server: &http.Server{Handler: http.NotFoundHandler(), ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			accepted <- struct{}{}
			return ctx
		}},
		Listener: listener, Limit: limit, Log: slog.New(slog.NewTextHandler(&log, nil)), Drain: 2 * time.Second,
		Announce: func() error { return nil }, handOver: func(context.Context) error { return nil }, Shutdown: func(context.Context) error { return nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for _, c := range []*net.Conn{&asks, &silent} {
		if *c, err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		defer (*c).Close()
		<-accepted
	}
	cancel()
	if err := <-last; err != nil {
		t.Errorf("a request when the service accepts no more connections: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "cut off") {
		t.Errorf("it has waited for a connection over which nothing came: %s", text)
	}
}

// TestByteSize: sizes have units, and are written as they are read.
func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{"1GiB": 1 << 30, "512MiB": 512 << 20, "3KiB": 3 << 10} {
		var s ByteSize
		if err := s.Set(text); err != nil || int64(s) != want || s.String() != text {
			t.Errorf("%s: %d, which is %s: %v", text, s, &s, err)
		}
	}
	for _, text := range []string{"", "1", "GiB", "-1MiB", "0KiB", "1.5GiB", "1GB", "99999999999999GiB", "1024MiB2"} {
		s := ByteSize(7)
		if err := s.Set(text); err == nil || s != 7 {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
}

// TestConnLimit: connections that ask for nothing keep none out that does. One more than all that have a request waits for the end of
// one of them.
func TestConnLimit(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := newConnLimit(ln, 3)
	asked, answer := make(chan struct{}), make(chan struct{})
	server := &http.Server{ConnState: limit.watch, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			asked <- struct{}{}
			<-answer
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(limit) }()
	get := func(path string) error {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + ln.Addr().String() + path)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	slow := make(chan error, 2)
	for range 2 {
		go func() { slow <- get("/slow") }()
		<-asked
	}
	for range 10 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := get("/"); err != nil {
			t.Errorf("beside connections that ask for nothing: %v", err)
		}
	}
	close(answer)
	for range 2 {
		if err := <-slow; err != nil {
			t.Errorf("a request that takes its time: %v", err)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if n := len(limit.slots); n != 0 {
		t.Errorf("%d connections count still", n)
	}
}

// TestConnLimitOldest: of the connections without a request, the one is closed that has been so for longest, a request that has ended or not.
func TestConnLimitOldest(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := newConnLimit(ln, 3)
	accept := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = limit.Accept(); err != nil {
			t.Fatal(err)
		}
		limit.watch(server, http.StateNew)
		return client, server
	}
	var clients, servers [3]net.Conn
	for i := range clients {
		clients[i], servers[i] = accept()
	}
	// The second has had a request since, and the first one has one.
	limit.watch(servers[1], http.StateActive)
	limit.watch(servers[1], http.StateIdle)
	limit.watch(servers[0], http.StateActive)
	fourth, _ := accept()
	if _, err := clients[2].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that has been idle for longest: %v, want %v", err, io.EOF)
	}
	fifth, _ := accept()
	if _, err := clients[1].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the one that has been idle since its request: %v, want %v", err, io.EOF)
	}
	limit.closeIdle()
	for _, c := range []net.Conn{fourth, fifth} {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection that has never had a request: %v, want %v", err, io.EOF)
		}
	}
	if err := errors.Join(servers[0].Close(), limit.Close()); err != nil {
		t.Error(err)
	}
	if n := len(limit.slots); n != 0 {
		t.Errorf("%d connections count still", n)
	}
}
