package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/examples/chat"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/serve"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestTalk has two guests talk, in a program that serves the room.
func TestTalk(t *testing.T) {
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		c := &serve.Config{Types: []*host.Type{chat.Room()}, Pages: chat.Page(), Stdout: in, Stderr: io.Discard}
		ended <- c.Run(ctx, []string{filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0"})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	_, url, _ := strings.Cut(strings.TrimSpace(line), " at ")

	hears, says := [2]*bufio.Scanner{}, [2]io.WriteCloser{}
	left := make(chan error, 2)
	for i, name := range []string{"Ann", "Bob"} {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		hears[i], says[i] = bufio.NewScanner(outR), inW
		go func() { left <- talk(t.Context(), url, "lobby", name, inR, outW) }()
	}
	for i, text := range []string{"hello", "hello, Ann"} {
		_, err := io.WriteString(says[i], text+"\n")
		testkit.Must(t, err)
		for _, h := range hears {
			if want := []string{"Ann: ", "Bob: "}[i] + text; !h.Scan() || h.Text() != want {
				t.Errorf("got %q, want %q", h.Text(), want)
			}
		}
	}
	for _, w := range says {
		testkit.Must(t, w.Close())
		testkit.Must(t, <-left)
	}
	if err := talk(t.Context(), url, "lobby", " ", strings.NewReader(""), io.Discard); host.Code(err) != "bad_name" {
		t.Errorf("without a name: %v", err)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("status %d", code)
	}
}
