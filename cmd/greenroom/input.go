package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// openInput opens a file that the shell reads.
func openInput(name string) (*os.File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = say(err, "there is no file %s", name)
	}
	return f, err
}

// A lineSource is what a shell reads.
type lineSource interface {
	// next returns the next line with its line feed, which the last one may
	// lack, and io.EOF after that; errDropLine when the user gave up the line; or
	// ctx's error as soon as it is done. prompt is for people.
	next(ctx context.Context, prompt string) (string, error)
}

// errDropLine: Ctrl-C at the prompt.
var errDropLine = errors.New("line given up")

// A readerSource reads lines of any length.
type readerSource struct {
	r *bufio.Reader
}

func newReaderSource(r io.Reader) *readerSource {
	return &readerSource{bufio.NewReaderSize(r, 64<<10)}
}

func (s *readerSource) next(ctx context.Context, _ string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if ready, _ := s.r.Peek(s.r.Buffered()); bytes.IndexByte(ready, '\n') >= 0 {
		return s.read()
	}
	return await(ctx, s.read)
}

// read returns a last line without a line feed before io.EOF.
func (s *readerSource) read() (string, error) {
	line, err := s.r.ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return line, err
}

// await runs read, which may block for ever, and stops waiting for it when ctx
// is done. Nothing else may read from there then: read may still be at it, until
// the program ends.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := read()
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
