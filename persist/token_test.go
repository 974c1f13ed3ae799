package persist

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

// TestToken: a token is made once, in the form of the format, and stays.
func TestToken(t *testing.T) {
	w := newWorld(t)
	w.enter()
	w.eng.Reset()
	tok, err := OpenToken(ctx, w.actor)
	must(t, err)
	if c := w.eng.Counts(); c.Commits != 1 || c.Durable != 1 {
		t.Errorf("%+v", c)
	}
	stored, err := w.actor.Get(ctx, []byte{3}, nil)
	must(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(string(stored))
	if err != nil || len(raw) != 32 || len(stored) != 43 || tok.Reveal() != string(stored) {
		t.Errorf("stored %q, %v", stored, err)
	}
	w.enter()
	again, err := OpenToken(ctx, w.actor)
	if must(t, err); again.Reveal() != tok.Reveal() {
		t.Error("another token after a restart")
	}
	other := newWorld(t)
	if o, err := OpenToken(ctx, other.enter()); err != nil || o.Reveal() == tok.Reveal() {
		t.Errorf("two actors have one token, %v", err)
	}
}

// TestTokenTogether: who comes at the same time gets the same token.
func TestTokenTogether(t *testing.T) {
	w := newWorld(t)
	w.enter()
	var wg sync.WaitGroup
	var toks [8]*Token
	for i := range toks {
		wg.Go(func() {
			var err error
			if toks[i], err = OpenToken(ctx, w.actor); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tok := range toks {
		if tok.Reveal() != toks[0].Reveal() {
			t.Error("two tokens")
		}
	}
}

// TestTokenCheck: nothing but the token is the token.
func TestTokenCheck(t *testing.T) {
	w := newWorld(t)
	tok, err := OpenToken(ctx, w.enter())
	must(t, err)
	s := tok.Reveal()
	flipped := []byte(s)
	flipped[42] ^= 1
	for presented, want := range map[string]bool{
		s: true, "": false, s[:42]: false, s + "x": false, string(flipped): false, strings.ToUpper(s): false, " " + s: false,
	} {
		if tok.Check(presented) != want {
			t.Errorf("%q: %v", presented, !want)
		}
	}
	for header, want := range map[string]bool{
		"Bearer " + s: true, "bearer  " + s: true, "Bearer": false, "Bearer ": false, s: false, "Basic " + s: false, "Bearer x" + s: false, "": false,
	} {
		if tok.CheckBearer(header) != want {
			t.Errorf("%q: %v", header, !want)
		}
	}
}

// TestTokenPrints: a token doesn't get into logs.
func TestTokenPrints(t *testing.T) {
	w := newWorld(t)
	tok, err := OpenToken(ctx, w.enter())
	must(t, err)
	var l logs
	l.logger().Info("x", "token", tok, slog.Any("t", tok))
	for _, s := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s %q", tok, tok, tok, tok, tok), l.b.String()} {
		if strings.Contains(s, tok.Reveal()) {
			t.Errorf("printed as %s", s)
		}
	}
}

// TestTokenStored: one that was made elsewhere is as good, if it can be one.
func TestTokenStored(t *testing.T) {
	for stored, ok := range map[string]bool{"secret": true, "": false, "\xff": false, strings.Repeat("x", 2000): false} {
		w := newWorld(t)
		must(t, w.enter().Put(ctx, []byte{3}, []byte(stored)))
		tok, err := OpenToken(ctx, w.actor)
		if ok && (err != nil || !tok.Check(stored)) || !ok && (!errors.Is(err, ErrToken) || !errors.Is(err, actorstore.ErrCorrupt)) {
			t.Errorf("%.10q: %v", stored, err)
		}
	}
}
