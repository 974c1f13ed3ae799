// Package wasm makes actor types of package host out of WebAssembly modules, so that
// actors can be written in other languages than Go, and by people whose code the host
// doesn't trust.
//
//	m, err := wasm.Compile(ctx, "counter", code, nil)
//	h, err := host.Open(ctx, engine, []*host.Type{m.Type()}, nil)
//	…
//	err = errors.Join(h.Close(ctx), m.Close(ctx))
//
// A module is compiled once. Each awake actor has an instance of it, with a memory of its
// own, which is gone when the actor sleeps. Everything that an actor does goes through the
// host functions of the import module "greenroom_v1", which do what the methods of
// host.Context do; docs/wasm.md describes them, and package host/guest is their other
// side in Go.
//
// # What a module can't do
//
// It has no files, no network, no environment, and no clock but that of the turn. Its
// memory, the time of a turn, what it passes to the host in a turn and what it logs are
// bounded (Options). A trap, an endless loop, an argument that makes no sense end its own
// turn, with an error and without anything landed. The instance is thrown away then, and
// the next turn has a new one. So is that of a turn whose commit was refused: the memory
// of an instance knows of no turn that hasn't landed, but for those that the module
// itself has failed.
//
// # What it is not
//
// No way to write workflows: these run beside the turns, and an instance does one thing
// at a time. A type may have a workflow in Go, which its module starts (see
// Module.Type). Nor is there a Run, for the same reason; what happens by itself is
// scheduled.
package wasm

// Files, from the top down:
//
//	crowd.go conns.go functions.go userkeys.go log.go sql.go confine.go wasm.go schedule.go counter.go
//	queue.go instance.go errors.go options.go sections.go instructions.go module.go

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/persist"
)

// A Module is a compiled module: a type of actors. It is safe for concurrent use.
type Module struct {
	name     string
	opts     Options
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil without a folder
	compiled wazero.CompiledModule
	says     abi.Description
	version  string
	crowd    crowd
}

