package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// A bank is the world outside: what it has done stays done, whatever happens to the shop.
type bank struct {
	file string
	mu   sync.Mutex
}

// book writes a line into the ledger, unless there is one with the key.
func (b *bank) book(key, what string, o Order) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, err := os.ReadFile(b.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A line that was cut off by the end of the process doesn't count.
	old = old[:strings.LastIndexByte(string(old), '\n')+1]
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, key+" ") {
			return nil
		}
	}
	f, err := os.OpenFile(b.file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteAt(fmt.Appendf(nil, "%s %s %s %d\n", key, what, o.Name, o.Cents), int64(len(old)))
	if err == nil {
		err = f.Sync()
	}
	return err
}
