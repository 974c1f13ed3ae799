package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"
)

// maxHistory is how many statements a history keeps.
const maxHistory = 1000

// A history is the statements and commands that were typed, kept in a file that only its owner can
// read, each on a line of it: a line feed is a carriage return there. As shells do, it leaves out what
// begins with a space, and what repeats the one before. It is what the line editor asks for.
type history struct {
	lines []string
	file  string // "" when it is not kept
	fold  string // what stands for a line feed in what the editor got last, "" if it has none
}

// folds may stand for a line feed in the line editor, which has but one line: the first one that a statement doesn't have does.
var folds = []string{"␤", "↵", "⏎"}

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
	kept := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	if n := len(kept) - maxHistory; n >= maxHistory {
		kept = kept[n:]
		text = []byte(strings.Join(kept, "\n") + "\n")
		if err = os.WriteFile(file+".new", text, 0o600); err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			return err
		}
	}
	for _, line := range kept {
		h.lines = append(h.lines, strings.ReplaceAll(line, "\r", "\n"))
	}
	h.file = file
	return nil
}

// Add does nothing with a line: it may be one of several of a statement.
func (h *history) Add(string) {}

// keep keeps a statement. That it can't be written down is not worth stopping for.
func (h *history) keep(text string) {
	if n := len(h.lines); strings.TrimSpace(text) == "" || text[0] == ' ' || n > 0 && h.lines[n-1] == text {
		return
	}
	h.lines = append(h.lines, text)
	if h.file == "" {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.ReplaceAll(text, "\n", "\r") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.file = ""
	}
}

// Len returns the number of statements.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest. One of several lines comes as one.
func (h *history) At(i int) string {
	text := h.lines[len(h.lines)-1-i]
	if h.fold = ""; strings.Contains(text, "\n") {
		h.fold = folds[max(slices.IndexFunc(folds, func(f string) bool { return !strings.Contains(text, f) }), 0)]
	}
	return strings.ReplaceAll(text, "\n", h.fold)
}

// unfold returns a line of the editor with the line feeds again of what it got by At.
func (h *history) unfold(line string) string {
	if h.fold != "" {
		line = strings.ReplaceAll(line, h.fold, "\n")
	}
	h.fold = ""
	return line
}