// Compile compiles a module, in its binary form, as the type of actors of that name. It
// runs the module's initialization and asks it what it does, within the bounds of opts;
// nil means the zero Options. The Module must be closed after the host.
//
// Errors: ErrModule if code isn't a module, or not one for this ABI; *host.Error, ErrTrap and
// context.DeadlineExceeded for what the module does when it is asked; those of Options.CacheDir.
func Compile(ctx context.Context, name string, code []byte, opts *Options) (*Module, error) {
	m := &Module{name: name, opts: opts.orDefault(), version: VersionOf(code)}
	code, err := prepare(code)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	if err := m.compile(ctx, code); err != nil {
		return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// compile compiles the module and gets to know it.
func (m *Module) compile(ctx context.Context, code []byte) (err error) {
	if m.compiled, err = m.runtime.CompileModule(ctx, code); err != nil {
		return fmt.Errorf("%w: %w", ErrModule, err)
	}
	if err := m.check(); err != nil {
		return err
	}
	return m.describe(ctx)
}

// open makes the runtime with all that a module can import.
func (m *Module) open(ctx context.Context) (err error) {
	config := wazero.NewRuntimeConfig()
	if m.opts.Interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithMemoryLimitPages(uint32(m.opts.MemoryPages))
	if m.opts.CacheDir != "" {
		if m.cache, err = wazero.NewCompilationCacheWithDir(m.opts.CacheDir); err != nil {
			return fmt.Errorf("wasm: %w", err)
		}
		config = config.WithCompilationCache(m.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	ctx = experimental.WithFunctionListenerFactory(ctx, timed{}) // of the host's functions, not of the module's
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err == nil {
		_, err = hostModule(m.runtime).Instantiate(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("wasm: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

// Version is VersionOf the module's code, and Type.Version of its type.
func (m *Module) Version() string { return m.version }

// VersionOf returns what tells a module from another one: the first 12 hexadecimal digits of the SHA-256 of its code.
func VersionOf(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:6])
}

// Close frees the module. The host that runs its actors must be closed before, or have another type in its place: see host.Host.Replace.
func (m *Module) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

// signatures are what a module must export.
var signatures = map[string]struct{ params, results []api.ValueType }{
	abi.VersionExport:  {nil, []api.ValueType{api.ValueTypeI32}},
	abi.DescribeExport: {nil, nil},
	abi.TurnExport:     {[]api.ValueType{api.ValueTypeI32}, nil},
}

// check looks at what the module exports, and at the functions that it imports.
func (m *Module) check() error {
	exports := m.compiled.ExportedFunctions()
	for name, want := range signatures {
		f := exports[name]
		if f == nil {
			return fmt.Errorf("%w: it doesn't export %s", ErrModule, name)
		}
		if !slices.Equal(f.ParamTypes(), want.params) || !slices.Equal(f.ResultTypes(), want.results) {
			return fmt.Errorf("%w: its %s has another signature", ErrModule, name)
		}
	}
	if m.compiled.ExportedMemories()["memory"] == nil {
		return fmt.Errorf("%w: it exports no memory", ErrModule)
	}
	for _, f := range m.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		if there := m.runtime.Module(from); there == nil || there.ExportedFunctionDefinitions()[name] == nil {
			return fmt.Errorf("%w: it imports %.80q of %.80q, which isn't there", ErrModule, name, from)
		}
	}
	return nil
}

// describe asks the module which ABI it is for, and what it does.
func (m *Module) describe(ctx context.Context) error {
	i := &instance{module: m}
	defer i.drop()
	ctx, cancel := context.WithTimeout(ctx, m.opts.TurnTimeout)
	defer cancel()
	c := &call{instance: i, ctx: ctx}
	if err := i.run(c, func(ctx context.Context) error { return i.ask(ctx, c) }); err != nil {
		return fmt.Errorf("wasm: ask %s what it does: %w", m.name, err)
	}
	if err := c.reply.Decode(&m.says); err != nil {
		return fmt.Errorf("%w: its description: %w", ErrModule, err)
	}
	return nil
}

// ask calls the two exports that there are for it.
func (i *instance) ask(ctx context.Context, c *call) error {
	got, err := i.guest.ExportedFunction(abi.VersionExport).Call(ctx)
	if err != nil {
		return err
	}
	if v := api.DecodeI32(got[0]); v != abi.Version {
		return fmt.Errorf("%w: it is for version %d of the ABI, not %d", ErrModule, v, abi.Version)
	}
	_, err = i.guest.ExportedFunction(abi.DescribeExport).Call(ctx)
	return err
}

// Type returns the type for host.Open, with the hooks that the module has. What modules
// can't say may be set by the caller: MustCreate, its Queue, its DB, its Letters, and a Workflow in Go;
// then the module must say which messages it wants. DB.Extensions has one already, which
// confines modules: what the caller adds behind it, modules may use. DB.Plain is set: what
// FTS5 and R-Trees do isn't bounded in time.
func (m *Module) Type() *host.Type {
	a := &host.Type{
		Name:         m.name,
		Version:      m.version,
		Vars:         func(context.Context, host.Address) (any, error) { return &instance{module: m}, nil },
		MessageNames: slices.Clone(m.says.Messages),
		Letters:      m.letters(),
	}
	a.DB.Extensions, a.DB.Plain = []func(*sqlite3.Conn) error{m.confine}, true
	a.DB.TempBytes = m.opts.TempBytes
	for _, name := range slices.Compact(slices.Sorted(slices.Values(m.says.Actions))) {
		a.Actions = append(a.Actions, host.NewAction(name, func(c *host.Context, args host.Raw) (host.Raw, error) {
			return act(c, name, args)
		}))
	}
	if m.says.Other {
		a.Other = act
	}
	for _, kind := range m.says.Hooks {
		m.hook(a, kind)
	}
	return a
}

// letters returns what the module's actors may send.
func (m *Module) letters() *host.Letters {
	l := m.opts.Letters
	if l.To == nil {
		l.To = []string{m.name + "/*"}
	}
	return &l
}

// hook sets one hook of a. Kinds that aren't known are of a later SDK.
func (m *Module) hook(a *host.Type, kind string) {
	plain := func(c *host.Context) error { return tell(c, &abi.Event{Kind: kind}) }
	switch kind {
	case abi.KindCreate:
		a.Create = plain
	case abi.KindWake:
		a.Wake = plain
	case abi.KindSleep:
		a.Sleep = plain
	case abi.KindDestroy:
		a.Destroy = plain
	case abi.KindConnect:
		a.Connect = func(c *host.Context, n *host.Conn) error {
			return tell(c, &abi.Event{Kind: kind, Conn: string(n.ID())})
		}
	case abi.KindDisconnect:
		a.Disconnect = func(c *host.Context, n *host.Conn, reason string) error {
			return tell(c, &abi.Event{Kind: kind, Conn: string(n.ID()), Reason: reason})
		}
	case abi.KindSubscribe:
		a.Subscribe = func(c *host.Context, n *host.Conn, event string) error {
			return tell(c, &abi.Event{Kind: kind, Conn: string(n.ID()), Name: event})
		}
	case abi.KindAlarm:
		a.Alarm = func(c *host.Context, e persist.Event) error {
			s, err := scheduled(&e)
			if err != nil {
				return err
			}
			return tell(c, &abi.Event{Kind: kind, Alarm: &s})
		}
	case abi.KindMessage:
		a.Message = func(c *host.Context, msg *greenroom.Message) error {
			return tell(c, &abi.Event{Kind: kind, Message: message(msg)})
		}
	}
}

// act runs an action.
func act(c *host.Context, name string, args host.Raw) (host.Raw, error) {
	e := &abi.Event{Kind: abi.KindAction, Name: name, Args: abi.Raw(args)}
	if n := c.Conn(); n != nil {
		e.Conn = string(n.ID())
	}
	e.Caller = callerOf(c.Caller())
	return instanceOf(c).handle(c, e)
}

// tell runs a hook.
func tell(c *host.Context, e *abi.Event) error {
	e.Caller = callerOf(c.Caller())
	_, err := instanceOf(c).handle(c, e)
	return err
}

// callerOf returns a caller as modules get it.
func callerOf(c *host.Caller) *abi.Caller {
	if c == nil {
		return nil
	}
	return &abi.Caller{ID: c.ID, Claims: string(c.Claims)}
}

// instanceOf returns whose turn it is.
func instanceOf(c *host.Context) *instance { return c.Vars().(*instance) }
