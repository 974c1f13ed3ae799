package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// turnValue is the size of what a turn writes, turnsKept how many turns of each actor the
// peer records and plays back.
const (
	turnValue = 100
	turnsKept = 8
)

// hostLines is host/turn: a call of an action that puts one user key, from the call to its
// answer, by one caller of each actor. A turn is committed without waiting, and its answer
// waits until it is durable; the peer makes the same commits and waits for each.
func hostLines(engine string) []line {
	return []line{{
		"host/turn", "turn/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openTurns(ctx, at) }},
		side{rawEngine, func(ctx context.Context, at site) (runner, error) { return openRawTurns(ctx, at) }},
	}}
}

// A turnHost is a host with actors that are called.
type turnHost struct {
	engine *faultkv.Engine
	host   *host.Host
	actors []host.Address
	value  host.Raw
}

var _ runner = (*turnHost)(nil)

func openTurns(ctx context.Context, at site) (h *turnHost, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	// A byte string in CBOR, made of noise.
	h = &turnHost{engine: faultkv.New(engine), value: append(host.Raw{0x58, turnValue}, make([]byte, turnValue)...)}
	noise(newRand(1), h.value[2:])
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	limits := batch.DefaultLimits()
	limits.Storage = 1 << 40
	h.host, err = host.Open(ctx, h.engine, []*host.Actor{putter()}, &host.Options{
		Store: &actorstore.Options{Limits: limits}, MaxAwake: at.sizes.actors, Logger: slog.New(slog.DiscardHandler),
		IdleTimeout: 1 << 60,
	})
	if err != nil {
		return nil, err
	}
	for i := range at.sizes.actors {
		h.actors = append(h.actors, host.Address{Type: "putter", Key: fmt.Sprint(i)})
		if err := h.call(ctx, i); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// putter is the type of the actors.
func putter() *host.Actor {
	key := []byte("key")
	return &host.Actor{Name: "putter", Actions: map[string]host.Handler{
		"put": host.Action(func(c *host.Context, value []byte) (struct{}, error) {
			return struct{}{}, c.KV().Put(key, value)
		}),
	}}
}

func (h *turnHost) call(ctx context.Context, i int) error {
	_, err := h.host.Do(ctx, &host.Call{Actor: h.actors[i], Action: "put", Args: h.value})
	return err
}

func (h *turnHost) run(ctx context.Context, n int) error {
	return together(len(h.actors), n, func(i int) error { return h.call(ctx, i) })
}

func (h *turnHost) counts() faultkv.Counts { return h.engine.Counts() }

func (h *turnHost) close() error {
	var err error
	if h.host != nil {
		err = h.host.Close(context.Background())
	}
	return errors.Join(err, h.engine.Close())
}

// openRawTurns records some turns of each actor in memory. They are played back as commits
// that are waited for: that is what a caller is promised.
func openRawTurns(ctx context.Context, at site) (runner, error) {
	commits, err := recordTurns(ctx, at)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	return &rawCrowd{faultkv.New(engine), 1, commits, make([]int, len(commits))}, nil
}

func recordTurns(ctx context.Context, at site) (commits [][]kv.Commit, err error) {
	at.engine = engineMem
	h, err := openTurns(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for i := range h.actors {
		var of []kv.Commit
		h.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				kept := keep(op.Commit)
				kept.Durability = kv.Durable
				of = append(of, kept)
			}
			return nil
		})
		for range turnsKept {
			if err := h.call(ctx, i); err != nil {
				return nil, err
			}
		}
		h.engine.Hook(nil)
		if len(of) != turnsKept {
			return nil, errManyCommits
		}
		commits = append(commits, of)
	}
	return commits, nil
}
