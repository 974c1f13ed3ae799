package main

import (
	"testing"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/hosttest"
)

func TestWallet(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann, bob := e.Actor("wallet", "ann"), e.Actor("wallet", "bob")
		hosttest.Call[int](ann, "deposit", 500)
		if left := hosttest.Call[int](ann, "give", Gift{"bob", 300}); left != 200 {
			t.Errorf("%d are left", left)
		}
		for cents, code := range map[int]string{300: "too_little", 0: "bad_gift"} {
			if _, err := ann.Do("give", Gift{"bob", cents}); host.Code(err) != code {
				t.Errorf("%d: %v", cents, err)
			}
		}
		e.Crash()
		if a, b := hosttest.Call[int](ann, "deposit", 0), hosttest.Call[int](bob, "deposit", 0); a != 200 || b != 300 {
			t.Errorf("ann has %d, and bob %d", a, b)
		}
	}, wallet)
}
