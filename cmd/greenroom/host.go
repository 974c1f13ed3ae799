package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/greenroomdb/greenroom/examples/chat"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/spf13/cobra"
)

func newHost(e *env) *cobra.Command {
	demo, modules := false, &wasmTypes{}
	c := &serving.HostCommand{
		Use: "host [STORE]", Short: "Serve actors over HTTP and WebSockets",
		Help: `--demo serves the types counter and chat, and a page to chat at /. It needs no STORE:
without one it has a store that is removed when it ends.

`,
		Example: `  greenroom host --demo
  greenroom host data --demo --listen 0.0.0.0:6420 --token-file tokens`,
		Limits:  e.limits,
		Prepare: func(ctx context.Context) (*serving.Hosted, error) { return hostedOf(ctx, modules, demo) },
	}
	cmd := c.Command()
	cmd.Flags().BoolVar(&demo, "demo", false, "serve counters, chat rooms and a page to chat")
	modules.flags(cmd)
	return cmd
}

// hostedOf returns what the flags ask for, and what of it is to be closed also if there is an error.
func hostedOf(ctx context.Context, w *wasmTypes, demo bool) (*serving.Hosted, error) {
	types, ms, err := w.types(ctx)
	h := &serving.Hosted{Types: types, Opened: ms.reloadOnSignal, Close: ms.Close, Temporary: func() (string, func() error, error) {
		return "", nil, serving.Usage("STORE is missing: only --demo does without one")
	}}
	if demo {
		h.Types, h.Pages, h.Announce, h.Temporary = append(types, demoTypes()...), chat.Page(), announceDemo, temporaryStore
	}
	if err == nil && len(h.Types) == 0 {
		err = serving.Usage("there is nothing to serve: --wasm NAME=FILE serves a module, --demo an example")
	}
	return h, err
}

// temporaryStore makes a store that is removed behind the host.
func temporaryStore() (url string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "greenroom-demo-")
	return "pebble:" + dir, func() error { return os.RemoveAll(dir) }, err
}

// announceDemo writes what there is to try.
func announceDemo(w io.Writer, at, header string) {
	for _, line := range []string{
		`--json 2 URL/actors/counter/lobby/actions/add`,
		`--json '{"name":"Ann","text":"hello"}' URL/actors/chat/lobby/actions/say`,
		`--json 0 URL/actors/chat/lobby/actions/history`,
	} {
		fmt.Fprintf(w, "  curl %s%s\n", header, strings.ReplaceAll(line, "URL", at))
	}
	page := at + "/"
	if header != "" {
		page += "#token=TOKEN"
	}
	fmt.Fprintf(w, "  and open %s in two windows\n", page)
}
