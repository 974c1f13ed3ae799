package admin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/limits"
)

// TestLimits: what limits have given is read in pages, and of one of them the actors.
func TestLimits(t *testing.T) {
	r := newRig(t, admin.Options{})
	now := time.UnixMilli(1e12)
	for _, at := range [][2]string{{"calls", "ann"}, {"calls", "bob"}, {"imports", ""}} {
		l := &limits.Limit{Engine: r.store.Engine(), Name: at[0], Value: at[1], Rule: limits.Rule{Concurrency: 2, Every: time.Second, Burst: 5}, Now: func() time.Time { return now }}
		for _, actor := range []string{"a/1", "a/2", "a/3"} {
			if _, err := l.Claim(t.Context(), limits.Claimant{Actor: actor, Part: "work", Fair: "f"}, now.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	page := get[admin.LimitList](r, "/v1/limits?limit=2")
	if l := page.Limits; len(l) != 2 || l[0].Name != "calls" || l[0].Value != "ann" || l[0].Held != 2 || l[0].Waiting != 1 || l[0].Full == "" || l[0].Permits != nil || l[1].Value != "bob" || page.Next == "" {
		t.Errorf("the first page has %+v", page)
	}
	page = get[admin.LimitList](r, "/v1/limits?limit=2&after="+page.Next)
	if l := page.Limits; len(l) != 1 || l[0].Name != "imports" || page.Next != "" {
		t.Errorf("the second page has %+v", page)
	}
	if l := get[admin.LimitList](r, "/v1/limits?name=calls").Limits; len(l) != 2 {
		t.Errorf("of one name there are %+v", l)
	}
	one := get[admin.LimitList](r, "/v1/limits?name=calls&value=bob").Limits
	if len(one) != 1 || len(one[0].Permits) != 2 || one[0].Permits[1].Actor != "a/2" || one[0].Permits[1].Until != admin.NewTime(now.Add(time.Minute)) ||
		len(one[0].Line) != 1 || one[0].Line[0] != (admin.LimitClaim{Actor: "a/3", Part: "work", Fair: "f"}) {
		t.Errorf("one limit is %+v", one)
	}
	for _, bad := range []string{"?value=x", "?after=zz", "?after=00", "?limit=0"} {
		if status, text := r.ask("GET", "/v1/limits"+bad, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}
