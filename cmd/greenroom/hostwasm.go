package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
)

// A wasmTypes is the source of the types of --wasm.
type wasmTypes struct {
	files   []string // NAME=FILE
	options wasm.Options
}

func (w *wasmTypes) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&w.files, "wasm", nil, "serve a WebAssembly module: `NAME=FILE` (may be repeated)")
	flags.StringVar(&w.options.CacheDir, "wasm-cache", "", "`folder` of compiled modules, to start sooner; what is in it is run")
	flags.IntVar(&w.options.MemoryPages, "wasm-pages", wasm.DefaultMemoryPages, "how much memory an actor of a module may have, in pages of 64 KiB")
	flags.DurationVar(&w.options.TurnTimeout, "wasm-timeout", wasm.DefaultTurnTimeout, "how long a turn of a module may take")
}

// modules are what a host's types were compiled from.
type modules []*wasm.Module

// Close frees them, when the host is closed.
func (ms modules) Close() (err error) {
	for _, m := range ms {
		err = errors.Join(err, m.Close(context.Background()))
	}
	return err
}

func (w *wasmTypes) types(ctx context.Context) (kinds []*host.Type, ms modules, err error) {
	for _, arg := range w.files { // they may send messages only to each other
		name, _, _ := strings.Cut(arg, "=")
		w.options.Letters.To = append(w.options.Letters.To, name+"/*")
	}
	for _, arg := range w.files {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return nil, ms, &usageError{fmt.Sprintf("--wasm takes NAME=FILE, not %q", arg)}
		}
		code, err := os.ReadFile(file)
		if err != nil {
			return nil, ms, err
		}
		m, err := wasm.Compile(ctx, name, code, &w.options)
		if err != nil {
			return nil, ms, say(err, "%s can't be served: %v", file, err)
		}
		ms = append(ms, m)
		kinds = append(kinds, m.Type())
	}
	return kinds, ms, nil
}
