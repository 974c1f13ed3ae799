package engine_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// modelPages is the database of an instance of RivetKit 2.3. Its pages are JSON, which says, too, which head it has.
type modelPages struct {
	Head uint64
	Has  map[string]string
	Pad  string // of some length, so that the size changes
}

// mostModelPages bounds the database of an instance.
const mostModelPages = 8

// refusalOf returns why the engine refuses something, "" if it doesn't. A database that isn't there yet isn't refused.
func refusalOf(answer rp.ToRunner) string {
	var err *rp.SQLiteError
	switch a := answer.(type) {
	case rp.KVResponse:
		if e, ok := a.Body.(rp.KVError); ok {
			return e.Message
		}
	case rp.Reply[rp.Pages]:
		if err = a.Err; err != nil && err.Code == "database_not_found" {
			return ""
		}
	case rp.Reply[rp.Committed]:
		err = a.Err
	case rp.Reply[rp.StageBegun]:
		err = a.Err
	case rp.Reply[rp.SegmentStaged]:
		err = a.Err
	case rp.Reply[rp.StageFinished]:
		err = a.Err
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// fail ends the instance by an error.
func (i *modelInstance) fail() {
	if !i.gone {
		i.event(rp.Stopped{Code: 1})
		i.gone = true
		delete(i.p.insts, i.id)
	}
}

func (i *modelInstance) fence() rp.Fence {
	return rp.Fence{Generation: rp.Some(uint64(i.at.Generation)), Head: rp.Some(i.pages.Head)}
}

// read reads the database, which must be whole, and of the head that the engine says.
func (i *modelInstance) read() (map[string]int, bool) {
	q := rp.GetPages{Actor: i.id, Fence: rp.Fence{Generation: i.fence().Generation}}
	for n := range uint32(mostModelPages) {
		q.Numbers = append(q.Numbers, n+1)
	}
	got, ok := i.askFor(func(n uint32) rp.ToEngine { q.ID = n; return q }).(rp.Reply[rp.Pages])
	if !ok {
		return nil, false
	}
	i.pages = modelPages{Has: map[string]string{}}
	if got.Err == nil {
		var text strings.Builder
		for _, p := range got.Result.Pages {
			text.WriteString(textOf(p.Data))
		}
		if err := json.Unmarshal([]byte(text.String()), &i.pages); err != nil || rp.Some(i.pages.Head) != got.Result.Head {
			i.p.wrong("%s %d: the database of the head %+v is that of %d: %v", i.id[:4], i.at.Generation, got.Result.Head, i.pages.Head, err)
		}
	}
	all := map[string]int{}
	for key, value := range i.pages.Has {
		all[key], _ = strconv.Atoi(value)
	}
	return all, true
}

// store commits a value, "" for none.
func (i *modelInstance) store(key, value string) bool {
	next := modelPages{Head: i.pages.Head + 1, Has: maps.Clone(i.pages.Has), Pad: strings.Repeat("x", rand.IntN(12_000))}
	if next.Has[key] = value; value == "" {
		delete(next.Has, key)
	}
	text, err := json.Marshal(next)
	must(i.p, err)
	var pages []rp.Page
	for n := uint32(1); len(text) > 0; n++ {
		part := text[:min(len(text), 3900)]
		pages, text = append(pages, page(n, string(part))), text[len(part):]
	}
	if !i.commit(pages) {
		return false
	}
	i.pages = next
	return true
}

// commit makes pages all that there is, at once or in parts.
func (i *modelInstance) commit(pages []rp.Page) bool {
	f, size := i.fence(), uint32(len(pages))
	if rand.IntN(3) > 0 {
		_, ok := i.askFor(func(n uint32) rp.ToEngine { return rp.Commit{ID: n, Actor: i.id, Fence: f, Size: size, Pages: pages} }).(rp.Reply[rp.Committed])
		return ok
	}
	stage, ok := i.askFor(func(n uint32) rp.ToEngine { return rp.BeginStage{ID: n, Actor: i.id, Fence: f} }).(rp.Reply[rp.StageBegun])
	end := rp.FinishStage{Actor: i.id, Generation: f.Generation, TxID: stage.Result.TxID, Size: size}
	for at := 0; at < len(pages) && ok; at++ {
		end.Segments = append(end.Segments, uint32(at))
		_, ok = i.askFor(func(n uint32) rp.ToEngine {
			return rp.StageSegment{ID: n, Actor: i.id, Generation: f.Generation, TxID: end.TxID, First: uint32(at), Pages: pages[at : at+1]}
		}).(rp.Reply[rp.SegmentStaged])
	}
	if ok {
		_, ok = i.askFor(func(n uint32) rp.ToEngine { end.ID = n; return end }).(rp.Reply[rp.StageFinished])
	}
	return ok
}
