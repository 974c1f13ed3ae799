package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A page is what bench/report makes a page with charts of.
type page struct {
	// Facts say what was measured on.
	Facts [][2]string `json:"facts"`
	Lines []record    `json:"lines"`
	// Before are those of the run that this one is compared with; none if it isn't.
	Before []record `json:"before,omitempty"`
}

var errNoSource = errors.New("-html builds bench/report, which needs Go and Greenroom's source: run it as go run ./bench")

// writePage writes p to a file. The charts are drawn by a program of another module, so that
// who uses Greenroom doesn't inherit their library.
func writePage(ctx context.Context, at site, path string, p page) error {
	peers, ok := peersDir()
	if !ok {
		return errNoSource
	}
	program, err := buildPeer(ctx, at, filepath.Dir(peers), "report")
	if err != nil {
		return err
	}
	in, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &html, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("draw the page: %w", err)
	}
	return os.WriteFile(path, html.Bytes(), 0o644)
}
