package jwt_test

import (
	"net/http"
	"testing"

	"github.com/greenroomdb/greenroom/host/front/jwt"
)

// TestFromRequest: a token is in the header, or in a subprotocol.
func TestFromRequest(t *testing.T) {
	in := "greenroom.bearer." + b64("a.b.c")
	for _, tt := range []struct {
		authorization string
		protocols     []string
		want          string
	}{
		{"", nil, ""},
		{"Bearer a.b.c", nil, "a.b.c"},
		{"bEARER   a.b.c ", nil, "a.b.c"},
		{"Bearer", []string{in}, ""},
		{"Bearer ", nil, ""},
		{"Basic a.b.c", nil, ""},
		{"Bearera.b.c", nil, ""},
		{"Basic x", []string{in}, "a.b.c"},
		{"Bearer x", []string{in}, "x"},
		{"", []string{in}, "a.b.c"},
		{"", []string{"greenroom, , " + in + " ,x"}, "a.b.c"},
		{"", []string{"greenroom", in}, "a.b.c"},
		{"", []string{"greenroom.bearer."}, ""},
		{"", []string{"greenroom.bearer.!", in}, ""},
		{"", []string{"x" + in}, ""},
	} {
		r := &http.Request{Header: http.Header{}}
		if tt.authorization != "" {
			r.Header.Set("Authorization", tt.authorization)
		}
		r.Header["Sec-Websocket-Protocol"] = tt.protocols
		if got, ok := jwt.FromRequest(r); got != tt.want || ok != (got != "") {
			t.Errorf("%q, %q: %q, %v, want %q", tt.authorization, tt.protocols, got, ok, tt.want)
		}
	}
}
