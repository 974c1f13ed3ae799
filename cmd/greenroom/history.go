package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"
)

// maxHistory is how many lines a history keeps.
const maxHistory = 1000

// A history is the lines that were typed, kept in a file that only its owner can
// read. As shells do, it leaves out lines that begin with a space, and those
// that repeat the one before. It is what the line editor asks for.
type history struct {
	lines []string
	file  string // "" when it is not kept
}

var _ term.History = (*history)(nil)

// historyPath is where the history is kept: below the folder for the state of
// programs where there is one by convention, or for their caches.
//
// https://specifications.freedesktop.org/basedir-spec/latest/
func historyPath(getenv func(string) string) (string, error) {
	dir := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
		if _, err := os.Stat(filepath.Join(home, ".local")); err != nil {
			if dir, err = os.UserCacheDir(); err != nil {
				return "", err
			}
		}
	}
	return filepath.Join(dir, "greenroom", "history"), nil
}

// open reads the history in file, and cuts it when it has grown to twice what it keeps.
// There need not be one yet. After an error nothing is kept in the file.
func (h *history) open(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h.lines = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	if n := len(h.lines) - maxHistory; n >= maxHistory {
		h.lines = h.lines[n:]
		text = []byte(strings.Join(h.lines, "\n") + "\n")
		if err = os.WriteFile(file+".new", text, 0o600); err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			return err
		}
	}
	h.file = file
	return nil
}

// Add keeps a line. That it can't be written down is not worth stopping for.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || line[0] == ' ' || len(h.lines) > 0 && h.At(0) == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.file == "" {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.file = ""
	}
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
