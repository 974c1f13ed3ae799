package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

// A wasmTypes is the source of the types of --wasm.
type wasmTypes struct {
	files   []string // NAME=FILE
	keep    time.Duration
	options wasm.Options
}

func (w *wasmTypes) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&w.files, "wasm", nil, "serve a WebAssembly module: `NAME=FILE` (may be repeated); SIGHUP loads files that have changed")
	flags.StringVar(&w.options.CacheDir, "wasm-cache", "", "`folder` of compiled modules, to start sooner; what is in it is run")
	flags.DurationVar(&w.keep, "wasm-keep", 30*time.Second, "how long actors that are awake keep a module for which another one was loaded")
	flags.IntVar(&w.options.MemoryPages, "wasm-pages", wasm.DefaultMemoryPages, "how much memory an actor of a module may have, in pages of 64 KiB")
	flags.DurationVar(&w.options.TurnTimeout, "wasm-timeout", wasm.DefaultTurnTimeout, "how long a turn of a module may take")
}

// modules are what a host's types were compiled from.
type modules struct {
	from *wasmTypes
	work sync.WaitGroup // of actors that go to another module

	mu   sync.Mutex
	used map[string]*wasm.Module // by the names of their types  +checklocks:mu
	left []*wasm.Module          // that others have replaced, and perhaps not for all actors  +checklocks:mu
}

// Close frees them, when the host is closed.
func (ms *modules) Close() (err error) {
	ms.work.Wait()
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.used {
		err = errors.Join(err, m.Close(context.Background()))
	}
	for _, m := range ms.left {
		err = errors.Join(err, m.Close(context.Background()))
	}
	return err
}

func (w *wasmTypes) types(ctx context.Context) (kinds []*host.Type, ms *modules, err error) {
	ms = &modules{from: w, used: map[string]*wasm.Module{}}
	for _, arg := range w.files { // they may send messages only to each other
		name, _, _ := strings.Cut(arg, "=")
		w.options.Letters.To = append(w.options.Letters.To, name+"/*")
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, arg := range w.files {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return nil, ms, serving.Usage(fmt.Sprintf("--wasm takes NAME=FILE, not %q", arg))
		}
		if ms.used[name] != nil {
			return nil, ms, serving.Usage("--wasm has two files for " + name)
		}
		m, err := w.compile(ctx, name, file, "")
		if err != nil {
			return nil, ms, err
		}
		ms.used[name] = m
		kinds = append(kinds, m.Type())
	}
	return kinds, ms, nil
}

// compile reads a file and compiles it, unless it has the module of that version: nil.
func (w *wasmTypes) compile(ctx context.Context, name, file, version string) (*wasm.Module, error) {
	code, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if wasm.VersionOf(code) == version {
		return nil, nil
	}
	m, err := wasm.Compile(ctx, name, code, &w.options)
	if err != nil {
		return nil, say(err, "%s can't be served: %v", file, err)
	}
	return m, nil
}

// reloadOnSignal loads files that have changed, whenever the process gets SIGHUP, until the function that it returns is called. Without modules the signal does what it does to others.
func (ms *modules) reloadOnSignal(ctx context.Context, h *host.Host, sink *prom.Sink, log *slog.Logger) (stop func()) {
	if len(ms.from.files) == 0 || len(serving.ReloadSignals) == 0 {
		return func() {}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, serving.ReloadSignals...)
	ctx, cancel := context.WithCancel(ctx)
	ms.work.Go(func() {
		for {
			select {
			case <-asked:
				ms.reload(ctx, h, sink, log)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(asked)
		cancel()
		ms.work.Wait()
	}
}

// reload loads the files that have changed. One that can't be served leaves the module of before.
func (ms *modules) reload(ctx context.Context, h *host.Host, sink *prom.Sink, log *slog.Logger) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, arg := range ms.from.files {
		name, file, _ := strings.Cut(arg, "=")
		before := ms.used[name]
		log := log.With(slog.String("type", name), slog.String("file", file))
		m, err := ms.from.compile(ctx, name, file, before.Version())
		if err != nil {
			log.Error("greenroom: the module can't be loaded, and the one of before stays", slog.Any("error", err))
			continue
		}
		if m == nil {
			log.Info("greenroom: the module is the same")
			continue
		}
		t := m.Type()
		if err := sink.Learn(host.Metrics(t)...); err != nil {
			log.Warn("greenroom: count what the module does", slog.Any("error", err))
		}
		log = log.With(slog.String("before", before.Version()), slog.String("version", m.Version()))
		gone, err := h.Replace(ctx, t, ms.from.keep)
		if err != nil {
			log.Error("greenroom: the module can't be served, and the one of before stays", slog.Any("error", errors.Join(err, m.Close(ctx))))
			continue
		}
		log.Info("greenroom: a module is loaded")
		ms.used[name], ms.left = m, append(ms.left, before)
		ms.work.Go(func() {
			select {
			case <-gone:
				log.Info("greenroom: no actor has the module of before")
				ms.free(before, log)
			case <-ctx.Done():
			}
		})
	}
}

// without returns what is left but for a module.
//
// +checklocks:ms.mu
func (ms *modules) without(m *wasm.Module) []*wasm.Module {
	return slices.DeleteFunc(ms.left, func(is *wasm.Module) bool { return is == m })
}

// free frees a module that no actor has.
func (ms *modules) free(m *wasm.Module, log *slog.Logger) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.left = ms.without(m)
	if err := m.Close(context.Background()); err != nil {
		log.Warn("greenroom: free a module", slog.Any("error", err))
	}
}
