package main

import (
	"fmt"
	"path/filepath"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// Engines that a subject can stand on.
const (
	enginePebble = "pebble"
	engineMem    = "mem"
)

// openEngine opens the engine of the given kind in a folder below dir, with the
// options that a program gets when it asks for none.
func openEngine(kind, dir string) (kv.Engine, error) {
	switch kind {
	case enginePebble:
		return pebblekv.Open(filepath.Join(dir, "store"), nil)
	case engineMem:
		return memkv.New(), nil
	}
	return nil, fmt.Errorf("no engine is called %q: %s or %s", kind, enginePebble, engineMem)
}
